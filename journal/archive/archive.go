// Package archive owns the backup of a journal: what stands in the archive, how
// it is made and verified, and how it takes the place of a journal.
//
// An archive is a ZIP file without compression: journal.db, the results over
// 1 MiB that its records name as results/ID.json, settings.json (secrets
// replaced) and manifest.json with a SHA-256 of each other member. It holds no
// token. [Create] gives it its name only when a copy of the journal was opened
// on its own, checked and counted; [Restore] looks at all of that again before
// it touches anything. Both refuse with codes of package broker, and a refusal
// leaves no archive and changes nothing. A member of another name, a path, a
// compressed member and a second member of one name are refused.
//
// Concurrency: no goroutine is started. Two calls must not use one staging
// directory; [Restore] needs a state directory that is locked by its caller and
// on which no journal is open for writing.
package archive

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"berth/broker"
	"berth/journal"
)

// The members of an archive; results stand below resultsDir.
const (
	journalName  = "journal.db"
	settingsName = "settings.json"
	manifestName = "manifest.json"
	resultsDir   = "results"

	databaseType = "bbolt"
	maxManifest  = 64 << 20
)

// Manifest says what an archive holds.
type Manifest struct {
	CreatedUTC    string         `json:"CreatedUtc"`
	BerthVersion  string         `json:"BerthVersion"`
	DatabaseType  string         `json:"DatabaseType"`
	SchemaVersion int            `json:"SchemaVersion"`
	RecordCounts  map[string]int `json:"RecordCounts"`
	Sha256        string         `json:"Sha256"` // of journal.db
	// Members has the SHA-256 of every member but the manifest.
	Members             map[string]string `json:"Members"`
	SettingsRedacted    bool              `json:"settingsRedacted"`
	RedactedSettingsNum int               `json:"redactedSettingCount"`
}

// Source is a journal that can be copied; *journal.Journal is one.
type Source interface {
	Copy(ctx context.Context, dir string) error
}

// Options is what goes into an archive beside the journal.
type Options struct {
	Version  string
	Now      func() time.Time
	Settings json.RawMessage // with every secret replaced; nil: not known, stored as null
	Redacted int             // secrets that were replaced in Settings
	// Working lists the missions that agents work on according to a journal, which
	// is not replaced while there are any; nil: nobody knows of missions.
	Working func(*journal.Journal) ([]string, error)
	// Carry writes into a journal that is to take the place of the present one
	// what a restore does not undo; nil: there is nothing of that kind. An error
	// ends the restore and leaves everything as it was.
	Carry func(ctx context.Context, present, next *journal.Journal) error
}

// Create writes a verified archive of the journal to path, 0600, and replaces
// an archive that stands there when the new one is whole. staging is a directory
// that does not exist; it is gone afterwards.
func Create(ctx context.Context, source Source, staging, path string, o Options) (Manifest, error) {
	failed := func(err error) (Manifest, error) {
		return Manifest{}, refuse(broker.CodeBackupFailed, "The journal could not be copied; no archive was written.", err)
	}
	if err := os.Mkdir(staging, 0o700); err != nil {
		return failed(err)
	}
	defer os.RemoveAll(staging) // what stays is taken away by the next backup
	if err := source.Copy(ctx, staging); errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrUnreadable) {
		return Manifest{}, refuse(broker.CodeBackupVerify, "The copy of the journal is not sound; no archive was written.", err)
	} else if err != nil {
		return failed(err)
	}
	counts, schema, err := inspect(ctx, filepath.Join(staging, journalName))
	if err != nil {
		return Manifest{}, refuse(broker.CodeBackupVerify, "The copy of the journal did not pass its check; no archive was written.", err)
	}
	m := Manifest{CreatedUTC: broker.FormatTime(o.Now()), BerthVersion: o.Version, DatabaseType: databaseType,
		SchemaVersion: schema, RecordCounts: counts, Members: map[string]string{},
		SettingsRedacted: o.Redacted > 0, RedactedSettingsNum: o.Redacted}
	err = WriteFile(path, func(f *os.File) error { return pack(ctx, f, staging, &m, o.Settings) })
	var refusal *broker.Refusal
	if err != nil && !errors.As(err, &refusal) {
		return Manifest{}, refuse(broker.CodeBackupFailed, "The archive could not be written; none is left.", err)
	}
	return m, err
}

