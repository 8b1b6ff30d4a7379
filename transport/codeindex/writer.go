//go:build unix

package codeindex

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"berth/broker/native/codeindex"
	"berth/transport/git"
)

// Why a file is not in the index.
const (
	skipLarge     = "TooLarge"
	skipBinary    = "Binary"
	skipEncoding  = "NotUTF8"
	skipLink      = "Symlink"
	skipSubmodule = "Submodule"
	skipName      = "UnreadableName"
	skipMany      = "BeyondFileLimit"
)

// writer fills a database that nobody else reads yet.
type writer struct {
	limits Options
	tell   func(codeindex.Progress)
	fresh  bool

	file, chunk                          int64 // the last ids; a chunk's has the sign of what it is for
	had                                  int   // files before
	done, total                          int
	insFile, insChunk, insName, insTerms *sql.Stmt
}

// prepared is a file, cut and counted, as it goes into the database.
type prepared struct {
	path     string
	language string
	test     bool
	skipped  string
	apart    bool // for reference only
	chunks   []codeindex.Chunk
	terms    []string // of each chunk
}

// write brings the database to the entries. A failure leaves it useless.
func (w *writer) write(ctx context.Context, path string, repo *git.Repo, entries []git.Entry, m *meta, now func() time.Time) (err error) {
	db, err := open(path, "_pragma=page_size(8192)&_pragma=journal_mode(off)&_pragma=synchronous(off)&_pragma=locking_mode(exclusive)&_pragma=cache_size(-65536)&_pragma=temp_store(memory)")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	if w.fresh {
		if _, err := db.ExecContext(ctx, schema); err != nil {
			return err
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit there is nothing to undo
	if err := w.begin(ctx, tx); err != nil {
		return err
	}
	if err := w.entries(ctx, tx, repo, entries); err != nil {
		return err
	}
	w.tell(codeindex.Progress{Stage: "Finishing", Done: w.done, Total: w.total})
	if w.fresh {
		if _, err := tx.ExecContext(ctx, "INSERT INTO terms(terms) VALUES('optimize')"); err != nil {
			return err
		}
	}
	m.At = now().UTC()
	if err := setMeta(ctx, tx, m); err != nil {
		return err
	}
	return tx.Commit()
}

func (w *writer) begin(ctx context.Context, tx *sql.Tx) error {
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(id), 0), count(*) FROM files").Scan(&w.file, &w.had); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(abs(id)), 0) FROM chunks").Scan(&w.chunk); err != nil {
		return err
	}
	for _, s := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&w.insFile, "INSERT INTO files(id, path, language, test, skipped) VALUES(?, ?, ?, ?, ?)"},
		{&w.insChunk, "INSERT INTO chunks(id, file, first, last, defines, content) VALUES(?, ?, ?, ?, ?, ?)"},
		{&w.insName, "INSERT OR IGNORE INTO names(name, chunk) VALUES(?, ?)"},
		{&w.insTerms, "INSERT INTO terms(rowid, term) VALUES(?, ?)"},
	} {
		var err error
		if *s.to, err = tx.PrepareContext(ctx, s.text); err != nil { // closed with tx
			return err
		}
	}
	return nil
}

// entries takes away what is another now, and puts in what there is to be.
func (w *writer) entries(ctx context.Context, tx *sql.Tx, repo *git.Repo, entries []git.Entry) error {
	w.total = len(entries)
	var files []git.Entry // whose text is wanted
	for _, entry := range entries {
		if !w.fresh {
			if err := w.remove(ctx, tx, key(entry.Path)); err != nil {
				return err
			}
		}
		if entry.Mode == "000000" {
			w.done++
			continue
		}
		if reason := w.passOver(entry, len(files)); reason != "" {
			w.done++
			if err := w.put(ctx, &prepared{path: key(entry.Path), skipped: reason}); err != nil {
				return err
			}
			continue
		}
		files = append(files, entry)
	}
	return w.contents(ctx, repo, files)
}

// key is the name of an entry as it is stored: a name that is no text, in the
// form that a program's source would give it.
func key(path string) string {
	if utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return path
	}
	return strconv.QuoteToASCII(path)
}

// passOver says why a file is not read.
func (w *writer) passOver(entry git.Entry, taken int) string {
	switch {
	case entry.Mode == "160000":
		return skipSubmodule
	case entry.Mode == "120000":
		return skipLink
	case key(entry.Path) != entry.Path:
		return skipName
	case entry.Size > w.limits.MaxFile:
		return skipLarge
	case w.files(taken) >= w.limits.MaxFiles:
		return skipMany
	}
	return ""
}

// files is how many files the index has, at most, when so many more are taken.
func (w *writer) files(taken int) int {
	return w.had + taken
}

// workers cut and count texts; one more goroutine reads them from git.
const workers = 2

