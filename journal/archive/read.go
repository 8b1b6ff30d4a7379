package archive

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"

	"berth/broker"
	"berth/journal"
)

// resultName is a member below results: no other path gets out of an archive.
var resultName = regexp.MustCompile(`^results/[A-Za-z0-9_-]{1,64}\.json$`)

func unreadable(err error) error {
	return refuse(broker.CodeBackupUnreadable, "This is not a whole archive of a journal; nothing was changed.", err)
}

// Verify reads a whole archive and compares each member with the manifest.
func Verify(ctx context.Context, path string) (Manifest, error) { return read(ctx, path, "") }

// read verifies an archive and, with a directory, writes journal.db and the
// results there.
func read(ctx context.Context, path, dir string) (m Manifest, err error) {
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return m, refuse(broker.CodeBackupNotFound, "There is no such archive; nothing was changed.", err)
	} else if err == nil && !info.Mode().IsRegular() {
		return m, unreadable(errors.New("it is not a file"))
	}
	z, err := zip.OpenReader(path)
	if err != nil {
		return m, unreadable(err)
	}
	defer z.Close()
	members := map[string]*zip.File{}
	for _, f := range z.File {
		known := f.Name == journalName || f.Name == settingsName || f.Name == manifestName || resultName.MatchString(f.Name)
		if !known || members[f.Name] != nil || f.Method != zip.Store {
			return m, unreadable(fmt.Errorf("the member %q is not one of an archive", f.Name))
		}
		members[f.Name] = f
	}
	if m, err = readManifest(members[manifestName]); err != nil {
		return m, err
	}
	delete(members, manifestName)
	for name := range maps.Keys(m.Members) {
		if members[name] == nil {
			return m, unreadable(fmt.Errorf("the member %q is missing", name))
		}
	}
	if m.Members[journalName] == "" || m.Members[journalName] != m.Sha256 {
		return m, unreadable(errors.New("the manifest does not vouch for journal.db"))
	}
	for name, f := range members {
		to := ""
		if dir != "" && name != settingsName {
			to = filepath.Join(dir, filepath.FromSlash(name))
		}
		sum, err := extract(ctx, f, to)
		if err != nil {
			return m, unreadable(fmt.Errorf("the member %q: %w", name, err))
		}
		if sum != m.Members[name] {
			return m, unreadable(fmt.Errorf("the member %q is not what the manifest says", name))
		}
	}
	return m, nil
}

func readManifest(f *zip.File) (m Manifest, err error) {
	if f == nil || f.UncompressedSize64 > maxManifest {
		return m, unreadable(errors.New("it has no manifest"))
	}
	r, err := f.Open()
	if err != nil {
		return m, unreadable(err)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxManifest))
	if err := errors.Join(err, r.Close()); err != nil {
		return m, unreadable(err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, unreadable(fmt.Errorf("its manifest: %w", err))
	}
	switch {
	case m.DatabaseType == "":
		return m, unreadable(errors.New("its manifest names no kind of database"))
	case m.DatabaseType != databaseType:
		return m, broker.Refuse(broker.CodeBackupProvider, fmt.Sprintf("The archive holds a %.64q database; this broker keeps bbolt. Nothing was changed.", m.DatabaseType),
			map[string]any{"Reason": broker.CodeBackupProvider, "DatabaseType": m.DatabaseType})
	case !journal.ReadsSchema(m.SchemaVersion):
		return m, broker.Refuse(broker.CodeBackupSchema, fmt.Sprintf("The archive has schema version %d and this program reads version %d. Nothing was changed.", m.SchemaVersion, journal.SchemaVersion),
			map[string]any{"Reason": broker.CodeBackupSchema, "SchemaVersion": m.SchemaVersion, "Reads": journal.SchemaVersion})
	}
	return m, nil
}

// extract reads a member whole, into a file when to is not empty, and gives its
// sum. The ZIP's own sum is compared at its end.
func extract(ctx context.Context, f *zip.File, to string) (sum string, err error) {
	r, err := f.Open()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := sha256.New()
	if to == "" {
		_, err := io.Copy(h, heeding{ctx, r})
		return sumText(h), err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.MultiWriter(out, h), heeding{ctx, r})
	if err == nil {
		err = out.Sync()
	}
	return sumText(h), errors.Join(err, out.Close())
}