// inspect opens a journal on its own, checks it whole and counts it.
func inspect(ctx context.Context, path string) (counts map[string]int, schema int, err error) {
	j, err := journal.OpenReadOnly(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	problems, err := j.Check(ctx)
	if err != nil {
		return nil, 0, err
	}
	if len(problems) > 0 {
		return nil, 0, fmt.Errorf("problems in the journal: %d; the first is %s", len(problems), problems[0])
	}
	counts, err = j.Counts()
	return counts, j.Schema(), err
}

// pack writes the members and, last, the manifest that vouches for them.
func pack(ctx context.Context, w io.Writer, dir string, m *Manifest, settings json.RawMessage) error {
	z := zip.NewWriter(w)
	if settings == nil {
		settings = json.RawMessage("null")
	}
	entries, err := os.ReadDir(filepath.Join(dir, resultsDir))
	if err != nil {
		return err
	}
	names := []string{journalName}
	for _, e := range entries {
		names = append(names, resultsDir+"/"+e.Name())
	}
	for _, name := range names {
		err := member(z, m, name, func(w io.Writer) error {
			f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
			if err != nil {
				return err
			}
			_, err = io.Copy(w, heeding{ctx, f})
			return errors.Join(err, f.Close())
		})
		if err != nil {
			return err
		}
	}
	if err := member(z, m, settingsName, func(w io.Writer) error { _, err := w.Write(settings); return err }); err != nil {
		return err
	}
	m.Sha256 = m.Members[journalName]
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	out, err := z.CreateHeader(&zip.FileHeader{Name: manifestName, Method: zip.Store})
	if err == nil {
		_, err = out.Write(text)
	}
	if err != nil {
		return err
	}
	return z.Close()
}

// member writes one member and notes its sum.
func member(z *zip.Writer, m *Manifest, name string, fill func(io.Writer) error) error {
	out, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
	if err != nil {
		return err
	}
	sum := sha256.New()
	if err := fill(io.MultiWriter(out, sum)); err != nil {
		return err
	}
	m.Members[name] = sumText(sum)
	return nil
}

func sumText(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// heeding is a reader that stops when its context has ended.
type heeding struct {
	ctx context.Context
	r   io.Reader
}

func (h heeding) Read(p []byte) (int, error) {
	if h.ctx.Err() != nil {
		return 0, context.Cause(h.ctx)
	}
	return h.r.Read(p)
}

// WriteFile makes a file, 0600 from its first byte, beside path, and gives it
// that name when fill has ended well and the bytes are on disk. Of an error
// nothing is left.
func WriteFile(path string, fill func(*os.File) error) error {
	if err := replaceable(path); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return refuse(broker.CodeBackupPath, "No archive can be written there; nothing was written.", err)
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return journal.SyncDir(filepath.Dir(path))
}

// replaceable refuses a path at which something else than an archive stands: a
// backup takes the place of a backup, and a mistyped path costs nobody a file.
func replaceable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil, info.Mode().IsRegular() && info.Size() == 0:
		return nil // what cannot be looked at is said where it is written to
	case !info.Mode().IsRegular():
		return refuse(broker.CodeBackupPath, "The archive's path is not that of a file; nothing was written.", nil)
	}
	z, err := zip.OpenReader(path)
	if err == nil {
		members := map[string]bool{}
		for _, f := range z.File {
			members[f.Name] = true
		}
		err = z.Close()
		if err == nil && !(members[manifestName] && members[journalName]) {
			err = errors.New("it has no journal and manifest")
		}
	}
	if err != nil {
		return refuse(broker.CodeBackupPath, "A file that is no backup stands at the archive's path; nothing was written.", err)
	}
	return nil
}

// refuse makes a refusal whose Cause is err's text.
func refuse(code broker.Code, message string, err error) *broker.Refusal {
	detail := map[string]any{"Reason": code}
	if err != nil {
		detail["Cause"] = err.Error()
	}
	return broker.Refuse(code, message, detail)
}
