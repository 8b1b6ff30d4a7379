package procid

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Boot is the kernel's boot id and the inode of our pid namespace: the same pid
// and ticks can be seen again after a reboot, or in another container.
var Boot = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		boot = nil
	}
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		ns = ""
	}
	return strings.TrimSpace(string(boot)) + "/" + strings.Trim(strings.TrimPrefix(ns, "pid:"), "[]")
})

func entry(pid int) (Entry, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return Entry{}, fmt.Errorf("process %d: %w", pid, ErrGone)
	case err != nil:
		return Entry{}, fmt.Errorf("process %d: %w", pid, err)
	}
	e, err := parseStat(stat)
	if err != nil {
		return Entry{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return e, nil
}

// parseStat reads one line of /proc/PID/stat (proc_pid_stat(5)). The name in
// field 2 may hold anything, parentheses included; the last one ends it.
func parseStat(stat []byte) (Entry, error) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return Entry{}, errors.New("stat line without a name")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(stat[:open])))
	if err != nil {
		return Entry{}, errors.New("stat line without a pid")
	}
	fields := strings.Fields(string(stat[end+1:])) // begins with field 3
	if len(fields) < 20 {
		return Entry{}, errors.New("stat line is cut short")
	}
	e := Entry{ID: ID{PID: pid, Boot: Boot()}, Zombie: fields[0] == "Z" || fields[0] == "X"}
	for i, to := range map[int]*int{1: &e.Parent, 2: &e.Group, 3: &e.Session} {
		if *to, err = strconv.Atoi(fields[i]); err != nil {
			return Entry{}, fmt.Errorf("stat line: field %d is no number", i+3)
		}
	}
	if e.Start, err = strconv.ParseUint(fields[19], 10, 64); err != nil {
		return Entry{}, errors.New("stat line: the start time is no number")
	}
	return e, nil
}

// Table lists the processes that can be seen. It is no snapshot: processes come
// and go while it is read.
func Table() ([]Entry, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("process table: %w", err)
	}
	names, err := dir.Readdirnames(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return nil, fmt.Errorf("process table: %w", err)
	}
	table := make([]Entry, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if e, err := entry(pid); err == nil { // else it is gone, or not ours to see
			table = append(table, e)
		}
	}
	return table, nil
}

// signal holds the process by a pidfd while it looks at the start time, so that
// the pid cannot pass to another one in between.
func signal(id ID, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(id.PID, 0)
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM), errors.Is(err, unix.EINVAL):
		// Before Linux 5.3, or forbidden by a seccomp filter.
		if err := check(id); err != nil {
			return err
		}
		return syscall.Kill(id.PID, sig)
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	if err := check(id); err != nil {
		return err
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// maxEnviron bounds what is read of an environment, in bytes; the kernel's own
// limit for arguments and environment together is 6 MiB by default.
const maxEnviron = 8 << 20

// Carries reports whether process pid was started with entry ("NAME=value") in
// its environment. One whose environment may not be read, or was overwritten,
// carries nothing.
func Carries(pid int, entry string) bool {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	environ, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if errors.Join(err, f.Close()) != nil {
		return false
	}
	for one := range bytes.SplitSeq(environ, []byte{0}) {
		if string(one) == entry {
			return true
		}
	}
	return false
}

// Holds reports whether process pid has one of ends open. A process that cannot
// be looked into holds none.
func Holds(pid int, ends []PipeEnd) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	names, err := f.Readdirnames(-1)
	if errors.Join(err, f.Close()) != nil {
		return false
	}
	for _, name := range names {
		target, err := os.Readlink(dir + "/" + name)
		if err != nil || !strings.HasPrefix(target, "pipe:[") {
			continue
		}
		inode, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(target, "pipe:["), "]"), 10, 64)
		if err != nil {
			continue
		}
		info, err := os.Lstat(dir + "/" + name) // its mode tells how the end is open
		if err != nil {
			continue
		}
		for _, end := range ends {
			if end.Inode == inode && end.Write == (info.Mode().Perm()&0o200 != 0) {
				return true
			}
		}
	}
	return false
}
