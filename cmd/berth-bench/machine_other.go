//go:build !linux

package main

import (
	"os"
	"time"
)

func datasync(f *os.File) error { return f.Sync() }

func cpuOf(int) time.Duration { return 0 }
func processor() string       { return "" }
func busy() string            { return "" }
