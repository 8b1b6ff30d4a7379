//go:build unix

package main

import (
	"os"
	"syscall"
)

// ownFile reports whether a file belongs to the user of this process, or is not
// there.
func ownFile(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return os.IsNotExist(err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
