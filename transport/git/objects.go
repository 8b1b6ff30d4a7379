//go:build unix

package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"berth/transport/guard"
)

// Entry is a file in a commit's tree, or what became of it between two commits.
type Entry struct {
	Mode string // six octal digits; 000000: it is gone
	ID   string // of the object
	Size int64  // -1 when it is not known
	Path string // as it is in the tree: any bytes but NUL
}

// pipe runs git with its output read as it comes.
func (r *Repo) pipe(ctx context.Context, limit time.Duration, input io.Reader, read func(*bufio.Reader) error, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var stopped error // by read, for its own reasons
	err := guard.Pipe(ctx, r.spec(args), input, func(out io.Reader) error {
		stopped = read(bufio.NewReaderSize(out, 256<<10))
		return stopped
	})
	if err == nil {
		return nil
	}
	var ended *guard.OutputError
	switch {
	case errors.As(err, &ended) && (stopped == nil || errors.Is(stopped, io.ErrUnexpectedEOF)):
		return &Error{Op: args[0], Reason: ended.Reason, Detail: r.said(ended.Stderr)}
	case ctx.Err() != nil:
		return fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	case stopped != nil:
		return stopped
	}
	return &Error{Op: args[0], Reason: "failed", Detail: r.said(err.Error())}
}

// maxPath is the longest path of an entry that is read, in bytes.
const maxPath = 64 << 10

// field reads up to a NUL; io.EOF before the first byte of one is the end.
func field(in *bufio.Reader) (string, error) {
	var out []byte
	for {
		part, err := in.ReadSlice(0)
		out = append(out, part...)
		switch {
		case err == nil:
			return string(out[:len(out)-1]), nil
		case len(out) > maxPath:
			return "", fmt.Errorf("a path of more than %d bytes", maxPath)
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(out) == 0:
			return "", io.EOF
		case errors.Is(err, io.EOF):
			return "", io.ErrUnexpectedEOF
		default:
			return "", err
		}
	}
}

// Tree calls each with every file of a commit, in the order of their paths. An
// error of each ends it.
func (r *Repo) Tree(ctx context.Context, commit string, each func(Entry) error) error {
	return r.pipe(ctx, r.git.opts.Limit, nil, func(in *bufio.Reader) error {
		for {
			line, err := field(in)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			facts, path, _ := strings.Cut(line, "\t")
			part := strings.Fields(facts) // mode, type, id, size
			if len(part) != 4 {
				return fmt.Errorf("git ls-tree: a line of %d fields", len(part))
			}
			e := Entry{Mode: part[0], ID: part[2], Size: -1, Path: path}
			if n, err := strconv.ParseInt(part[3], 10, 64); err == nil {
				e.Size = n
			}
			if err := each(e); err != nil {
				return err
			}
		}
	}, "ls-tree", "-r", "-l", "-z", "--full-tree", "--end-of-options", commit)
}

// Changed calls each with what is another in one commit than in an earlier one:
// the entry as it is now. A file that was renamed is one that is gone and one
// that is new.
func (r *Repo) Changed(ctx context.Context, from, to string, each func(Entry) error) error {
	return r.pipe(ctx, r.git.opts.Limit, nil, func(in *bufio.Reader) error {
		for {
			line, err := field(in)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			part := strings.Fields(strings.TrimPrefix(line, ":")) // both modes, both ids, status
			path, err := field(in)
			if err != nil || len(part) != 5 {
				return fmt.Errorf("git diff-tree: a line of %d fields: %w", len(part), cmpErr(err, io.ErrUnexpectedEOF))
			}
			if err := each(Entry{Mode: part[1], ID: part[3], Size: -1, Path: path}); err != nil {
				return err
			}
		}
	}, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv", from, to)
}

// Blobs reads objects in the order of their ids and calls each with the place of
// each in ids. content is nil for one that is larger than max, and is each's to
// keep. One that is not there is an error. An error of each ends it.
func (r *Repo) Blobs(ctx context.Context, ids []string, max int64, each func(i int, content []byte) error) error {
	if len(ids) == 0 {
		return nil
	}
	var input bytes.Buffer
	for _, id := range ids {
		input.WriteString(id + "\n")
	}
	return r.pipe(ctx, r.git.opts.Network, &input, func(in *bufio.Reader) error {
		for i := range ids {
			line, err := in.ReadString('\n')
			if err != nil {
				return io.ErrUnexpectedEOF
			}
			part := strings.Fields(line) // id, type, size; or id and missing
			if len(part) != 3 {
				return fmt.Errorf("git cat-file: the repository lacks the object %s", ids[i])
			}
			size, err := strconv.ParseInt(part[2], 10, 64)
			if err != nil {
				return fmt.Errorf("git cat-file: a size of %q", part[2])
			}
			var content []byte
			if size <= max {
				content = make([]byte, size)
				_, err = io.ReadFull(in, content)
			} else {
				_, err = io.CopyN(io.Discard, in, size)
			}
			if err == nil {
				_, err = in.Discard(1)
			}
			if err != nil {
				return io.ErrUnexpectedEOF
			}
			if err := each(i, content); err != nil {
				return err
			}
		}
		return nil
	}, "cat-file", "--batch", "--buffer")
}

// At gives the commit of a ref, named in full, such as refs/heads/main. It looks
// into the repository's files where that answers, since it is asked often, and
// asks git otherwise. A ref that is not there is ErrNoRef.
func (r *Repo) At(ctx context.Context, ref string) (string, error) {
	if err := CheckRef(ref); err != nil {
		return "", err
	}
	for _, dir := range []string{r.dir, filepath.Join(r.dir, ".git")} {
		raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(ref)))
		if id := strings.TrimSpace(string(raw)); err == nil && len(id) >= 40 && commitID.MatchString(id) {
			return id, nil
		}
	}
	out, err := r.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	var failed *Error
	if errors.As(err, &failed) && failed.Detail == "" {
		return "", fmt.Errorf("%w: %s", ErrNoRef, ref)
	}
	return strings.TrimSpace(out), err
}
