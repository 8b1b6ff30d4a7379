//go:build unix

package dock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"berth/broker/dispatch"
	"berth/transport/git"
)

// The files of a mission.
const (
	logName    = "log"
	diffName   = "diff"
	outputName = "output"
)

const (
	maxDiff     = 16 << 20
	maxLogText  = 4 << 20 // that Log gives at once, in bytes
	maxStatus   = 64 << 10
	maxMessage  = 1 << 20
	cutDiffLine = "... the diff is longer than 16 MiB; the rest is not kept.\n"
)

// PapersOptions is what papers need; all but MaxLog are required.
type PapersOptions struct {
	Root string // <state>/missions
	Git  *git.Git
	Log  *slog.Logger
	Now  func() time.Time
	// MaxLog is how much of the output of one launch is kept, in bytes; 0: 64 MiB.
	MaxLog int64
}

// Papers are what is kept of missions in files that their owner alone can read.
type Papers struct {
	opts PapersOptions
	// create opens a file that is written; tests put a full disk in its place.
	create func(path string, flag int) (io.WriteCloser, error)

	mu   sync.Mutex
	live map[string]*running // by mission
}

// running is what there is of a mission whose agent runs.
type running struct {
	log     *logFile
	message func() string
}

// NewPapers makes papers.
func NewPapers(o PapersOptions) *Papers {
	if o.MaxLog <= 0 {
		o.MaxLog = 64 << 20
	}
	return &Papers{opts: o, live: map[string]*running{}, create: func(path string, flag int) (io.WriteCloser, error) {
		return os.OpenFile(path, flag, 0o600)
	}}
}

var missionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// dir is the directory of a mission.
func (p *Papers) dir(missionID string) (string, error) {
	if !missionName.MatchString(missionID) {
		return "", errors.New("this names no mission")
	}
	return filepath.Join(p.opts.Root, missionID), nil
}

// room is dir, made when it is not there.
func (p *Papers) room(missionID string) (string, error) {
	dir, err := p.dir(missionID)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make room for a mission's files: %w", err)
	}
	return dir, nil
}

// claim takes a mission for an agent that is about to run.
func (p *Papers) claim(missionID string, r *running) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live[missionID] != nil {
		return errors.New("an agent of this mission runs already")
	}
	p.live[missionID] = r
	return nil
}

func (p *Papers) release(missionID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, missionID)
}

func (p *Papers) runs(missionID string) *running {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live[missionID]
}

// Note adds a line of the broker's own to a mission's log.
func (p *Papers) Note(missionID, line string) {
	if r := p.runs(missionID); r != nil && r.log.note(line) == nil {
		return
	}
	l, err := p.openLog(missionID, redactor{})
	if err != nil {
		p.opts.Log.Warn("a line of a mission's log could not be written", slog.String("mission", missionID), slog.String("cause", err.Error()))
		return
	}
	_ = l.note(line) // it is open
	l.close()
}

