//go:build unix

package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxConfig = 1 << 20 // of a repository's settings that are looked at, in bytes
	maxTaken  = 100     // names that are kept until somebody asks for them
)

// strangers are what git goes by in a repository and Clone makes none of.
var strangers = []string{"hooks", "info/attributes", "config.worktree", "commondir"}

// Taken gives, once, the names of what was taken away from a repository of
// Berth's own, since who was given a worktree of it had left it there.
func (r *Repo) Taken() []string {
	r.git.mu.Lock()
	defer r.git.mu.Unlock()
	taken := r.git.taken[r.dir]
	delete(r.git.taken, r.dir)
	return taken
}

// Restore brings a repository of Berth's own back to the settings that Clone
// makes, and removes hooks and attributes of it. What a worktree's user sets goes
// therefore. So does everything that changes the repository, before it begins.
func (r *Repo) Restore(ctx context.Context) error {
	release, err := r.hold(ctx)
	if err == nil {
		release()
	}
	return err
}

// restore is Restore for who holds the repository. One whose origin nobody named
// in this process was given to nobody yet.
func (r *Repo) restore(ctx context.Context) error {
	if !r.own() || !r.there() {
		return nil
	}
	r.git.mu.Lock()
	before := r.git.origins[r.dir]
	if r.address != "" {
		r.git.origins[r.dir] = r.address
	}
	address := r.git.origins[r.dir]
	r.git.mu.Unlock()
	if address == "" {
		return nil
	}
	var taken []string
	for _, name := range strangers {
		path := filepath.Join(r.dir, filepath.FromSlash(name))
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := removeAll(path); err != nil {
			return fmt.Errorf("bring a clone's settings back: %w", err)
		}
		taken = append(taken, name)
	}
	want, err := r.git.plain(ctx, r.dir)
	if err != nil {
		return err
	}
	want += remote(address)
	had, whole := settingsOf(filepath.Join(r.dir, "config"))
	if whole && had == want {
		return r.took(taken)
	}
	if err := replace(filepath.Join(r.dir, "config"), want); err != nil {
		return fmt.Errorf("bring a clone's settings back: %w", err)
	}
	names, err := r.lost(ctx, had, want)
	if !whole || err != nil {
		names = []string{"config"}
	}
	if before != address { // the vessel's address changed, maybe before this process
		names = slices.DeleteFunc(names, func(name string) bool { return name == "remote.origin.url" })
	}
	return r.took(append(taken, names...))
}

// took keeps what was taken away until somebody says so.
func (r *Repo) took(names []string) error {
	r.git.mu.Lock()
	defer r.git.mu.Unlock()
	for _, name := range names {
		if taken := r.git.taken[r.dir]; len(taken) < maxTaken && !slices.Contains(taken, name) {
			r.git.taken[r.dir] = append(taken, name)
		}
	}
	return nil
}

// settingsOf reads a repository's settings; false: they are no file that git
// would make.
func settingsOf(path string) (string, bool) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", true
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxConfig {
		return "", false
	}
	raw, err := os.ReadFile(path)
	return string(raw), err == nil
}

// replace puts a file in the place of what is there, whole or not at all.
func replace(path, content string) error {
	fresh := path + ".berth"
	if err := removeAll(fresh); err != nil {
		return err
	}
	if err := os.WriteFile(fresh, []byte(content), 0o600); err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		if err := removeAll(path); err != nil {
			return err
		}
	}
	return os.Rename(fresh, path)
}

// remote is how the settings say where origin is.
func remote(address string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(address)
	return "[remote \"origin\"]\n\turl = \"" + quoted + "\"\n\tfetch = " + tracked + "\n"
}

// plain gives the settings that git makes for a bare repository beside dir, which
// follow from the file system.
func (g *Git) plain(ctx context.Context, dir string) (string, error) {
	g.mu.Lock()
	made := g.settings
	g.mu.Unlock()
	if made != "" {
		return made, nil
	}
	fresh := dir + ".plain"
	if err := errors.Join(removeAll(fresh), os.MkdirAll(fresh, 0o700)); err != nil {
		return "", fmt.Errorf("find the settings of a clone: %w", err)
	}
	defer func() { _ = removeAll(fresh) }() // the next one removes what is left
	if _, err := g.Repo(fresh).run(ctx, "init", "--quiet", "--bare", "--template="); err != nil {
		return "", err
	}
	raw, err := os.ReadFile(filepath.Join(fresh, "config"))
	if err != nil {
		return "", fmt.Errorf("find the settings of a clone: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settings = string(raw)
	return g.settings, nil
}

// lost names the settings of had that want has not, or has otherwise. No value of
// them is in the answer: it may be a credential.
func (r *Repo) lost(ctx context.Context, had, want string) (names []string, err error) {
	kept, err := r.listed(ctx, want)
	if err != nil {
		return nil, err
	}
	entries, err := r.listed(ctx, had)
	for _, entry := range entries {
		name, _, _ := strings.Cut(entry, "\n")
		if name = strings.ToValidUTF8(name, "\uFFFD"); !slices.Contains(kept, entry) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, err
}

// listed are the entries of settings: a name, a line end, a value.
func (r *Repo) listed(ctx context.Context, text string) (entries []string, err error) {
	err = r.pipe(ctx, r.git.opts.Limit, strings.NewReader(text), func(out *bufio.Reader) error {
		for {
			entry, err := field(out)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			entries = append(entries, entry)
		}
	}, "config", "--file", "-", "--no-includes", "--null", "--list")
	return entries, err
}

// Worktree is a worktree of whose repository nothing is known: one of Berth's own
// as Repo.Worktree has it, when it says that it is of one.
func (g *Git) Worktree(ctx context.Context, path string) (*Repo, error) {
	said, whole := settingsOf(filepath.Join(path, ".git"))
	r := g.Repo(filepath.Dir(filepath.Dir(strings.TrimSpace(strings.TrimPrefix(said, "gitdir: ")))))
	if !whole || !r.own() {
		return g.Repo(path), nil
	}
	if err := r.Restore(ctx); err != nil {
		return nil, err
	}
	return r.Worktree(path)
}

// common is how a worktree says where its repository is.
const common = "../..\n"

// ErrNoWorktree is a directory that is no worktree of the repository any more.
var ErrNoWorktree = errors.New("the directory is no worktree of the repository")

// Worktree is a worktree of the repository. Of one of Berth's own git reads what
// is there and not what the worktree itself says of its repository, since its
// user writes that.
func (r *Repo) Worktree(path string) (*Repo, error) {
	w := r.git.Repo(path)
	if !r.own() {
		return w, nil
	}
	said, whole := settingsOf(filepath.Join(w.dir, ".git"))
	id := filepath.Base(strings.TrimSpace(strings.TrimPrefix(said, "gitdir: ")))
	if !whole || !strings.HasPrefix(said, "gitdir: ") || !filepath.IsLocal(id) || id == "." {
		return nil, ErrNoWorktree
	}
	dir := filepath.Join(r.dir, "worktrees", id)
	if at, whole := settingsOf(filepath.Join(dir, "commondir")); !whole || at != common { // git reads it for refs, whatever the environment says
		if err := replace(filepath.Join(dir, "commondir"), common); err != nil {
			return nil, fmt.Errorf("bring a worktree back to its repository: %w", err)
		}
	}
	w.env = []string{"GIT_DIR=" + dir, "GIT_COMMON_DIR=" + r.dir, "GIT_WORK_TREE=" + w.dir}
	return w, nil
}
