package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"berth/broker"
	"berth/transport/jsonrpc"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// manifold is one life of an upstream that keeps sessions beside the connection
// that everybody shares. A session of the handshake era is asked over, and says
// at its beginning what its client can be asked for; so a call needs one of its
// own when the shared connection
//
//   - is of the stateless era and the harness is not: tools that were written for
//     the older era send requests in the middle of a call, and fail in the other;
//   - is a session, which declares whatever some harness may be able to do, and
//     the harness is of the stateless era, where a backend goes by what each
//     request declares.
//
// Harnesses that can be asked for the same things share such a session. On the
// stream of its own POST each question finds its call. Everything else, and all
// that is heard of changes, stays with the shared connection.
type manifold struct {
	broker.Conn // the shared one
	main        *httpConn
	begin       func(ctx context.Context, capabilities string) (*httpConn, error)

	mu       sync.Mutex
	siblings map[string]*sibling   // by the capabilities that they declare
	open     map[*session]struct{} // that are not closed yet
	level    json.RawMessage       // params of the last logging/setLevel
	never    bool                  // the backend keeps no sessions
}

// sibling is the place of a session; its fields are guarded by the manifold's
// lock, as those of session are.
type sibling struct {
	now       *session      // nil: there is none
	making    chan struct{} // closed when the attempt under way is over; nil: there is none
	notBefore time.Time     // of the next attempt
}

// session is one that was begun. One that is lost is closed when the calls that
// were made in it have ended.
type session struct {
	*httpConn
	calls   int
	retired bool
}

const (
	// maxSiblings limits the sessions of one life.
	maxSiblings = 8
	// sessionWait is how long a session may take to begin, sessionWaits how many
	// attempts a call waits for, one after the other, and sessionRetry how long
	// the shared connection does when that came to nothing.
	sessionWait  = 5 * time.Second
	sessionWaits = 3
	sessionRetry = time.Minute
)

var errNoSessions = errors.New("the backend keeps no sessions")

// Call implements broker.Conn.
func (m *manifold) Call(ctx context.Context, call *broker.Call, peer broker.Peer) (broker.Answer, error) {
	if call.Method == string(mcp.MethodSetLogLevel) {
		return m.setLevel(ctx, call, peer)
	}
	capabilities, ok := m.declares(call, peer)
	for try := 1; ok; try++ {
		c := m.sibling(ctx, capabilities)
		if c == nil {
			break
		}
		a, err := c.Call(ctx, call, peer)
		m.release(c)
		var f *broker.Failure
		if !errors.As(err, &f) || !f.Gone || f.Refusal != nil || m.main.life.over() {
			return a, err
		}
		// The session was lost; the backend is there.
		if f.Dispatched || try == 2 {
			lost := *f
			lost.Gone = false
			return broker.Answer{}, &lost
		}
	}
	return m.Conn.Call(ctx, call, peer)
}

// declares gives the capabilities that a session of this call has to declare;
// false: the shared connection is the right one. What is followed later (a
// task of 2025-11-25) stays where it is asked for.
func (m *manifold) declares(call *broker.Call, peer broker.Peer) (string, bool) {
	if peer.Request == nil || !mayAsk(call.Method) || call.Client.Stateless == m.main.stateless.Load() {
		return "", false
	}
	if _, task := get(call.Params, "task"); task {
		return "", false
	}
	p := profile(call.Client.Capabilities)
	if call.Client.Stateless {
		return p, p != everything
	}
	return p, p != "{}"
}

// mayAsk reports whether a backend may ask something in the course of this.
func mayAsk(method string) bool {
	switch method {
	case string(mcp.MethodToolsCall), string(mcp.MethodPromptsGet), string(mcp.MethodResourcesRead):
		return true
	}
	return false
}

// asked are the capabilities by which a client is asked, and what they have
// inside that a backend may go by. Changes of roots are left out, as nobody
// tells of them.
var asked = []struct {
	name  string
	parts []string
}{
	{"roots", nil},
	{"sampling", []string{"context", "tools"}},
	{"elicitation", []string{"form", "url"}},
}

