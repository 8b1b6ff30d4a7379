//go:build unix

package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"berth/transport/guard/procid"
)

// maxRecord bounds a record's file, in bytes.
const maxRecord = 64 << 10

// The names of the ledger's files: a record, and one that was being written.
const (
	recordSuffix  = ".json"
	partialSuffix = ".partial"
)

// Record is what is remembered of one child: enough to recognise it and its
// descendants, nothing of its arguments, and of its environment the mark alone.
type Record struct {
	Name    string           `json:"name,omitempty"` // the backend's
	Command string           `json:"command"`
	Guard   procid.ID        `json:"guard"`
	Child   procid.ID        `json:"child"`
	Pipes   []procid.PipeEnd `json:"pipes,omitempty"` // the child's ends of its three
	Mark    string           `json:"mark,omitempty"`  // the value of MarkVariable; empty: written by a broker that gave none
}

// Ledger is a directory with one small file for each child that runs. It is for
// one broker at a time.
type Ledger struct {
	dir string

	mu  sync.Mutex
	own map[string]struct{} // files of this broker's children
}

// OpenLedger uses dir, which it makes (0700) when it is missing.
func OpenLedger(dir string) (*Ledger, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("ledger of children: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("ledger of children: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("ledger of children: %s is no directory", dir)
	}
	return &Ledger{dir: dir, own: make(map[string]struct{})}, nil
}

// add writes a record and returns what removes it. The file is complete or not
// there. It is not synced: a crash of the machine ends the processes too.
func (l *Ledger) add(rec Record) (forget func() error, err error) {
	data, err := json.Marshal(rec)
	if err != nil {
		return nil, fmt.Errorf("ledger of children: %w", err)
	}
	f, err := os.CreateTemp(l.dir, fmt.Sprintf("%d-*%s", rec.Guard.PID, partialSuffix)) // 0600
	if err != nil {
		return nil, fmt.Errorf("ledger of children: %w", err)
	}
	partial := f.Name()
	final := strings.TrimSuffix(partial, partialSuffix) + recordSuffix
	name := filepath.Base(final)
	l.mu.Lock()
	l.own[name] = struct{}{}
	l.mu.Unlock()
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(partial, final)
	}
	if err != nil {
		l.disown(name)
		return nil, fmt.Errorf("ledger of children: %w", errors.Join(err, os.Remove(partial)))
	}
	return func() error {
		defer l.disown(name)
		if err := os.Remove(final); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("ledger of children: %w", err)
		}
		return nil
	}, nil
}

func (l *Ledger) disown(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.own, name)
}

// foreign lists the files that an earlier broker left.
func (l *Ledger) foreign() (records, partials []string, err error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("ledger of children: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		base, isPartial := strings.CutSuffix(e.Name(), partialSuffix)
		if isPartial {
			base += recordSuffix
		}
		if _, mine := l.own[base]; mine || !strings.HasSuffix(base, recordSuffix) {
			continue
		}
		if isPartial {
			partials = append(partials, e.Name())
		} else {
			records = append(records, e.Name())
		}
	}
	return records, partials, nil
}

// read reads one record.
func (l *Ledger) read(name string) (Record, error) {
	f, err := os.Open(filepath.Join(l.dir, name))
	if err != nil {
		return Record{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return Record{}, err
	}
	return parseRecord(data)
}

var errRecord = errors.New("not a record of a child")

// parseRecord reads what add wrote.
func parseRecord(data []byte) (Record, error) {
	if len(data) > maxRecord {
		return Record{}, fmt.Errorf("%w: too long", errRecord)
	}
	var rec Record
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&rec); err != nil {
		return Record{}, fmt.Errorf("%w: %w", errRecord, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Record{}, fmt.Errorf("%w: something follows it", errRecord)
	}
	if rec.Guard.PID <= 1 || rec.Child.PID <= 1 || rec.Guard.Boot != rec.Child.Boot {
		return Record{}, fmt.Errorf("%w: it names no processes", errRecord)
	}
	return rec, nil
}
