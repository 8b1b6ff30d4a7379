//go:build unix

package statedir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASecretIsItsOwnersAlone(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Secrets()
	if err != nil {
		t.Fatal(err)
	}
	const name = "vessel-vsl_a"
	if err := s.SetSecret(name, "hidden"); err != nil || !s.HasSecret(name) {
		t.Fatal(err)
	}
	if value, err := s.Secret(name); err != nil || value != "hidden" {
		t.Errorf("read %q, %v", value, err)
	}
	if value, err := s.Secret("vessel-vsl_b"); err != nil || value != "" {
		t.Errorf("one that is not there: %q, %v", value, err)
	}
	err = filepath.WalkDir(d.Path(secretsDir), func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "..", "a/b", ".x", strings.Repeat("a", 129)} {
		if err := s.SetSecret(bad, "x"); err == nil || s.HasSecret(bad) {
			t.Errorf("%q is a name", bad)
		}
		if value, err := s.Secret(bad); err == nil {
			t.Errorf("%q has the value %q", bad, value)
		}
	}
	if err := s.SetSecret(name, strings.Repeat("x", maxFile+1)); err == nil || strings.Contains(err.Error(), "xx") {
		t.Errorf("too long: %v", err)
	}
	for range 2 {
		if err := s.SetSecret(name, ""); err != nil || s.HasSecret(name) {
			t.Error(err)
		}
	}
}
