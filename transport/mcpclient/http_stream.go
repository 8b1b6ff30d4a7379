package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"berth/broker"
)

// Waits before a stream that the backend ended is asked for again.
const (
	resumeDelay    = time.Second
	minResumeDelay = 10 * time.Millisecond
	maxResumeDelay = 30 * time.Second
)

// stream is one SSE response, or several that continue each other.
type stream struct {
	c         *httpConn
	x         *exchange
	lastID    string
	retry     time.Duration
	oversized bool

	// The event that is being read.
	data  []byte
	has   bool
	over  bool
	id    string
	hasID bool
	kind  string
}

// follow reads the stream until the answer, and over a planned reconnect
// (SEP-1699) when the backend ended it after giving an event id.
func (c *httpConn) follow(ctx context.Context, x *exchange, resp *http.Response) (keep bool, err error) {
	s := &stream{c: c, x: x, retry: resumeDelay}
	err = s.read(resp.Body)
	if x.answer != nil {
		return true, nil
	}
	for err == nil && s.lastID != "" && !c.stateless.Load() && !s.oversized && !x.cancelled() {
		err = s.resume(ctx)
		if x.answer != nil {
			return false, nil
		}
	}
	if x.failure != nil {
		return false, errHandled
	}
	if s.oversized {
		x.failure = tooLarge(c.opts.MaxAnswer)
		return false, errHandled
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return false, err
}

// read takes events until the answer (then x.answer or x.failure is set) or
// the end of the stream, which is no error.
func (s *stream) read(body io.Reader) error {
	lines := newLineReader(body, s.c.opts.MaxAnswer)
	defer lines.release()
	for first := true; ; first = false {
		l, err := lines.next()
		if first { // a stream may begin with one, as the HTML standard has it
			l.text = bytes.TrimPrefix(l.text, []byte("\ufeff"))
		}
		if errors.Is(err, io.EOF) {
			s.dispatch() // servers exist that leave out the last empty line
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case l.skimmed != nil:
			s.tooLong(l)
		case len(l.text) == 0:
			s.dispatch()
		default:
			s.field(l.text)
		}
		if s.x.answer != nil || s.x.failure != nil {
			return nil
		}
	}
}

// field takes one line of an event.
func (s *stream) field(text []byte) {
	name, value, _ := bytes.Cut(text, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		if len(s.data)+len(value) > s.c.opts.MaxAnswer {
			s.over = true
			s.data = nil
		}
		switch {
		case s.over:
		case s.has:
			s.data = append(append(s.data, '\n'), value...)
		default:
			s.data, s.has = value, true
		}
	case "event":
		s.kind = string(value)
	case "id":
		if len(value) <= 1024 && bytes.IndexByte(value, 0) < 0 {
			s.id, s.hasID = string(value), true
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			s.retry = min(max(time.Duration(ms)*time.Millisecond, minResumeDelay), maxResumeDelay)
		}
	}
}

// dispatch ends an event.
func (s *stream) dispatch() {
	if s.hasID {
		s.lastID = s.id
	}
	data, has, over, kind := s.data, s.has, s.over, s.kind
	s.data, s.has, s.over, s.hasID, s.kind = nil, false, false, false, ""
	switch {
	case over:
		s.c.noise.oversized.Add(1)
		s.oversized = true
	case !has || len(data) == 0:
	case kind != "" && kind != "message":
		s.c.noise.notifications.Add(1)
	default:
		s.message(data)
	}
}

// tooLong notes a line over the limit. If it cannot be told whose answer it
// was and no other comes, it was ours.
func (s *stream) tooLong(l line) {
	if !bytes.HasPrefix(l.text, []byte("data:")) {
		return
	}
	s.c.noise.oversized.Add(1)
	s.oversized = true
	if id, ok := l.answers(); ok && id == s.x.id {
		s.x.failure = tooLarge(s.c.opts.MaxAnswer)
	}
}

func (s *stream) message(data []byte) {
	n := s.c.noise
	data, replaced := validText(data)
	if replaced {
		n.badText.Add(1)
	}
	m, err := decodeMessage(data)
	switch {
	case err != nil:
		n.broken.Add(1)
		if id, ok := number(m.id); ok && id == s.x.id {
			s.x.failure = notAResponse()
		}
	case m.isRequest():
		s.question(&m)
	case m.isNotification():
		s.notification(&m)
	case !s.x.accept(&m):
		n.unknown.Add(1)
	}
}

// question puts a request of the backend to the caller whose stream it came
// on, or, on a stream of no call, to the only session that it can be for.
func (s *stream) question(m *message) {
	s.c.desk.take(s.x, m, func() (*caller, *broker.RPCError) {
		if s.x.who != nil {
			return s.x.who, nil
		}
		return s.c.sole(m.method)
	}, s.c.respond)
}

func (s *stream) notification(m *message) {
	switch who := s.x.who; {
	case m.method == progressMethod:
		s.progress(m)
	case m.method == cancelledMethod:
		s.c.desk.withdraw(s.x, m.params)
	case s.x.listen != nil:
		s.x.listen(m)
	case who == nil || general(m.method):
		tell(s.c.hear, s.c.noise, m)
	case !who.notify(m.method, m.params):
		s.c.noise.notifications.Add(1)
	}
}

// progress goes by its token, as servers exist that send it on the stream of
// another call, or of none.
func (s *stream) progress(m *message) {
	token, p, ok := m.progress()
	if !ok {
		s.c.noise.broken.Add(1)
		return
	}
	x := s.x
	if token != x.id {
		x = s.c.flight(token)
	}
	if x == nil || x.who == nil || !x.who.takeProgress(p) {
		s.c.noise.lateProgress.Add(1)
	}
}

// resume asks for the rest of the stream and reads it.
func (s *stream) resume(ctx context.Context) error {
	t := time.NewTimer(s.retry)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	fresh, err := s.c.fresh.get(ctx)
	if err != nil {
		return err
	}
	req := s.c.newRequest(ctx, http.MethodGet, nil, fresh)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", s.lastID)
	resp, err := s.c.base.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	s.c.fresh.answered(fresh, resp.StatusCode)
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || mediaType != "text/event-stream" {
		s.x.failure = &broker.Failure{Dispatched: true, Cause: fmt.Sprintf("the backend ended the stream before the answer and gave HTTP %d when asked for the rest", resp.StatusCode)}
		return errHandled
	}
	return s.read(resp.Body)
}

// respond answers a request of the backend with a POST of its own.
func (c *httpConn) respond(body []byte) {
	c.help(func(ctx context.Context) {
		if err := c.postUnder(ctx, &exchange{}, body); err != nil {
			c.noise.lostReplies.Add(1)
		}
	})
}
