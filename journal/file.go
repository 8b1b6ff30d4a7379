package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
)

// tighten takes away the rights that others have on an existing file.
func tighten(path string, mode fs.FileMode) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the journal's files: %w", err)
	}
	if info.Mode().Perm()&^mode == 0 {
		return nil
	}
	if err := os.Chmod(path, info.Mode().Perm()&mode); err != nil {
		return fmt.Errorf("make the journal's files private: %w", err)
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync the directory %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync the directory %s: %w", dir, err)
	}
	return nil
}

// The head of a bbolt file: two pages, each a page header of 16 bytes and a
// meta record of 64, of which we need the size of a page and the number of
// pages in use. bbolt maps the file and faults when pages are missing.
const (
	boltPageHeader = 16
	boltMeta       = 64
	boltMagic      = 0xED0CDAED
)

// checkLength refuses a file that is shorter than its own head says: a copy
// that was interrupted, or a disk that was full. Whatever else is wrong with
// the file is bbolt's to say.
func checkLength(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	pageSize, pages, txid := uint64(0), uint64(0), uint64(0)
	for _, at := range []int64{0, int64(os.Getpagesize())} {
		var b [boltPageHeader + boltMeta]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return fmt.Errorf("open the journal: %w", err)
		}
		m := b[boltPageHeader:]
		order := binary.NativeEndian
		sum := fnv.New64a()
		_, _ = sum.Write(m[:56])
		if order.Uint32(m) == boltMagic && order.Uint64(m[56:]) == sum.Sum64() && order.Uint64(m[48:]) >= txid {
			pageSize, pages, txid = uint64(order.Uint32(m[8:])), order.Uint64(m[40:]), order.Uint64(m[48:])
		}
	}
	if want := pageSize * pages; uint64(info.Size()) < want {
		return fmt.Errorf("open the journal %s: the file is damaged: it has %d bytes and its head speaks of %d", path, info.Size(), want)
	}
	return nil
}
