//go:build unix

package brokerproc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Witness is the reading end of a FIFO that a family of processes has open:
// those that inherited it, and those that opened its path. When nobody has it
// open for writing any more, they are all gone, whatever sessions and groups
// they moved to.
type Witness struct {
	path string
	file *os.File
	own  *os.File // keeps the end of file away until the question is asked
}

// NewWitness makes the FIFO at path, which must not exist.
func NewWitness(path string) (*Witness, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("make the witness: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open the witness: %w", err)
	}
	own, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the witness: %w", err), file.Close())
	}
	return &Witness{path: path, file: file, own: own}, nil
}

// Path is the FIFO's, for processes that open it themselves.
func (w *Witness) Path() string { return w.path }

// AwaitNobody waits until every process that had the witness open is gone. It
// lets go of the witness's own end, so it can be asked once.
func (w *Witness) AwaitNobody(limit time.Duration) error {
	if err := w.own.Close(); err != nil {
		return fmt.Errorf("ask the witness: %w", err)
	}
	if err := w.file.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return fmt.Errorf("ask the witness: %w", err)
	}
	switch _, err := w.file.Read(make([]byte, 1)); {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("a process is left after %s", limit)
	case err != nil:
		return fmt.Errorf("ask the witness: %w", err)
	}
	return errors.New("ask the witness: somebody wrote to it")
}

// Close removes the FIFO. It is idempotent.
func (w *Witness) Close() error {
	_, _ = w.own.Close(), w.file.Close()
	if err := os.Remove(w.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the witness: %w", err)
	}
	return nil
}
