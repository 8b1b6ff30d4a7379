package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/bbolt"

	"berth/broker"
)

// maxInline is the largest result that is kept in the bbolt file: in the commit
// of a larger one every accept would wait for it.
const maxInline = 1 << 20

const (
	resultSuffix = ".json"
	stageSuffix  = ".tmp"
)

// bigResult is a large result on its way: written and synced under a name of
// its own by the caller, and given its job's name by the writer, so that of two
// outcomes of one job the second cannot overwrite the first.
type bigResult struct {
	staged, final string
	published     bool // owned by the writer until its write is done
}

// stage writes the result of a change to a file when it is large; else it gives
// nil.
func (j *Journal) stage(ctx context.Context, id string, c broker.JobChange) (*bigResult, error) {
	if len(c.Result) <= maxInline || !c.To.Final() {
		return nil, nil
	}
	if j.readOnly {
		return nil, ErrReadOnly
	}
	if err := pause(ctx, "write a result"); err != nil {
		return nil, err
	}
	var r record
	if err := j.view(func(tx *bbolt.Tx) (err error) { r, err = getRecord(tx, id); return err }); err != nil {
		return nil, err
	}
	if r.Status.Final() {
		return nil, nil // the writer drops it
	}
	f, err := os.CreateTemp(j.results, id+".*"+stageSuffix) // mode 0600
	if err != nil {
		return nil, fmt.Errorf("write the result of %s: %w", id, err)
	}
	b := &bigResult{staged: f.Name(), final: j.resultPath(id)}
	_, err = f.Write(c.Result)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		b.discard()
		return nil, fmt.Errorf("write the result of %s: %w", id, err)
	}
	return b, nil
}

// publish gives the file its job's name, durably. The writer may call it again
// when its group is tried again.
func (b *bigResult) publish(j *Journal) error {
	if b.published {
		return nil
	}
	if err := os.Rename(b.staged, b.final); err != nil {
		return fmt.Errorf("name a result file: %w", err)
	}
	if err := SyncDir(j.results); err != nil {
		return err
	}
	b.published = true
	j.opts.Hook("result-file:after-fsync")
	return nil
}

// discard removes what was not published. A file that was published and whose
// record did not follow is removed by Recover, or replaced by the next try.
func (b *bigResult) discard() {
	if b != nil {
		_ = os.Remove(b.staged) // gone when published; else Recover finds it
	}
}

func (j *Journal) resultPath(id string) string {
	return filepath.Join(j.results, id+resultSuffix)
}

// inlineResult copies the result that is kept in the bbolt file.
func inlineResult(tx *bbolt.Tx, r record) []byte {
	if r.ResultFile || r.ResultBytes == 0 {
		return nil
	}
	if raw := tx.Bucket(bucketResults).Get([]byte(r.ID)); raw != nil {
		return append(make([]byte, 0, len(raw)), raw...)
	}
	return nil
}

// fileResult reads a result that is kept in a file.
func (j *Journal) fileResult(r record) ([]byte, error) {
	raw, err := os.ReadFile(j.resultPath(r.ID))
	if err != nil {
		return nil, fmt.Errorf("read the result of %s: %w", r.ID, err)
	}
	return raw, nil
}

// orphanFiles gives the files in the results directory that belong to no final
// record: left by a crash between a file and its record, or between a pruned
// record and its file. The file of a record that cannot be read is kept.
func (j *Journal) orphanFiles() ([]string, error) {
	entries, err := os.ReadDir(j.results)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the journal's results: %w", err)
	}
	var orphans []string
	for _, e := range entries {
		name := e.Name()
		id, isResult := strings.CutSuffix(name, resultSuffix)
		switch {
		case e.IsDir():
		case strings.HasSuffix(name, stageSuffix):
			orphans = append(orphans, name)
		case isResult:
			belongs, err := j.ownsFile(id)
			if err != nil {
				return nil, err
			}
			if !belongs {
				orphans = append(orphans, name)
			}
		}
	}
	return orphans, nil
}

func (j *Journal) ownsFile(id string) (bool, error) {
	var r record
	err := j.view(func(tx *bbolt.Tx) (err error) { r, err = getRecord(tx, id); return err })
	switch {
	case errors.Is(err, ErrUnreadable):
		return true, nil
	case errors.Is(err, broker.ErrJobNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return r.ResultFile, nil
}
