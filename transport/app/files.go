package app

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

var (
	errNotRegular = errors.New("not a regular file")
	errForeign    = errors.New("not a file that may be used")
)

// readRegular reads at most limit bytes of a regular file; anything else could
// make the reader wait for ever.
func readRegular(path string, limit int) ([]byte, error) { return readAllowed(path, limit, nil) }

// readAllowed is the same of a file that may be used; what is asked about is the
// file that is read, whatever the path names a moment later. Nil allows any.
func readAllowed(path string, limit int, allowed func(fs.FileInfo) bool) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if allowed != nil {
		if info, err = f.Stat(); err != nil {
			return nil, err
		}
		if !allowed(info) {
			return nil, errForeign
		}
	}
	return io.ReadAll(io.LimitReader(f, int64(limit)))
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
