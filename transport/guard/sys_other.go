//go:build unix && !linux

package guard

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopts is false: orphans go to init.
const adopts = false

func becomeReaper() error { return nil }

// childAttr gives the child its own group; there is no parent-death signal.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func dup2(from, to int) error { return unix.Dup2(from, to) }

func ownBinary() (string, error) { return os.Executable() }

// waitKeepingPID cannot do that here; it says that the worst may be the case.
func waitKeepingPID(int) (killed bool, err error) { return true, nil }