// contents reads the files' texts from git, has them cut by several goroutines,
// and writes them as they come.
func (w *writer) contents(ctx context.Context, repo *git.Repo, files []git.Entry) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type raw struct {
		path    string
		content []byte
	}
	texts, ready := make(chan raw, 64), make(chan *prepared, 64)
	var all sync.WaitGroup
	all.Go(func() {
		defer close(texts)
		ids := make([]string, len(files))
		for i, f := range files {
			ids[i] = f.ID
		}
		err := repo.Blobs(ctx, ids, w.limits.MaxFile, func(i int, content []byte) error {
			select {
			case texts <- raw{files[i].Path, content}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil {
			cancel(err)
		}
	})
	var cutters sync.WaitGroup
	for range workers {
		cutters.Go(func() {
			for t := range texts {
				select {
				case ready <- prepare(t.path, t.content):
				case <-ctx.Done():
				}
			}
		})
	}
	all.Go(func() { cutters.Wait(); close(ready) })
	var failed error
	for p := range ready {
		if failed != nil {
			continue // so that nobody waits
		}
		if failed = w.put(ctx, p); failed != nil {
			cancel(failed)
		}
		if w.done++; w.done%64 == 0 {
			w.tell(codeindex.Progress{Stage: "Indexing", Done: w.done, Total: w.total})
		}
	}
	all.Wait()
	return errors.Join(failed, causeUnless(ctx, failed))
}

func causeUnless(ctx context.Context, failed error) error {
	if failed != nil {
		return nil
	}
	return context.Cause(ctx)
}

// prepare cuts a file and finds its terms. content is nil for one that is too
// large.
func prepare(path string, content []byte) *prepared {
	p := &prepared{path: path}
	switch head := content[:min(len(content), 8000)]; {
	case content == nil:
		p.skipped = skipLarge
	case bytes.IndexByte(head, 0) >= 0:
		p.skipped = skipBinary
	case !utf8.Valid(content):
		p.skipped = skipEncoding
	}
	if p.skipped != "" {
		return p
	}
	text, language := string(content), codeindex.LanguageOf(path)
	p.language, p.test, p.apart = language.Name, codeindex.TestFile(path), codeindex.ReferenceOnly(path, text)
	p.chunks = codeindex.Split(text, language)
	p.terms = make([]string, len(p.chunks))
	seen := map[string]bool{}
	for i, c := range p.chunks {
		clear(seen)
		var b strings.Builder
		add := func(term string) {
			if !seen[term] {
				seen[term] = true
				b.WriteString(term)
				b.WriteByte(' ')
			}
		}
		codeindex.Terms(c.Text, add)
		codeindex.Terms(path, add)
		p.terms[i] = b.String()
	}
	return p
}

// put writes one file.
func (w *writer) put(ctx context.Context, p *prepared) error {
	w.file++
	if _, err := w.insFile.ExecContext(ctx, w.file, p.path, p.language, p.test, p.skipped); err != nil {
		return fmt.Errorf("a file: %w", err)
	}
	for i, c := range p.chunks {
		w.chunk++
		id := w.chunk
		if p.apart {
			id = -id
		}
		if _, err := w.insChunk.ExecContext(ctx, id, w.file, c.Start, c.End, strings.Join(c.Defines, " "), c.Text); err != nil {
			return fmt.Errorf("a chunk: %w", err)
		}
		if _, err := w.insTerms.ExecContext(ctx, id, p.terms[i]); err != nil {
			return fmt.Errorf("the terms of a chunk: %w", err)
		}
		for _, name := range c.Defines {
			if name = codeindex.Name(name); name == "" {
				continue
			}
			if _, err := w.insName.ExecContext(ctx, name, id); err != nil {
				return fmt.Errorf("a name: %w", err)
			}
		}
	}
	return nil
}

// remove takes a file out of the index.
func (w *writer) remove(ctx context.Context, tx *sql.Tx, path string) error {
	var file int64
	err := tx.QueryRowContext(ctx, "SELECT id FROM files WHERE path = ?", path).Scan(&file)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	rows, err := tx.QueryContext(ctx, "SELECT id, defines FROM chunks WHERE file = ?", file)
	if err != nil {
		return err
	}
	type gone struct {
		id      int64
		defines string
	}
	var chunks []gone
	for rows.Next() {
		var g gone
		if err := rows.Scan(&g.id, &g.defines); err != nil {
			return errors.Join(err, rows.Close())
		}
		chunks = append(chunks, g)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, g := range chunks {
		for _, name := range strings.Fields(g.defines) {
			if _, err := tx.ExecContext(ctx, "DELETE FROM names WHERE name = ? AND chunk = ?", codeindex.Name(name), g.id); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM terms WHERE rowid = ?", g.id); err != nil {
			return err
		}
	}
	for _, text := range []string{"DELETE FROM chunks WHERE file = ?", "DELETE FROM files WHERE id = ?"} {
		if _, err := tx.ExecContext(ctx, text, file); err != nil {
			return err
		}
	}
	return nil
}
