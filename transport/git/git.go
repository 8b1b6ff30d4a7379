//go:build unix

package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"berth/broker/dispatch"
	"berth/broker/shape"
	"berth/transport/guard"
)

const (
	defaultLimit   = time.Minute      // of a command that works on local files
	defaultNetwork = 10 * time.Minute // of one that may ask another host
	maxOutput      = 64 << 20
	stopGrace      = 2 * time.Second // in which a command that is ended takes its locks back
)

// Options tune how git is run.
type Options struct {
	// Env is the environment of git; PATH and HOME matter. What makes it ask,
	// page or run something else is set over it.
	Env []string
	// Limit is the time for a command on local files, Network for one that may
	// ask another host or write a whole tree; zero is a minute and ten.
	Limit, Network time.Duration
	// Ledger records running commands, so that the next broker ends what this
	// one left; nil: none.
	Ledger *guard.Ledger
	// Executable is the guard's, as in guard.Spec.
	Executable string
	// Own is a directory in whose repositories only this Git, and who is given a
	// worktree of them, works; empty: none. What a killed git left locked there is
	// freed.
	Own string
}

// Git runs the git program.
type Git struct {
	opts Options
	env  []string

	mu       sync.Mutex
	locks    map[string]chan struct{} // by directory of a repository; full while it is held
	fetches  map[string]fetched       // by directory of a repository: the last one
	freed    map[string]bool          // directories of repositories that were looked through for locks
	origins  map[string]string        // by directory of a repository of Berth's own: its address
	taken    map[string][]string      // by directory: what was taken away and nobody was told
	settings string                   // of a bare repository that is new; empty: not looked at yet
}

// New makes a Git.
func New(o Options) *Git {
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	if o.Network <= 0 {
		o.Network = defaultNetwork
	}
	return &Git{opts: o, env: append(append([]string(nil), o.Env...), quiet()...),
		locks: map[string]chan struct{}{}, fetches: map[string]fetched{}, freed: map[string]bool{}, origins: map[string]string{}, taken: map[string][]string{}}
}

// quiet is the environment in which git asks nobody and runs nothing but
// itself.
func quiet() []string {
	env := []string{
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true", "SSH_ASKPASS=true", "SSH_ASKPASS_REQUIRE=never", "GIT_SSH_COMMAND=ssh -oBatchMode=yes -oConnectTimeout=20",
		"GIT_PAGER=cat", "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "GIT_OPTIONAL_LOCKS=0", "GIT_ADVICE=0", "LC_ALL=C", "LANGUAGE=",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_GRAFT_FILE=" + os.DevNull, // a commit is what its id says
		"GIT_ALLOW_PROTOCOL=file:git:http:https:ssh",
	}
	return append(env, configEnv(settings)...)
}

// configEnv is settings as git reads them from its environment.
func configEnv(settings [][2]string) (env []string) {
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)))
}

// settings go over those of the repository and the user.
var settings = [][2]string{
	{"core.hooksPath", os.DevNull}, {"core.fsmonitor", "false"}, {"core.quotePath", "false"}, {"core.pager", "cat"},
	{"gc.auto", "0"}, {"maintenance.auto", "false"}, {"fetch.recurseSubmodules", "false"}, {"submodule.recurse", "false"},
	{"commit.gpgSign", "false"}, {"merge.verifySignatures", "false"}, {"log.showSignature", "false"},
	{"advice.graftFileDeprecated", "false"}, // GIT_ADVICE is of git 2.45
	{"init.defaultBranch", "main"}, {"protocol.ext.allow", "never"}, {"safe.directory", "*"},
}

// Error is a git command that failed. Its text has no credentials.
type Error struct {
	Op     string // the subcommand
	Reason string // how it ended
	Detail string // the end of what it said, redacted
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return "git " + e.Op + " " + e.Reason
	}
	return "git " + e.Op + " " + e.Reason + ": " + e.Detail
}

// CheckRef refuses a name that git could read as anything but the name of a
// branch or tag, or a commit's id.
func CheckRef(name string) error { return dispatch.CheckBranch(name) }

// spec is how git is run in a repository.
func (r *Repo) spec(args []string) guard.Spec {
	env := append(r.git.env[:len(r.git.env):len(r.git.env)], r.env...) // of a name that comes twice the last counts
	return guard.Spec{Executable: r.git.opts.Executable, Command: "git", Args: args, Env: env, Dir: r.dir, StopGrace: stopGrace, Ledger: r.git.opts.Ledger, Name: "git"}
}

// said is the end of what git wrote to its standard error, without credentials.
func (r *Repo) said(text string) string {
	for _, secret := range r.hidden {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return shape.Redact(lastLines(text))
}

// run runs git in a repository within limit and gives what it printed.
func (g *Git) run(ctx context.Context, limit time.Duration, r *Repo, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := guard.Output(ctx, r.spec(args), maxOutput)
	if err == nil {
		return string(out), nil
	}
	op := args
	for len(op) > 2 && op[0] == "-c" { // a setting of this command
		op = op[2:]
	}
	failed := &Error{Op: op[0], Reason: "failed"}
	var ended *guard.OutputError
	switch {
	case errors.As(err, &ended):
		failed.Reason, failed.Detail = ended.Reason, r.said(ended.Stderr)
	case ctx.Err() != nil:
		return "", fmt.Errorf("git %s: %w", op[0], context.Cause(ctx))
	default:
		failed.Detail = r.said(err.Error())
	}
	return "", failed
}

// lastLines is the end of what a command said, in one line.
func lastLines(text string) string {
	lines := strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) > 4 {
		lines = lines[len(lines)-4:]
	}
	line := strings.Join(lines, "; ")
	if len(line) > 600 {
		line = strings.ToValidUTF8(line[:600], "") + "..."
	}
	return strings.TrimSpace(line)
}

// Repo is a repository by its directory.
type Repo struct {
	git     *Git
	dir     string
	env     []string // more of git's environment
	hidden  []string // what no error shows
	origin  bool     // people push to it
	address string   // of its origin, where it is known
}

// Repo names the repository in dir, which need not exist yet.
func (g *Git) Repo(dir string) *Repo { return &Repo{git: g, dir: filepath.Clean(dir)} }

// Dir is the repository's directory.
func (r *Repo) Dir() string { return r.dir }

// hold takes the repository's lock, or gives up with ctx.
func (r *Repo) hold(ctx context.Context) (release func(), err error) {
	r.git.mu.Lock()
	lock := r.git.locks[r.dir]
	if lock == nil {
		lock = make(chan struct{}, 1)
		r.git.locks[r.dir] = lock
	}
	r.git.mu.Unlock()
	select {
	case lock <- struct{}{}:
		r.first()
		if err := r.restore(ctx); err != nil {
			<-lock
			return nil, err
		}
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the repository: %w", context.Cause(ctx))
	}
}

func (r *Repo) run(ctx context.Context, args ...string) (string, error) {
	return r.git.run(ctx, r.git.opts.Limit, r, args...)
}
