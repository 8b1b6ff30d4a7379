//go:build unix

package app

import (
	"net"
	"syscall"
)

// hasEnded reports whether the other side has closed an idle connection, or
// sent what nobody asked for. It does not wait.
func hasEnded(conn net.Conn) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	ended := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		// The socket does not block.
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		ended = err != syscall.EAGAIN && err != syscall.EWOULDBLOCK && err != syscall.EINTR
	})
	return err == nil && ended
}
