package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

var (
	// ErrClosed is a call on a journal that was closed.
	ErrClosed = errors.New("the journal is closed")
	// ErrLocked is a file that another process, or another Journal, holds.
	ErrLocked = errors.New("the journal is in use by another process")
	// ErrInDoubt is a write whose caller stopped waiting, or whose commit
	// failed, when it may already have happened.
	ErrInDoubt = errors.New("the write may have happened")
	// ErrReadOnly is a write on a journal that was opened read-only.
	ErrReadOnly = errors.New("the journal is open read-only")
)

const (
	lockTimeout  = time.Second
	initialMap   = 1 << 30 // a map that must grow waits for every reader
	fillPercent  = 0.9     // of a page, in buckets that are appended to
	resultsDir   = "results"
	defaultQueue = 1024
	defaultGrace = 30 * time.Second
)

// Options tune a journal. The zero value is for production.
type Options struct {
	Now    func() time.Time // of event ids; default time.Now
	Random io.Reader        // of event ids; default crypto/rand; used by one goroutine
	Logger *slog.Logger     // default: discard

	// QueueLimit is how many creations may wait, and apart from them how many
	// other writes stand in the queue before the next ones wait outside it;
	// default 1024.
	QueueLimit int
	// Grace is how long a caller whose context ended, and whose write is already
	// in a commit, and how long Close, wait for that commit; default 30 s.
	Grace time.Duration

	// Hook, when set, is called by the writer at named points, for crash tests.
	Hook func(point string)
	// Commit, when set, stands around each commit, for fault tests: it may fail
	// without calling commit, call it and fail, or take its time.
	Commit func(commit func() error) error
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.QueueLimit <= 0 {
		o.QueueLimit = defaultQueue
	}
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	if o.Hook == nil {
		o.Hook = func(string) {}
	}
	if o.Commit == nil {
		o.Commit = func(commit func() error) error { return commit() }
	}
	return o
}

// Journal is an open journal.
type Journal struct {
	// Fixed at construction.
	path     string
	results  string // directory of large results
	opts     Options
	readOnly bool
	slots    chan struct{} // held by each write, other than a creation, in the queue
	wake     chan struct{}
	stopping chan struct{}
	stopped  chan struct{} // closed when the writer has ended

	// Owned by the writer.
	lastEvent string // greatest event id that was handed out

	// Shared.
	file     atomic.Pointer[file] // the present one; replaced by Adopt
	queue    queue
	watchers watchers
	commits  atomic.Uint64
	writes   atomic.Uint64
	records  atomic.Int64 // rows of the bucket of jobs
	doubtful atomic.Bool  // a commit failed and may have happened: records is not known

	stopOnce sync.Once
	kept     sync.Once
}

// file is an open file of a journal. It is not changed.
type file struct {
	db        *bbolt.DB
	raw       *os.File // bbolt's, which closes it; read from only
	schema    int      // its version
	pageBytes int
}

// Open opens the journal at path, or creates it with mode 0600 and, beside it,
// the directory `results` with mode 0700. A file that another process holds is
// ErrLocked after a second; one of another schema version is ErrSchema.
func Open(path string, opts Options) (*Journal, error) {
	dir := filepath.Dir(path)
	results := filepath.Join(dir, resultsDir)
	if err := os.Mkdir(results, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create the journal's results directory: %w", err)
	}
	for _, p := range []struct {
		path string
		mode fs.FileMode
	}{{results, 0o700}, {path, 0o600}} {
		if err := tighten(p.path, p.mode); err != nil {
			return nil, err
		}
	}
	db, raw, records, err := openFile(path, false, opts.withDefaults().Logger)
	if err != nil {
		return nil, err
	}
	schema, err := checkSchema(db, true)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	// The names of the file and the directory must be as durable as what is in them.
	if err := SyncDir(dir); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	j := newJournal(&file{db, raw, schema, db.Info().PageSize}, path, results, opts)
	j.records.Store(int64(records))
	if err := j.prime(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	go j.run()
	return j, nil
}

// OpenReadOnly opens an existing journal for inspection when no broker runs;
// any number of readers may do so at once. Writes are ErrReadOnly.
func OpenReadOnly(path string) (*Journal, error) {
	db, raw, records, err := openFile(path, true, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	schema, err := checkSchema(db, false)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	j := newJournal(&file{db, raw, schema, db.Info().PageSize}, path, filepath.Join(filepath.Dir(path), resultsDir), Options{})
	j.records.Store(int64(records))
	j.readOnly = true
	j.queue.closed = true
	close(j.stopped)
	return j, nil
}

// Schema is the version of the file's key layout.
func (j *Journal) Schema() int { return j.file.Load().schema }

func newJournal(f *file, path, results string, opts Options) *Journal {
	opts = opts.withDefaults()
	j := &Journal{
		path: path, results: results, opts: opts,
		slots: make(chan struct{}, opts.QueueLimit), wake: make(chan struct{}, 1),
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	j.file.Store(f)
	return j
}

// openFile opens the bbolt file, and gives it for reads beside bbolt's own.
// Opened for reading bbolt looks at nothing but the two heads; for writing it
// scans the file. So the pages are inspected in between.
func openFile(path string, readOnly bool, log *slog.Logger) (db *bbolt.DB, file *os.File, records int, err error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return nil, nil, 0, fmt.Errorf("open the journal %s: it is a directory", path)
	}
	if readOnly || err == nil && info.Size() > 0 {
		if db, file, err = openBolt(path, true); err != nil {
			return nil, nil, 0, err
		}
		if records, err = sound(file, path, log); err != nil {
			return nil, nil, 0, errors.Join(fmt.Errorf("open the journal %s: %w", path, err), db.Close())
		}
		if readOnly {
			return db, file, records, nil
		}
		if err := db.Close(); err != nil {
			return nil, nil, 0, fmt.Errorf("open the journal %s: %w", path, err)
		}
	}
	db, file, err = openBolt(path, false)
	return db, file, records, err
}

// openBolt has bbolt open the file. Whatever it still panics or faults on
// becomes an error here.
func openBolt(path string, readOnly bool) (db *bbolt.DB, file *os.File, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			db, file, err = nil, nil, fmt.Errorf("open the journal %s: %w: %v", path, ErrDamaged, r)
		}
	}()
	opts := &bbolt.Options{
		Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true, ReadOnly: readOnly,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			// To open a pipe is to wait for whoever has its other end.
			if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
				return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("it is no regular file")}
			}
			var err error
			file, err = os.OpenFile(name, flag, mode)
			return file, err
		},
	}
	if !readOnly {
		opts.InitialMmapSize = initialMap
	}
	db, err = bbolt.Open(path, 0o600, opts)
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, nil, fmt.Errorf("open the journal %s: %w", path, ErrLocked)
	case errors.As(err, new(*fs.PathError)), errors.As(err, new(syscall.Errno)):
		return nil, nil, fmt.Errorf("open the journal %s: %w", path, err)
	case err != nil: // the file's length, or both of its heads
		return nil, nil, fmt.Errorf("open the journal %s: %w, or is no journal: %w", path, ErrDamaged, err)
	}
	return db, file, nil
}

