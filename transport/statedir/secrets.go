//go:build unix

package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// secretsDir holds the credentials that callers gave of others.
const secretsDir = "secrets"

// Secrets keeps credentials by name, each in a file that its owner alone can read
// from its first byte.
type Secrets struct{ dir *Dir }

// Secrets opens the credentials that callers gave.
func (d *Dir) Secrets() (*Secrets, error) {
	path := d.Path(secretsDir)
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make a place for credentials: %w", err)
	}
	dir, err := Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the place of credentials: %w", err)
	}
	left, err := filepath.Glob(dir.Path(".*")) // what a broker that died was writing
	for _, partial := range left {
		err = errors.Join(err, os.Remove(partial))
	}
	if err != nil {
		return nil, fmt.Errorf("clear the place of credentials: %w", err)
	}
	return &Secrets{dir}, nil
}

var secretName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// SetSecret writes a credential of 4096 bytes at most, or removes it when it is
// empty.
func (s *Secrets) SetSecret(name, value string) error {
	switch {
	case !secretName.MatchString(name):
		return errors.New("this is no name of a credential")
	case len(value) > maxFile:
		return errors.New("the credential is too long")
	case value != "":
		return s.dir.replace(name, []byte(value))
	}
	if err := os.Remove(s.dir.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a credential: %w", err)
	}
	return syncDir(s.dir.path)
}

// HasSecret reports whether there is a credential of this name.
func (s *Secrets) HasSecret(name string) bool {
	if !secretName.MatchString(name) {
		return false
	}
	_, err := os.Lstat(s.dir.Path(name))
	return err == nil
}

// Secret reads a credential; empty: there is none of this name.
func (s *Secrets) Secret(name string) (string, error) {
	if !secretName.MatchString(name) {
		return "", errors.New("this is no name of a credential")
	}
	raw, err := s.dir.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read a credential: %w", err)
	}
	return string(raw), nil
}
