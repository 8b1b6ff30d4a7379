//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// ownFile reports whether a file belongs to the user of this process.
func ownFile(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