// sound refuses a file whose pages cannot be followed. With one head the file
// opens: a crash leaves it so, and then nobody was told of what is missing.
func sound(file *os.File, path string, log *slog.Logger) (records int, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	walk, alone, err := inspect(file, info.Size(), 1)
	switch {
	case err != nil:
		return 0, err
	case len(walk.found) > 0:
		return 0, fmt.Errorf("%w: %s", ErrDamaged, walk.found[0])
	case alone:
		log.Warn("one of the journal's two heads is not whole; the other counts", slog.String("file", path))
	}
	return walk.records, nil
}

// prime fills in what the writer starts from.
func (j *Journal) prime() error {
	// A write transaction that is given up makes bbolt count its free pages.
	tx, err := j.file.Load().db.Begin(true)
	if err != nil {
		return fmt.Errorf("open the journal %s: %w", j.path, err)
	}
	if last, _ := tx.Bucket(bucketEvents).Cursor().Last(); last != nil {
		j.lastEvent = string(last)
	}
	if err := tx.Rollback(); err != nil {
		return fmt.Errorf("open the journal %s: %w", j.path, err)
	}
	return nil
}

// Close refuses new writes, commits those in the queue, and closes the file.
// Writes that wait outside the queue fail with ErrClosed. It waits for the
// writer, for Options.Grace at most: after that it fails and may be called
// again. It is idempotent.
func (j *Journal) Close() error {
	if err := j.halt(); err != nil {
		return err
	}
	j.keepFreePages()
	if err := j.file.Load().db.Close(); err != nil {
		return fmt.Errorf("close the journal %s: %w", j.path, err)
	}
	return nil
}

// halt ends the writer; the file stays open.
func (j *Journal) halt() error {
	j.stopOnce.Do(func() {
		j.queue.close()
		close(j.stopping)
		j.signal()
	})
	timer := time.NewTimer(j.opts.Grace)
	defer timer.Stop()
	select {
	case <-j.stopped:
		return nil
	case <-timer.C:
		return fmt.Errorf("close the journal %s: a commit has not ended in %s; the file stays open", j.path, j.opts.Grace)
	}
}

// keepFreePages writes down which pages are free, in a commit that changes
// nothing else, so that the next open need not look for them in the whole file.
// It would make every commit slower; after a crash the list is not there. A
// journal that changed nothing leaves the file as it was.
func (j *Journal) keepFreePages() {
	if j.readOnly || j.commits.Load() == 0 {
		return
	}
	j.kept.Do(func() {
		db := j.file.Load().db
		db.NoFreelistSync = false
		if err := guard(func() error { return db.Update(func(*bbolt.Tx) error { return nil }) }); err != nil {
			j.opts.Logger.Warn("the journal's free pages could not be written down; the next start looks for them", slog.String("cause", err.Error()))
		}
	})
}

// view runs fn in a read transaction. fn must be short and copy what it keeps.
func (j *Journal) view(fn func(tx *bbolt.Tx) error) error {
	for {
		f := j.file.Load()
		err := guard(func() error { return f.db.View(fn) })
		if !errors.Is(err, berrors.ErrDatabaseNotOpen) {
			return err
		}
		if j.file.Load() == f { // else it was replaced, and fn has not run
			return ErrClosed
		}
	}
}

// pause gives up between two short transactions when ctx has ended.
func pause(ctx context.Context, doing string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	}
	return nil
}
