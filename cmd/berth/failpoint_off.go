//go:build !failpoint

package main

// failpoint is nothing in a normal build.
func failpoint() func(point string) { return nil }
