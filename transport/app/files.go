package app

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

var errNotRegular = errors.New("not a regular file")

// readRegular reads at most limit bytes of a regular file; anything else could
// make the reader wait for ever.
func readRegular(path string, limit int) ([]byte, error) {
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
	return io.ReadAll(io.LimitReader(f, int64(limit)))
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
