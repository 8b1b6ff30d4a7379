package mcpclient

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
	"time"
)

// wire is a connection that knows whether anything was written on it, and that
// can be closed to writing exactly when nothing was: the only way to say with
// certainty that a request was not handed over.
type wire struct {
	net.Conn

	mu     sync.Mutex
	writes uint64
	sealed bool
}

func dialWire(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c}, nil
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.sealed {
		w.mu.Unlock()
		return 0, net.ErrClosed
	}
	w.writes++ // before the write, so that a write under way counts
	w.mu.Unlock()
	return w.Conn.Write(p)
}

func (w *wire) mark() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

// seal refuses every later write and reports true when none was made since
// mark; else it changes nothing.
func (w *wire) seal(mark uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writes != mark {
		return false
	}
	w.sealed = true
	return true
}

// wireOf finds our connection below TLS.
func wireOf(c net.Conn) *wire {
	for {
		switch v := c.(type) {
		case *wire:
			return v
		case *tls.Conn:
			c = v.NetConn()
		default:
			return nil
		}
	}
}

// handover is what is known of the way of one request onto the wire.
type handover struct {
	mu        sync.Mutex
	wire      *wire
	mark      uint64
	reused    bool
	blind     bool // on a connection that is not ours to watch
	withdrawn bool
}

// trace notes the connection that a request got.
func (h *handover) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: h.got})
}

func (h *handover) got(info httptrace.GotConnInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wire, h.reused = wireOf(info.Conn), info.Reused
	if h.wire == nil {
		h.blind = true
		return
	}
	h.mark = h.wire.mark()
	if h.withdrawn {
		h.wire.seal(h.mark)
	}
}

// withdraw makes sure that nothing of the request is ever written, or reports
// false: then something may have been. It may be asked again.
func (h *handover) withdraw() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.blind || h.wire != nil && !h.wire.seal(h.mark) {
		return false
	}
	h.withdrawn = true
	return true
}

// again allows another try on another connection after nothing was written on
// a connection that had been used before: the other side had closed it.
func (h *handover) again() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.withdrawn || h.blind || h.wire == nil || !h.reused || !h.wire.seal(h.mark) {
		return false
	}
	h.wire = nil
	return true
}
