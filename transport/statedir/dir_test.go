//go:build unix

package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestDefaultPathFollowsTheEnvironment(t *testing.T) {
	wd, err := os.Getwd()
	must(t, err)
	tests := []struct {
		name, goos string
		env        map[string]string
		want       string // empty: an error
	}{
		{"own variable first", "linux", map[string]string{"BERTH_STATE_DIR": "/a", "XDG_STATE_HOME": "/b", "HOME": "/c"}, "/a"},
		{"own variable, relative", "linux", map[string]string{"BERTH_STATE_DIR": "a"}, filepath.Join(wd, "a")},
		{"XDG", "linux", map[string]string{"XDG_STATE_HOME": "/b", "HOME": "/c"}, "/b/berth"},
		{"relative XDG is passed over", "linux", map[string]string{"XDG_STATE_HOME": "b", "HOME": "/c"}, "/c/.local/state/berth"},
		{"home", "linux", map[string]string{"HOME": "/c", "BERTH_STATE_DIR": ""}, "/c/.local/state/berth"},
		{"macOS", "darwin", map[string]string{"HOME": "/c", "XDG_STATE_HOME": "/b"}, "/c/Library/Application Support/berth"},
		{"macOS, own variable", "darwin", map[string]string{"HOME": "/c", "BERTH_STATE_DIR": "/a"}, "/a"},
		{"nothing", "linux", nil, ""},
		{"home is relative", "darwin", map[string]string{"HOME": "c"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := defaultPath(tt.goos, func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok })
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestOpenMakesAPrivateDirectory(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "a", "b"))
	must(t, err)
	for _, path := range []string{d.Root(), filepath.Dir(d.Root())} {
		if got := mode(t, path); got != 0o700 {
			t.Errorf("%s has mode %o", path, got)
		}
	}
	if _, err := Open(d.Root()); err != nil {
		t.Errorf("a second time: %v", err)
	}
	t.Setenv(EnvDir, filepath.Join(d.Root(), "c"))
	if byDefault, err := Open(""); err != nil || byDefault.Root() != filepath.Join(d.Root(), "c") {
		t.Errorf("by default: %v, %v", byDefault, err)
	}
}

func TestOpenRefusesWhatOthersCanChange(t *testing.T) {
	for _, bits := range []os.FileMode{0o770, 0o702, 0o777} {
		dir := t.TempDir()
		must(t, os.Chmod(dir, bits))
		_, err := Open(dir)
		if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "others can change "+dir) {
			t.Errorf("mode %o: %v", bits, err)
		}
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	if _, err := Open(dir); err != nil {
		t.Errorf("mode 755: %v", err)
	}
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(file); err == nil {
		t.Error("a file was opened as a directory")
	}
}

func TestForeignOwnerIsRefused(t *testing.T) {
	dir := t.TempDir()
	info, err := os.Stat(dir)
	must(t, err)
	uid := int(info.Sys().(*syscall.Stat_t).Uid)
	if err := safe(dir, info, uid, 0o022); err != nil {
		t.Errorf("own: %v", err)
	}
	if err := safe(dir, info, uid+1, 0o022); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "another user") {
		t.Errorf("foreign: %v", err)
	}
	if os.Geteuid() != 0 {
		return // only root can give a directory away
	}
	must(t, os.Chown(dir, 4711, 4711))
	if _, err := Open(dir); !errors.Is(err, ErrUnsafe) {
		t.Errorf("open: %v", err)
	}
}
