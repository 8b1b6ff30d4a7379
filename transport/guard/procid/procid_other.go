//go:build unix && !linux && !darwin

package procid

import "syscall"

// Boot is empty here.
func Boot() string { return "" }

func entry(int) (Entry, error) { return Entry{}, ErrUnsupported }

// Table fails with ErrUnsupported.
func Table() ([]Entry, error) { return nil, ErrUnsupported }

func signal(ID, syscall.Signal) error { return ErrUnsupported }

// Carries is false here.
func Carries(int, string) bool { return false }

// Holds is false here.
func Holds(int, []PipeEnd) bool { return false }
