//go:build unix

package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"berth/transport/guard/procid"
)

// WritePort records that this process, which holds the lock, listens on addr
// (host:port). It is called when the socket listens, so that who reads the file
// can connect.
func (d *Dir) WritePort(addr string) error {
	if !isAddress(addr) {
		return fmt.Errorf("write %s: %q is no address", portFile, addr)
	}
	self, err := procid.Self()
	if err != nil && !errors.Is(err, procid.ErrUnsupported) {
		return fmt.Errorf("write %s: %w", portFile, err)
	}
	self.PID = os.Getpid()
	return d.replace(portFile, []byte("address "+addr+"\n"+formatOwner(self)))
}

func isAddress(addr string) bool {
	if strings.ContainsAny(addr, " \r\n\x00") || len(addr) > 512 {
		return false
	}
	_, port, err := net.SplitHostPort(addr)
	return err == nil && port != "" && port != "0"
}

// parsePort reads what WritePort wrote.
func parsePort(data []byte) (addr string, owner procid.ID, err error) {
	fields := parseLines(string(data))
	if addr = fields["address"]; !isAddress(addr) {
		return "", procid.ID{}, ErrDamaged
	}
	if owner, err = parseOwner(fields); err != nil {
		return "", procid.ID{}, err
	}
	return addr, owner, nil
}

// ReadPort gives the address of the broker that runs on the directory. Else the
// error is ErrNotRunning, together with ErrStale when a broker died and left its
// file; or it is ErrUnsafe or ErrDamaged.
func (d *Dir) ReadPort() (addr string, err error) {
	data, err := d.read(portFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", notRunning(d.path)
	}
	if err != nil {
		return "", fmt.Errorf("address of the broker: %w", err)
	}
	addr, owner, err := parsePort(data)
	if err != nil {
		return "", problemf(ErrDamaged, "address of the broker: %s cannot be understood: start the broker again", d.Path(portFile))
	}
	gone, err := d.isGone(owner)
	if err != nil {
		return "", fmt.Errorf("address of the broker: %w", err)
	}
	if gone {
		return "", &problem{
			text: fmt.Sprintf("no broker runs on %s (pid %d, which did, is gone): start one with `berth serve`", d.path, owner.PID),
			is:   []error{ErrNotRunning, ErrStale},
		}
	}
	return addr, nil
}

// isGone judges the process by its pid and start time where those mean something
// here, else by the lock: a probe of that can get in the way of a broker that
// starts.
func (d *Dir) isGone(owner procid.ID) (bool, error) {
	if procid.Same(owner) {
		alive, err := procid.Alive(owner)
		if !errors.Is(err, procid.ErrUnsupported) {
			return !alive, err
		}
	}
	return d.lockIsFree()
}

// RemovePort removes the record at a clean stop, if it is still of this process.
// It is called before the lock is released.
func (d *Dir) RemovePort() error {
	data, err := d.read(portFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", portFile, err)
	}
	_, owner, err := parsePort(data)
	if err != nil {
		return problemf(ErrDamaged, "remove %s: it is not ours", portFile)
	}
	self, err := procid.Self()
	if err != nil && !errors.Is(err, procid.ErrUnsupported) {
		return fmt.Errorf("remove %s: %w", portFile, err)
	}
	self.PID = os.Getpid()
	if owner != self {
		return nil
	}
	if err := os.Remove(d.Path(portFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", portFile, err)
	}
	return nil
}

func notRunning(dir string) error {
	return problemf(ErrNotRunning, "no broker runs on %s: start one with `berth serve`", dir)
}
