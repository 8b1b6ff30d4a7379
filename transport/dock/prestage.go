//go:build unix

package dock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"berth/broker/dispatch"
)

// maxPrestaged is how much is copied into a worktree, in bytes.
const maxPrestaged = 50 << 20

// prestage copies files of this host into a worktree.
func (d *Docks) prestage(worktree string, files []dispatch.PrestagedFile) error {
	left := int64(maxPrestaged)
	for _, f := range files {
		n, err := d.place(worktree, f, left)
		if err != nil {
			return &dispatch.Fault{Reason: dispatch.ProvisionFailed, Message: fmt.Sprintf("The file %s could not be placed at %s: %v.", f.Source, f.Dest, bare(err))}
		}
		left -= n
	}
	return nil
}

// bare drops the operation and the path, which are said already.
func bare(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// place copies one file.
func (d *Docks) place(worktree string, f dispatch.PrestagedFile, left int64) (int64, error) {
	real, err := filepath.EvalSymlinks(filepath.Dir(f.Source))
	if err != nil {
		return 0, err
	}
	closed, err := filepath.EvalSymlinks(d.opts.Closed)
	if err != nil {
		return 0, err
	}
	if real == closed || strings.HasPrefix(real, closed+"/") {
		return 0, errors.New("it is the broker's own")
	}
	in, err := os.OpenFile(filepath.Join(real, filepath.Base(f.Source)), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return 0, errors.New("it is a link")
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }() // it was only read
	info, err := in.Stat()
	switch {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, errors.New("it is no file")
	case info.Size() > left:
		return 0, fmt.Errorf("the files of a mission are more than %d bytes", maxPrestaged)
	}
	mode := fs.FileMode(0o600)
	if info.Mode()&0o100 != 0 {
		mode = 0o700
	}
	out, err := createInside(worktree, f.Dest, mode)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, io.LimitReader(in, left+1)) // it may have grown
	if err == nil && n > left {
		err = fmt.Errorf("the files of a mission are more than %d bytes", maxPrestaged)
	}
	return n, errors.Join(err, out.Close())
}

// createInside makes a file in a worktree, in place of one that is there. It
// follows no link on the way and makes nothing that git keeps for itself.
func createInside(worktree, name string, mode fs.FileMode) (*os.File, error) {
	name = path.Clean(filepath.ToSlash(name))
	if !filepath.IsLocal(name) {
		return nil, errors.New("it leads out of the worktree")
	}
	root, err := os.OpenRoot(worktree)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // files made in it stay open
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if strings.EqualFold(part, ".git") {
			return nil, errors.New("it leads into git's own files")
		}
		at := strings.Join(parts[:i+1], "/")
		info, err := root.Lstat(at)
		last := i == len(parts)-1
		switch {
		case errors.Is(err, fs.ErrNotExist) && !last:
			err = root.Mkdir(at, 0o700)
		case errors.Is(err, fs.ErrNotExist):
			err = nil
		case err != nil:
		case info.Mode()&fs.ModeSymlink != 0:
			err = errors.New("a link is in the way")
		case last && !info.Mode().IsRegular():
			err = errors.New("something that is no file is in the way")
		case last:
			err = root.Remove(at)
		case !info.IsDir():
			err = errors.New("a file is in the way")
		}
		if err != nil {
			return nil, err
		}
	}
	return root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
}