// Log gives lines of a mission's log, from the one at offset on, and how many
// there are in all. What is longer than 4 MiB ends early; got says after how many
// lines. A mission without a log has no lines.
func (p *Papers) Log(missionID string, offset, lines int) (text string, got, total int, err error) {
	dir, err := p.dir(missionID)
	if err != nil {
		return "", 0, 0, nil
	}
	f, err := os.Open(filepath.Join(dir, logName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, 0, nil
	}
	if err != nil {
		return "", 0, 0, fmt.Errorf("read a mission's log: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	var out strings.Builder
	wanted := true // whatever comes of the present line
	in := bufio.NewReaderSize(f, 256<<10)
	for begun := false; ; {
		part, err := in.ReadSlice('\n')
		if len(part) > 0 {
			if !begun {
				wanted = total >= offset && got < lines && (got == 0 || out.Len() < maxLogText)
				if wanted {
					got++
				} else if total >= offset {
					lines = got // a gap must not follow
				}
				total++
			}
			if wanted {
				out.Write(part)
			}
			begun = err != nil // the line goes on
		}
		switch {
		case errors.Is(err, io.EOF):
			return strings.TrimSuffix(out.String(), "\n"), got, total, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return "", 0, 0, fmt.Errorf("read a mission's log: %w", err)
		}
	}
}

// Diff gives what a mission changed, as it was saved; false: nothing was.
func (p *Papers) Diff(missionID string) (text string, ok bool, err error) {
	return p.read(missionID, diffName, maxDiff+int64(len(cutDiffLine)))
}

// Output gives the agent's final message, or, while it runs, its last one so
// far.
func (p *Papers) Output(missionID string) (text string, finalized bool, err error) {
	if r := p.runs(missionID); r != nil {
		return r.message(), false, nil
	}
	return p.read(missionID, outputName, 2*maxMessage)
}

func (p *Papers) read(missionID, name string, max int64) (text string, ok bool, err error) {
	dir, err := p.dir(missionID)
	if err != nil {
		return "", false, nil
	}
	f, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read a mission's %s: %w", name, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, max))
	if err != nil {
		return "", false, fmt.Errorf("read a mission's %s: %w", name, err)
	}
	return string(raw), true, nil
}

// Remove removes everything that is kept of a mission. One whose agent runs is
// an error.
func (p *Papers) Remove(missionID string) error {
	dir, err := p.dir(missionID)
	if err != nil {
		return nil // there never was anything
	}
	if p.runs(missionID) != nil {
		return errors.New("an agent of this mission runs")
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove a mission's files: %w", err)
	}
	return nil
}

// save writes a file whole or not at all.
func (p *Papers) save(missionID, name string, write func(io.Writer) error) error {
	dir, err := p.room(missionID)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	f, err := p.create(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY)
	if err == nil {
		out := bufio.NewWriter(f)
		err = write(out)
		if err == nil {
			err = out.Flush()
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		_ = os.Remove(path + ".new") // half of it serves nobody
		return fmt.Errorf("save a mission's %s: %w", name, err)
	}
	return nil
}

// LiveDiff is what changed in a dock's worktree since a commit, committed or not.
func (p *Papers) LiveDiff(ctx context.Context, _ dispatch.Vessel, d dispatch.Dock, since string) (string, error) {
	var out strings.Builder
	tree, err := p.opts.Git.Worktree(ctx, d.Path)
	if err == nil {
		err = p.writeDiff(ctx, &out, tree, since, "")
	}
	return out.String(), err
}

// writeDiff writes a diff of 16 MiB at most and says when there is more.
func (p *Papers) writeDiff(ctx context.Context, w io.Writer, repo *git.Repo, since, until string) error {
	end := &lastByte{w: w}
	cut, err := repo.Diff(ctx, end, maxDiff-1, since, until)
	if err != nil || !cut {
		return err
	}
	line := cutDiffLine
	if end.last != '\n' {
		line = "\n" + line
	}
	_, err = io.WriteString(w, line)
	return err
}

// lastByte remembers what was written last.
type lastByte struct {
	w    io.Writer
	last byte
}

func (l *lastByte) Write(b []byte) (int, error) {
	n, err := l.w.Write(b)
	if n > 0 {
		l.last = b[n-1]
	}
	return n, err
}

// DockStatus is what git says of a dock's worktree: a line for each file that is
// not committed, and whether there is one.
func (p *Papers) DockStatus(ctx context.Context, d dispatch.Dock) (status string, dirty bool, err error) {
	tree, err := p.opts.Git.Worktree(ctx, d.Path)
	if err != nil {
		return "", false, err
	}
	status, err = statusOf(ctx, tree)
	return status, status != "", err
}

// statusOf lists what is not committed in a worktree.
func statusOf(ctx context.Context, tree *git.Repo) (string, error) {
	text, err := tree.Status(ctx, maxStatus)
	if err != nil {
		return "", err
	}
	return strings.ToValidUTF8(text, "\uFFFD"), nil
}
