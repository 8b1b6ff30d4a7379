package mcpclient

import (
	"errors"
	"io"
	"sync/atomic"

	"berth/broker"
	"berth/transport/jsonrpc"
)

// batchBytes is how much the writer gathers into one write.
const batchBytes = 32 << 10

// The states of a line on its way out.
const (
	lineQueued int32 = iota
	lineWithdrawn
	lineWriting // from here on a byte of it may have been handed over
	lineUnsent  // taken, and certainly nothing of it was handed over
)

// outgoing is one line for the child. Exactly one of the writer, its caller
// and the keeper moves it out of the queued state.
type outgoing struct {
	line  []byte // without its end; the writer's once it is lineWriting
	state atomic.Int32
}

// withdraw takes a line back; false means that it may be on its way.
func (o *outgoing) withdraw() bool {
	return o.state.CompareAndSwap(lineQueued, lineWithdrawn) || o.state.Load() != lineWriting
}

func (o *outgoing) claim() bool { return o.state.CompareAndSwap(lineQueued, lineWriting) }

// write is the writer goroutine: it alone writes to the child, so that a child
// that does not read blocks nobody else. It ends with the life.
func (c *stdioConn) write() {
	var buffer []byte
	var batch []*outgoing
	var ends []int
	for {
		first, ok := c.nextLine()
		if !ok {
			return
		}
		buffer, batch, ends = buffer[:0], batch[:0], ends[:0]
		for o := first; o != nil; o = c.moreLines(len(buffer)) {
			if !o.claim() {
				continue
			}
			buffer = append(append(buffer, o.line...), '\n')
			o.line = nil
			batch, ends = append(batch, o), append(ends, len(buffer))
		}
		if len(batch) == 0 {
			continue
		}
		n, err := c.child.Stdin.Write(buffer)
		if err != nil {
			start := 0
			for i, o := range batch {
				if start >= n {
					o.state.Store(lineUnsent)
				}
				start = ends[i]
			}
			c.report("the child closed its input")
			return
		}
		if cap(buffer) > 4*batchBytes {
			buffer = nil
		}
		clear(batch)
	}
}

// nextLine waits for a line, control first.
func (c *stdioConn) nextLine() (*outgoing, bool) {
	select {
	case o := <-c.control:
		return o, true
	default:
	}
	select {
	case o := <-c.control:
		return o, true
	case o := <-c.calls:
		return o, true
	case <-c.life.done:
		return nil, false
	}
}

// moreLines takes another line that waits already, while the batch is small.
func (c *stdioConn) moreLines(have int) *outgoing {
	if have >= batchBytes {
		return nil
	}
	select {
	case o := <-c.control:
		return o
	default:
	}
	select {
	case o := <-c.calls:
		return o
	default:
		return nil
	}
}

// read is the reader goroutine. It ends with stdout.
func (c *stdioConn) read() {
	defer close(c.readDone)
	lines := newLineReader(c.child.Stdout, c.opts.MaxAnswer)
	defer lines.release()
	for {
		l, err := lines.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				c.report("the child closed its output")
			} else {
				c.report("the child's output could not be read")
			}
			return
		}
		if l.skimmed != nil {
			c.oversized(l)
			continue
		}
		c.receive(l.text)
	}
}

// report tells the keeper that a pipe ended.
func (c *stdioConn) report(what string) {
	select {
	case c.broken <- what:
	default:
	}
}

func (c *stdioConn) oversized(l line) {
	c.noise.oversized.Add(1)
	id, ok := l.answers()
	if !ok {
		return
	}
	if p := c.take(id); p != nil {
		p.answer <- verdict{failure: tooLarge(c.opts.MaxAnswer)}
	}
}

// receive routes one line of the child. It never blocks.
func (c *stdioConn) receive(text []byte) {
	if blank(text) {
		return
	}
	text, replaced := validText(text)
	if replaced {
		c.noise.badText.Add(1)
	}
	m, err := decodeMessage(text)
	if err != nil {
		if looksLikeObject(text) {
			c.noise.broken.Add(1)
		} else {
			c.noise.banner.Add(1)
		}
		c.notResponse(&m)
		return
	}
	switch {
	case m.isRequest():
		c.desk.take(nil, &m, func() (*caller, *broker.RPCError) { return c.sole(m.method) }, func(line []byte) {
			c.sendControl(jsonrpc.OneLine(line))
		})
	case m.isNotification():
		c.notification(&m)
	default:
		c.response(m)
	}
}

func (c *stdioConn) response(m message) {
	id, ok := number(m.id)
	if !ok {
		c.noise.unknown.Add(1)
		return
	}
	p := c.take(id)
	if p == nil {
		c.noise.unknown.Add(1)
		return
	}
	p.answer <- verdict{message: m}
}

// notResponse ends the request that m, which is no response, has the id of.
func (c *stdioConn) notResponse(m *message) {
	if id, ok := number(m.id); ok {
		if p := c.take(id); p != nil {
			p.answer <- verdict{failure: notAResponse()}
		}
	}
}

func (c *stdioConn) notification(m *message) {
	switch {
	case m.method == progressMethod:
		c.progress(m)
	case c.streamed(m):
	case m.method == cancelledMethod:
		c.desk.withdraw(nil, m.params)
	case attributable(m.method) && c.noted(m):
	default:
		tell(c.hear, c.noise, m)
	}
}

func (c *stdioConn) progress(m *message) {
	token, progress, ok := m.progress()
	if !ok {
		c.noise.broken.Add(1)
		return
	}
	c.mu.Lock()
	p := c.pending[token]
	c.mu.Unlock()
	if p == nil || p.who == nil || !p.who.progress {
		c.noise.lateProgress.Add(1)
		return
	}
	if p.notes.put(note{params: progress.Params}) {
		c.noise.lostProgress.Add(1)
	}
}

// streamed gives a notification that names the stream it belongs to to whoever
// opened that.
func (c *stdioConn) streamed(m *message) bool {
	id, ok := subscriptionID(m.params)
	if !ok {
		return false
	}
	c.mu.Lock()
	p := c.pending[id]
	c.mu.Unlock()
	if p == nil || p.listen == nil {
		c.noise.notifications.Add(1)
		return true
	}
	p.listen(m)
	return true
}

// noted gives a notification to the latest call of the only session that has
// any in flight.
func (c *stdioConn) noted(m *message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var latest *pending
	var latestID int64
	for id, p := range c.pending {
		if p.who == nil || p.out.state.Load() != lineWriting {
			continue
		}
		if latest != nil && latest.who.session != p.who.session {
			return false
		}
		if latest == nil || id > latestID {
			latest, latestID = p, id
		}
	}
	if latest == nil || latest.who.peer.Notify == nil {
		return false
	}
	if latest.notes.put(note{method: m.method, params: m.params}) {
		c.noise.lostProgress.Add(1)
	}
	return true
}

func blank(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

func looksLikeObject(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '\t' {
			return c == '{'
		}
	}
	return false
}
