//go:build unix

package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
)

// EnvDir names the variable that overrides the default directory.
const EnvDir = "BERTH_STATE_DIR"

// The files of the directory.
const (
	lockFile    = "berth.lock"
	portFile    = "berth.port"
	tokenFile   = "api-token"
	sessionFile = "session.key"
	apiKeyFile  = "api-key"
)

// Errors to be told apart with errors.Is. Each comes inside a sentence for a
// person.
var (
	// ErrNotRunning: no broker runs on the directory. A stale berth.port is this
	// too.
	ErrNotRunning = errors.New("no broker runs")
	// ErrStale: the broker that berth.port names is gone.
	ErrStale = errors.New("the broker is gone")
	// ErrRunning: another broker holds the lock; see [RunningError].
	ErrRunning = errors.New("another broker runs")
	// ErrUnsafe: owner or permissions would let others in.
	ErrUnsafe = errors.New("unsafe owner or permissions")
	// ErrDamaged: a file is there, but not what we wrote.
	ErrDamaged = errors.New("damaged file")
)

// problem is a sentence with the sentinels that it stands for.
type problem struct {
	text string
	is   []error
}

func (p *problem) Error() string   { return p.text }
func (p *problem) Unwrap() []error { return p.is }

func problemf(is error, format string, args ...any) error {
	return &problem{text: fmt.Sprintf(format, args...), is: []error{is}}
}

// Dir is an opened state directory.
type Dir struct {
	path string

	mu         sync.Mutex  // guards the rest; no lock on a file is waited for under it
	credential *Credential // nil until it is asked for
}

// DefaultPath computes the directory from the environment: BERTH_STATE_DIR, else
// $XDG_STATE_HOME/berth, else ~/.local/state/berth; on macOS
// ~/Library/Application Support/berth instead of the latter two. lookup is
// os.LookupEnv or stands for it.
func DefaultPath(lookup func(string) (string, bool)) (string, error) {
	return defaultPath(runtime.GOOS, lookup)
}

func defaultPath(goos string, lookup func(string) (string, bool)) (string, error) {
	if dir, _ := lookup(EnvDir); dir != "" {
		return filepath.Abs(dir)
	}
	// The XDG specification has relative paths ignored.
	if dir, _ := lookup("XDG_STATE_HOME"); goos != "darwin" && filepath.IsAbs(dir) {
		return filepath.Join(dir, "berth"), nil
	}
	home, _ := lookup("HOME")
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("no place for the state directory: set %s (HOME is not set to an absolute path)", EnvDir)
	}
	if goos == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "berth"), nil
	}
	return filepath.Join(home, ".local", "state", "berth"), nil
}

// resolve makes path absolute; an empty one is the default.
func resolve(path string) (string, error) {
	if path == "" {
		return DefaultPath(os.LookupEnv)
	}
	return filepath.Abs(path)
}

// Open uses the directory at path (empty: [DefaultPath]) and makes it, 0700,
// when it is missing. It refuses one that others could change.
func Open(path string) (*Dir, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return open(path)
}

// open uses a directory that exists.
func open(path string) (*Dir, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if !info.IsDir() {
		return nil, problemf(ErrUnsafe, "state directory: %s is no directory", path)
	}
	if err := safe(path, info, os.Geteuid(), 0o022); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return &Dir{path: path}, nil
}

// safe checks that info, of path, belongs to user uid and has none of the
// forbidden permission bits.
func safe(path string, info fs.FileInfo, uid int, forbidden fs.FileMode) error {
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != uid {
		return problemf(ErrUnsafe, "%s belongs to another user", path)
	}
	mode := info.Mode().Perm()
	if mode&forbidden == 0 {
		return nil
	}
	verb := "change"
	if forbidden&0o044 != 0 {
		verb = "read"
	}
	return problemf(ErrUnsafe, "others can %s %s (mode %04o): run chmod %04o on it", verb, path, mode, mode&^forbidden)
}

// Root gives the absolute path of the directory.
func (d *Dir) Root() string { return d.path }

// Path gives the path of a file in the directory.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }
