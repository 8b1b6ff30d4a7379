package procid

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Boot is empty: start times on macOS are wall-clock times, which are not seen
// twice.
func Boot() string { return "" }

const zombie = 5 // SZOMB in sys/proc.h

func fromKernel(k *unix.KinfoProc) Entry {
	start := k.Proc.P_starttime
	return Entry{
		ID:     ID{PID: int(k.Proc.P_pid), Start: uint64(start.Sec)*1e6 + uint64(start.Usec)},
		Parent: int(k.Eproc.Ppid),
		Group:  int(k.Eproc.Pgid),
		Zombie: k.Proc.P_stat == zombie,
	}
}

func entry(pid int) (Entry, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	if err != nil {
		return Entry{}, fmt.Errorf("process %d: %w", pid, err)
	}
	if len(list) == 0 {
		return Entry{}, fmt.Errorf("process %d: %w", pid, ErrGone)
	}
	return fromKernel(&list[0]), nil
}

// Table lists the processes that can be seen.
func Table() ([]Entry, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("process table: %w", err)
	}
	table := make([]Entry, 0, len(list))
	for i := range list {
		table = append(table, fromKernel(&list[i]))
	}
	return table, nil
}

// signal looks first; macOS has no handle that pins a pid.
func signal(id ID, sig syscall.Signal) error {
	if err := check(id); err != nil {
		return err
	}
	return syscall.Kill(id.PID, sig)
}

// Carries is false: the environment of another process is not read here.
func Carries(int, string) bool { return false }

// Holds is false: the open files of another process cannot be read here.
func Holds(int, []PipeEnd) bool { return false }
