//go:build !linux

package journal_test

import "os"

func datasync(f *os.File) error { return f.Sync() }
