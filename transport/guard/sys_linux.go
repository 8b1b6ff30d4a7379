package guard

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopts is true where orphaned descendants come to the guard.
const adopts = true

// becomeReaper makes orphaned descendants children of this process.
func becomeReaper() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// childAttr gives the child its own group, and SIGKILL when the guard dies.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func dup2(from, to int) error { return unix.Dup3(from, to, 0) }

// ownBinary names the binary that runs now, also after the file was replaced by
// an upgrade.
func ownBinary() (string, error) { return "/proc/self/exe", nil }

// waitKeepingPID waits until process pid, a child of ours, has ended and leaves
// it a zombie: nobody else can get its pid. killed tells whether a signal ended
// it.
func waitKeepingPID(pid int) (killed bool, err error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return info.Code != cldExited, os.NewSyscallError("waitid", err)
	}
}

// cldExited is CLD_EXITED of siginfo(2).
const cldExited = 1
