//go:build unix

package statedir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// maxFile bounds what is read of any of our files, in bytes.
const maxFile = 4096

// replace writes a file that nobody else can read at any moment, and puts it in
// the place of name when it is complete and on the disk.
func (d *Dir) replace(name string, data []byte) (err error) {
	partial := d.Path("." + name + "-" + rand.Text())
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(partial, d.Path(name))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, errors.Join(err, os.Remove(partial)))
	}
	if err := syncDir(d.path); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // a file system that cannot sync a directory
	}
	return errors.Join(err, f.Close())
}

// read reads a file that only its owner can read. The checks are of the file
// that is read, not of its name.
func (d *Dir) read(name string) (_ []byte, err error) {
	path := d.Path(name)
	// O_NONBLOCK: a FIFO in that place must not hang us.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, problemf(ErrUnsafe, "%s is a symbolic link", path)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, problemf(ErrUnsafe, "%s is no regular file", path)
	}
	if err := safe(path, info, os.Geteuid(), 0o077); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, problemf(ErrDamaged, "%s is too long", path)
	}
	return data, nil
}

// removePartials removes what a broker left that died while it wrote a file.
// Only the holder of the lock may do so.
func (d *Dir) removePartials() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		for _, name := range []string{portFile, tokenFile, sessionFile} {
			if strings.HasPrefix(e.Name(), "."+name+"-") {
				errs = append(errs, os.Remove(d.Path(e.Name())))
			}
		}
	}
	return errors.Join(errs...)
}