// everything is the profile of what the shared session declares.
var everything = profile(json.RawMessage(clientCapabilities))

// profile reduces capabilities to those by which a client is asked: the same
// text for all that can be asked for the same.
func profile(capabilities json.RawMessage) string {
	out := []byte{'{'}
	for _, a := range asked {
		declared, ok := get(capabilities, a.name)
		if !ok || len(declared) == 0 || declared[0] != '{' {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, jsonrpc.Quote(a.name)...), ":{"...)
		first := true
		for _, part := range a.parts {
			if raw, ok := get(declared, part); !ok || len(raw) == 0 || raw[0] != '{' {
				continue
			}
			if !first {
				out = append(out, ',')
			}
			first = false
			out = append(append(out, jsonrpc.Quote(part)...), ":{}"...)
		}
		out = append(out, '}')
	}
	return string(append(out, '}'))
}

// setLevel has the shared connection set the level, and the sessions after it.
func (m *manifold) setLevel(ctx context.Context, call *broker.Call, peer broker.Peer) (broker.Answer, error) {
	a, err := m.Conn.Call(ctx, call, peer)
	if err != nil || a.Error != nil {
		return a, err
	}
	m.mu.Lock()
	m.level = call.Params
	var open []*session
	for c := range m.open {
		if !c.retired {
			c.calls++
			open = append(open, c)
		}
	}
	m.mu.Unlock()
	for _, c := range open {
		// One that is lost is told when it is made anew; a refusal of what the
		// shared connection took is the backend's own affair.
		_, _ = c.Call(ctx, call, broker.Peer{})
		m.release(c)
	}
	return a, nil
}

// sibling gives the session that declares capabilities, and makes it when there
// is none or the last was lost. Who gets one releases it. Nil: there is none to
// be had now.
func (m *manifold) sibling(ctx context.Context, capabilities string) *session {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.siblings[capabilities]
	if s == nil && len(m.siblings) < maxSiblings {
		s = &sibling{}
		m.siblings[capabilities] = s
	}
	for range sessionWaits {
		switch {
		case s == nil || m.never || m.main.life.over():
			return nil
		case s.making != nil:
		case s.now != nil && !s.now.life.over():
			s.now.calls++
			return s.now
		case time.Now().Before(s.notBefore):
			return nil
		default:
			m.start(capabilities, s)
		}
		if !m.await(ctx, s.making) {
			return nil
		}
		if s.now != nil {
			s.now.calls++
			return s.now
		}
		// It came to nothing; or it was lost before this caller saw it, and the
		// next is being made.
	}
	return nil
}

// start begins an attempt at a session. The caller holds the lock.
func (m *manifold) start(capabilities string, s *sibling) {
	making := make(chan struct{})
	s.making = making
	m.main.desk.background(func(ctx context.Context) {
		defer close(making)
		m.make(ctx, capabilities, s)
	})
}

// await waits without the lock, which the caller holds before and after, until
// an attempt is over; false: something else was over sooner.
func (m *manifold) await(ctx context.Context, making <-chan struct{}) bool {
	m.mu.Unlock()
	defer m.mu.Lock()
	select {
	case <-making:
		return true
	case <-m.main.life.done:
	case <-ctx.Done():
	}
	return false
}

// release ends the use of a session.
func (m *manifold) release(c *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.calls--
	m.tidy(c)
}

// tidy closes a session that is retired and not in use. The caller holds the
// lock. Where the life is over Close has seen to it.
func (m *manifold) tidy(c *session) {
	if _, open := m.open[c]; !open || !c.retired || c.calls > 0 {
		return
	}
	delete(m.open, c)
	m.main.desk.background(func(ctx context.Context) { shut(ctx, c.httpConn) })
}

