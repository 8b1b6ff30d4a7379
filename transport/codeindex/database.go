//go:build unix

package codeindex

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"modernc.org/sqlite" // the driver "sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"berth/broker/native/codeindex"
)

// format is the layout of the database and the rules by which text was cut and
// judged; an index of another one is built anew.
const format = "1"

// A chunk of a file for reference only has a rowid below zero, so that a search
// leaves such chunks out at no cost. terms has no text of its own, and no places
// of terms: hits are counted in the chunks.
const schema = `
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files(id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, language TEXT NOT NULL, test INTEGER NOT NULL, skipped TEXT NOT NULL);
CREATE TABLE chunks(id INTEGER PRIMARY KEY, file INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, defines TEXT NOT NULL, content TEXT NOT NULL);
CREATE INDEX chunks_of ON chunks(file);
CREATE TABLE names(name TEXT NOT NULL, chunk INTEGER NOT NULL, PRIMARY KEY(name, chunk)) WITHOUT ROWID;
CREATE VIRTUAL TABLE terms USING fts5(term, content='', contentless_delete=1, detail=none, tokenize='ascii');
`

// meta is what an index says of itself.
type meta struct {
	Format  string
	Commit  string
	Branch  string
	URL     string // its digest
	At      time.Time
	Files   int
	Chunks  int
	Skipped map[string]int
}

func (m meta) built() codeindex.Built {
	return codeindex.Built{Commit: m.Commit, IndexedAt: m.At, Documents: m.Files, Chunks: m.Chunks, Skipped: m.Skipped}
}

func open(path, pragmas string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+pragmas)
}

func readMeta(ctx context.Context, db *sql.DB) (m meta, err error) {
	var raw string
	if err := db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'meta'").Scan(&raw); err != nil {
		return m, err
	}
	return m, json.Unmarshal([]byte(raw), &m)
}

// reader is a finished index, open.
type reader struct {
	db   *sql.DB
	meta meta
	refs int  // guarded by the engine's lock, as what follows
	gone bool // closed once nobody reads
	// damage was found in it while it was read: it is of no use until another one
	// takes its place.
	damage error
}

const (
	finished = "index.db"
	unready  = "next.db"
)

func (e *Engine) dir(vesselID string) string { return filepath.Join(e.opts.Root, vesselID) }

// acquire gives the finished index of a vessel and how it is given back.
func (e *Engine) acquire(vesselID string) (*reader, func(), error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.readers[vesselID]
	if r == nil {
		var err error
		if r, err = load(filepath.Join(e.dir(vesselID), finished)); err != nil {
			return nil, nil, err
		}
		e.readers[vesselID] = r
	}
	if r.damage != nil {
		return nil, nil, r.damage
	}
	r.refs++
	return r, sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		r.refs--
		e.drop(r)
	}), nil
}

// drop closes a reader that is gone and that nobody uses; with the lock held.
func (e *Engine) drop(r *reader) {
	if r.gone && r.refs == 0 {
		_ = r.db.Close() // it was only read
	}
}

// retire has the next reader of a vessel open its index anew.
func (e *Engine) retire(vesselID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.readers[vesselID]; r != nil {
		delete(e.readers, vesselID)
		r.gone = true
		e.drop(r)
	}
}

// spoilt keeps that the finished index of a vessel is damaged, where err says so.
func (e *Engine) spoilt(vesselID string, err error) error {
	if !damaged(err) {
		return err
	}
	err = fmt.Errorf("%w: %w", codeindex.ErrUnreadable, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.readers[vesselID]; r != nil {
		r.damage = err
	}
	return err
}

// damaged says whether a database failed because of what stands in its file, or
// because the disk does not give it.
func damaged(err error) bool {
	var failed *sqlite.Error
	if !errors.As(err, &failed) {
		return false
	}
	switch failed.Code() & 0xff { // the rest of a code is detail
	case sqlitelib.SQLITE_CORRUPT, sqlitelib.SQLITE_NOTADB, sqlitelib.SQLITE_IOERR:
		return true
	}
	return false
}

// errOtherFormat is an index that this build cannot read.
var errOtherFormat = errors.New("it was written by another version")

func load(path string) (*reader, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, codeindex.ErrNone
	} else if err != nil {
		return nil, err
	}
	// Not mapped into memory: a file that a disk does not give, or that was cut
	// short, would then end the broker with a signal instead of failing a search.
	db, err := open(path, "mode=ro&immutable=1&_pragma=query_only(1)&_pragma=mmap_size(0)&_pragma=cache_size(-16384)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(maxReaders)
	db.SetMaxIdleConns(maxReaders)
	ctx, cancel := context.WithTimeout(context.Background(), openLimit)
	defer cancel()
	m, err := readMeta(ctx, db)
	if err == nil && m.Format != format {
		err = errOtherFormat
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the index: %w", err), db.Close())
	}
	return &reader{db: db, meta: m}, nil
}

// Built describes the finished index of a vessel.
func (e *Engine) Built(vesselID string) (codeindex.Built, error) {
	r, release, err := e.acquire(vesselID)
	if err != nil {
		return codeindex.Built{}, err
	}
	defer release()
	return r.meta.built(), nil
}

func itoa(n int) string { return strconv.Itoa(n) }
