package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Change is what Apply did.
type Change struct {
	File    string // after symbolic links
	Changed bool   // false: the registration was there already
	Created bool
}

// maxFile is the largest file that is edited.
const maxFile = 64 << 20

// Apply makes the registration in its file. The file keeps its mode; a symbolic
// link stays one and its target is changed. Applied twice, the second changes
// nothing.
func (r Registration) Apply() (Change, error) {
	file := r.File
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	} else if info, lerr := os.Lstat(file); lerr == nil && info.Mode()&fs.ModeSymlink != 0 {
		return Change{}, fmt.Errorf("%s is a symbolic link that leads nowhere, nothing was written: %w", r.File, err)
	}
	change := Change{File: file}
	mode := fs.FileMode(r.newMode)
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		change.Created = true
	case err != nil:
		return Change{}, fmt.Errorf("look at the client's configuration: %w", err)
	case !info.Mode().IsRegular():
		return Change{}, fmt.Errorf("%s is not a regular file, nothing was written", file)
	case info.Size() > maxFile:
		return Change{}, fmt.Errorf("%s is too large (%d bytes), nothing was written", file, info.Size())
	default:
		mode = info.Mode().Perm()
	}
	old, err := readIfThere(file)
	if err != nil {
		return Change{}, err
	}
	text, err := r.edit(old)
	if err != nil {
		return Change{}, fmt.Errorf("%s: %w", file, err)
	}
	if !change.Created && bytes.Equal(old, text) {
		return change, nil
	}
	if refused := r.foreign(file, old, text); refused != nil && !r.Force {
		return Change{}, refused
	}
	if err := replace(file, old, text, mode); err != nil {
		return Change{}, err
	}
	change.Changed = true
	return change, nil
}

func readIfThere(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the client's configuration: %w", err)
	}
	return text, nil
}

// replace writes text beside file and renames it over file, unless file does
// not say old any more.
func replace(file string, old, text []byte, mode fs.FileMode) (err error) {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the client's configuration: %w", err)
	}
	temp, err := os.CreateTemp(dir, "."+filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("write the client's configuration: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	_, err = temp.Write(text)
	if err == nil {
		err = temp.Chmod(mode)
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("write the client's configuration: %w", err)
	}
	now, err := readIfThere(file)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, old) {
		return fmt.Errorf("%s was changed by another program meanwhile, nothing was written; try again", file)
	}
	if err := os.Rename(temp.Name(), file); err != nil {
		return fmt.Errorf("write the client's configuration: %w", err)
	}
	return nil
}
