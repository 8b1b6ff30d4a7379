//go:build unix

package statedir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth/transport/guard/procid"
)

// A lock that cannot be had is tried again for lockPatience when nobody who runs
// claims it: a client may be probing it, or its holder may be just ending.
const (
	lockPatience = time.Second
	lockPause    = 20 * time.Millisecond
)

// RunningError says that another broker uses the directory.
type RunningError struct {
	Dir string
	PID int // 0: it has not said
}

func (e *RunningError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("another broker runs on %s", e.Dir)
	}
	return fmt.Sprintf("another broker (pid %d) runs on %s", e.PID, e.Dir)
}

// Is makes it an ErrRunning.
func (e *RunningError) Is(target error) bool { return target == ErrRunning }

// Lock is held by the one broker that uses a directory, and by nobody once its
// process is gone, however that ended.
type Lock struct {
	once sync.Once
	file *os.File
	err  error
}

// Lock takes the directory for this process. When another broker has it the
// error is a [RunningError]. What a dead broker left is taken over.
func (d *Dir) Lock() (*Lock, error) {
	self, err := procid.Self()
	if err != nil && !errors.Is(err, procid.ErrUnsupported) {
		return nil, fmt.Errorf("lock %s: %w", d.path, err)
	}
	self.PID = os.Getpid()
	// Close-on-exec, as all files of Go: no child can keep the lock.
	f, err := os.OpenFile(d.Path(lockFile), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", d.path, err)
	}
	if err := d.acquire(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(formatOwner(self)), 0)
	}
	if err == nil {
		err = d.removePartials()
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", d.path, errors.Join(err, f.Close()))
	}
	return &Lock{file: f}, nil
}

// acquire takes the flock.
func (d *Dir) acquire(f *os.File) error {
	for deadline := time.Now().Add(lockPatience); ; {
		err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", d.path, err)
		}
		holder := readOwner(f)
		alive, err := procid.Alive(holder)
		if err == nil && alive || time.Now().After(deadline) {
			return &RunningError{Dir: d.path, PID: holder.PID}
		}
		timer := time.NewTimer(lockPause)
		<-timer.C
	}
}

// Release gives the directory up. It is idempotent. The file stays: removing it
// would let two processes lock two files of one name.
func (l *Lock) Release() error {
	l.once.Do(func() {
		l.err = errors.Join(l.file.Truncate(0), l.file.Close())
	})
	return l.err
}

// lockIsFree probes whether a broker holds the lock.
func (d *Dir) lockIsFree() (bool, error) {
	f, err := os.OpenFile(d.Path(lockFile), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	err = flock(f, syscall.LOCK_SH|syscall.LOCK_NB)
	closed := f.Close() // gives the lock back
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, closed
	case err != nil:
		return false, errors.Join(err, closed)
	}
	return true, closed
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// formatOwner renders a process as lines of text.
func formatOwner(id procid.ID) string {
	return fmt.Sprintf("pid %d\nstart %d\nboot %s\n", id.PID, id.Start, id.Boot)
}

// readOwner reads who wrote the lock file; what cannot be read is zero.
func readOwner(f *os.File) procid.ID {
	data, err := io.ReadAll(io.NewSectionReader(f, 0, maxFile))
	if err != nil {
		return procid.ID{}
	}
	id, err := parseOwner(parseLines(string(data)))
	if err != nil {
		return procid.ID{}
	}
	return id
}

// parseLines reads lines of "key value"; of a key that comes twice the last
// counts.
func parseLines(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		fields[key] = value
	}
	return fields
}

func parseOwner(fields map[string]string) (procid.ID, error) {
	pid, err := strconv.Atoi(fields["pid"])
	if err != nil || pid <= 0 {
		return procid.ID{}, ErrDamaged
	}
	start, err := strconv.ParseUint(fields["start"], 10, 64)
	if err != nil {
		return procid.ID{}, ErrDamaged
	}
	return procid.ID{PID: pid, Start: start, Boot: fields["boot"]}, nil
}