// make makes a session and puts it into s.
func (m *manifold) make(ctx context.Context, capabilities string, s *sibling) {
	m.mu.Lock()
	again := s.now != nil
	if again {
		s.now.retired = true
		m.tidy(s.now)
		s.now = nil
	}
	level := m.level
	m.mu.Unlock()
	beginning, cancel := context.WithTimeout(ctx, sessionWait)
	defer cancel()
	c, err := m.begin(beginning, capabilities)
	if err == nil && level != nil {
		// A backend that does not take it says nothing either.
		_, _ = c.request(beginning, string(mcp.MethodSetLogLevel), level)
	}
	if err == nil && m.main.hasSession() {
		// Another life of the backend may have begun it, which knows nothing of
		// the shared session: then that one is over, and with it this life.
		m.main.check(beginning)
	}
	m.mu.Lock()
	s.making = nil
	over := m.main.life.over() // then Close may have looked for it already
	switch {
	case err == nil && !over:
		s.now = &session{httpConn: c}
		m.open[s.now] = struct{}{}
	case err != nil:
		s.notBefore = time.Now().Add(sessionRetry)
		var f *broker.Failure
		m.never = m.never || !again && !errors.As(err, &f)
	}
	m.mu.Unlock()
	if err == nil && over {
		shut(ctx, c) // nobody has used it
	}
}

// shut closes a connection within a limit, whatever ends meanwhile.
func shut(ctx context.Context, c *httpConn) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	_ = c.Close(closing) // it has no further use
}

// Close implements broker.Conn.
func (m *manifold) Close(ctx context.Context) error {
	m.main.life.end("the connection was closed by the broker") // no session is kept from here on
	m.mu.Lock()
	open := []*httpConn{m.main}
	for c := range m.open {
		open = append(open, c.httpConn)
	}
	clear(m.open)
	m.mu.Unlock()
	errs := make([]error, len(open))
	var closing sync.WaitGroup
	for i, c := range open {
		closing.Go(func() { errs[i] = c.Close(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// manifold gives the life of an upstream as it is used, when there can be
// sessions beside it.
func (h *HTTP) manifold(conn broker.Conn, c *httpConn) broker.Conn {
	if !c.stateless.Load() && !c.hasSession() {
		return conn
	}
	return &manifold{Conn: conn, main: c, siblings: map[string]*sibling{}, open: map[*session]struct{}{},
		begin: func(ctx context.Context, capabilities string) (*httpConn, error) {
			s, expired, err := h.session(ctx, c, capabilities)
			if expired {
				s, _, err = h.session(ctx, c, capabilities)
			}
			return s, err
		}}
}

// session begins a session of the handshake era beside main. expired is as with
// start.
func (h *HTTP) session(ctx context.Context, main *httpConn, capabilities string) (_ *httpConn, expired bool, err error) {
	c, err := h.newConn(func(method string, params json.RawMessage) {
		// Changed lists are told by both, which the broker takes as one.
		// Resources and tasks were asked for over main.
		if !general(method) || listChanged(method) {
			tell(main.hear, main.noise, &message{method: method, params: params})
		}
	})
	if err != nil {
		return nil, false, err
	}
	in, err := introduce(ctx, c, c.opts, capabilities)
	if err == nil && !c.hasSession() {
		err = errNoSessions
	}
	if err == nil {
		c.addHeader(transport.HeaderKeyProtocolVersion, in.server.ProtocolVersion)
		err = confirm(ctx, c)
	}
	if id := c.reported.Load(); id != nil && in.runtimeID == "" {
		in.runtimeID = *id
	}
	inc := main.Incarnation()
	if err == nil && inc.Reported && in.runtimeID != "" && in.runtimeID != inc.RuntimeID {
		main.life.end("another incarnation answers at the backend's address")
		err = main.gone(false)
	}
	if err != nil {
		shut(ctx, c)
		return nil, c.expired.Load(), err
	}
	c.inc.Store(&inc) // its answers are main's
	c.hearken(ctx, in.server.Capabilities)
	return c, false, nil
}
