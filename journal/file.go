package journal

import (
	"errors"
	"fmt"
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

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync the directory %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync the directory %s: %w", dir, err)
	}
	return nil
}
