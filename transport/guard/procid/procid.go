//go:build unix

// Package procid names processes so that a reused pid is never taken for the
// process that had it before.
//
// It owns the identity of a process (pid, start time, boot and pid namespace),
// the table of what runs on the machine, and a signal that reaches the named
// process or nobody. It refuses to judge what it cannot see: an identity of
// another boot or pid namespace is not [Same]. It is stateless and safe for
// concurrent use. Linux and macOS are supported; other unixes get
// [ErrUnsupported]. Windows is out of scope.
package procid

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrUnsupported is returned where the system has no process table that we know
// how to read.
var ErrUnsupported = errors.New("processes cannot be identified on this system")

// ErrGone says that no process with the identity exists (any more).
var ErrGone = errors.New("the process is gone")

// ID names one process for as long as the machine runs.
type ID struct {
	PID int `json:"pid"`
	// Start is when it began: clock ticks since boot on Linux, microseconds
	// since 1970 on macOS.
	Start uint64 `json:"start"`
	// Boot names the boot and the pid namespace in which PID and Start mean
	// something; see [Boot].
	Boot string `json:"boot,omitempty"`
}

// String gives pid and start time.
func (id ID) String() string { return fmt.Sprintf("%d (started %d)", id.PID, id.Start) }

// Entry is one line of the process table.
type Entry struct {
	ID
	Parent  int
	Group   int
	Session int // 0 where it cannot be seen
	Zombie  bool
}

// PipeEnd is one end of a pipe: its inode, and whether it is the end that one
// writes to.
type PipeEnd struct {
	Inode uint64 `json:"inode"`
	Write bool   `json:"write"`
}

// Of names the process that has pid now, a zombie included. The error wraps
// ErrGone when there is none.
func Of(pid int) (ID, error) {
	e, err := entry(pid)
	if err != nil {
		return ID{}, err
	}
	return e.ID, nil
}

// Self names this process.
func Self() (ID, error) { return Of(os.Getpid()) }

// Same reports whether id comes from the boot and pid namespace that this
// process runs in. Of any other identity nothing can be said from here.
func Same(id ID) bool { return id.Boot == Boot() }

// Alive reports whether the process that id names still runs; a zombie does
// not.
func Alive(id ID) (bool, error) {
	if id.PID <= 0 || !Same(id) {
		return false, nil
	}
	e, err := entry(id.PID)
	if errors.Is(err, ErrGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return e.ID == id && !e.Zombie, nil
}

// Signal sends sig to the process that id names. It returns an error that wraps
// ErrGone, and signals nobody, when that process is gone.
func Signal(id ID, sig syscall.Signal) error {
	if id.PID <= 1 || !Same(id) {
		return fmt.Errorf("signal %s: %w", id, ErrGone)
	}
	if err := signal(id, sig); err != nil {
		if errors.Is(err, syscall.ESRCH) {
			err = ErrGone
		}
		return fmt.Errorf("signal %s: %w", id, err)
	}
	return nil
}

// check tells whether the process that has the pid of id now is still that one.
func check(id ID) error {
	now, err := Of(id.PID)
	if err != nil {
		return err
	}
	if now != id {
		return ErrGone
	}
	return nil
}
