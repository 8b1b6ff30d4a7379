package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"berth/broker"
	"berth/transport/httpguard"
	"berth/transport/jsonrpc"
)

// lost is an exchange that broke. arrived is false only when the message
// certainly did not reach a broker.
type lost struct {
	arrived bool
	cause   error
}

func (l *lost) Error() string { return l.cause.Error() }
func (l *lost) Unwrap() error { return l.cause }

// target gives the broker's address and token, asking anew when they are
// not known or did not serve.
func (r *bridge) target(anew bool) (base, token string, err error) {
	r.mu.Lock()
	base, token = r.base, r.token
	r.mu.Unlock()
	if base != "" && !anew {
		return base, token, nil
	}
	if base, token, err = r.Discover(); err != nil {
		return "", "", &lost{cause: err}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.base, r.token = strings.TrimRight(base, "/"), token
	return r.base, r.token, nil
}

// post delivers one message. A second attempt is made only after the first
// certainly had no effect: there was no connection, or the token was refused,
// which happens before anything is read.
func (r *bridge) post(ctx context.Context, method string, body []byte, c carried) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		base, token, err := r.target(attempt > 0)
		if err != nil {
			return nil, err
		}
		resp, err := r.postTo(ctx, base, token, method, body, c)
		var l *lost
		switch {
		case err == nil && resp.StatusCode == http.StatusUnauthorized && attempt == 0:
			_ = resp.Body.Close()
		case err == nil:
			r.found()
			return resp, nil
		case errors.As(err, &l) && l.arrived || attempt > 0 || ctx.Err() != nil:
			return nil, err
		}
	}
}

func (r *bridge) postTo(ctx context.Context, base, token, method string, body []byte, c carried) (*http.Response, error) {
	endpoint := base + "/mcp"
	if r.Profile != "" {
		endpoint += "/" + url.PathEscape(r.Profile)
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, method, endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, &lost{cause: err}
	}
	// Without it the HTTP client cannot repeat the request on its own.
	req.GetBody = nil
	name, value, line := strings.Cut(token, ":")
	if !line {
		name, value = "Authorization", "Bearer "+token
	}
	req.Header.Set(name, strings.TrimSpace(value))
	req.Header.Set("Accept", "application/json, text/event-stream")
	switch method {
	case http.MethodPost:
		req.Header.Set("Content-Type", "application/json")
	case http.MethodGet:
		req.Header.Set("Accept", "text/event-stream")
	}
	r.scope(req.Header)
	r.mu.Lock()
	switch {
	case c.header != nil:
		maps.Copy(req.Header, c.header)
	case !c.fresh && r.session != "":
		req.Header.Set(headerSession, r.session)
	}
	if c.header == nil && !c.fresh && r.version != "" {
		req.Header.Set(headerVersion, r.version)
	}
	r.mu.Unlock()
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, &lost{arrived: connected.Load(), cause: err}
	}
	return resp, nil
}

// found ends an outage, so that the next one is told again.
func (r *bridge) found() {
	r.mu.Lock()
	r.told = false
	r.mu.Unlock()
}

// missing tells a person once in an outage that there is no broker.
func (r *bridge) missing(cause error) {
	r.mu.Lock()
	told := r.told
	r.told = true
	r.mu.Unlock()
	if told {
		return
	}
	var u *url.Error
	if !errors.As(cause, &u) { // it was not found, and what was found says so
		r.tell("%v", cause)
		return
	}
	r.tell("no broker is running (%v); start one with `berth serve`", u.Err) // the address is in u again
}

// notify delivers a notification or a response. A cancel waits until the
// broker has its request, or would have had it, and outlives ctx for as long as
// Run waits for what is on its way.
func (r *bridge) notify(ctx context.Context, msg jsonrpc.Message, data []byte, after *flight) {
	if isCancel(msg) {
		longer, end := context.WithCancel(context.WithoutCancel(ctx))
		defer end()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(tellWait, end) })()
		ctx = longer
	}
	ctx, cancel := context.WithTimeout(ctx, r.Silence)
	defer cancel()
	if after != nil {
		timer := time.NewTimer(500 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-after.taken:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	resp, err := r.post(ctx, http.MethodPost, data, carried{})
	if err != nil {
		var l *lost
		if errors.As(err, &l) && !l.arrived && ctx.Err() == nil {
			r.missing(err)
		}
		return
	}
	defer discard(resp.Body)
	if resp.StatusCode >= 300 {
		r.tell("the broker did not take a %s (HTTP %d)", msg.Kind, resp.StatusCode)
	}
}

// request delivers a request and passes its messages on until it is answered.
func (r *bridge) request(ctx context.Context, msg jsonrpc.Message, data []byte, f *flight) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := r.post(ctx, http.MethodPost, data, f.carried)
	f.arrive()
	if err != nil {
		r.broken(msg, f, err)
		return
	}
	defer discard(resp.Body)
	switch kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); {
	case resp.StatusCode != http.StatusOK:
		r.refused(msg, resp, f)
	case strings.TrimSpace(kind) == "text/event-stream":
		err = r.stream(cancel, msg, resp, f)
	default:
		var body []byte
		if body, err = readAtMost(resp.Body, r.MaxLine); err == nil {
			if !r.pass(msg, resp, body, f) {
				err = errors.New("the broker's answer is not the answer to this request")
			}
		}
	}
	if err != nil {
		r.broken(msg, f, &lost{arrived: true, cause: err})
	}
}

// stream passes events on as they come. It fails when the stream ends without
// the answer, unless the request was cancelled: then none is owed.
func (r *bridge) stream(cancel context.CancelFunc, msg jsonrpc.Message, resp *http.Response, f *flight) error {
	// The broker shows a sign of life every 10 s; one that shows none is stuck.
	silence := time.AfterFunc(r.Silence, cancel)
	defer silence.Stop()
	events := newEventReader(resp.Body, r.MaxLine, func() { silence.Reset(r.Silence) })
	for {
		event, err := events.next()
		if errors.Is(err, io.EOF) {
			if r.wasCancelled(f) {
				return nil
			}
			return errors.New("the stream ended without an answer")
		}
		if err != nil {
			return err
		}
		if r.pass(msg, resp, event, f) {
			return nil
		}
	}
}

// pass writes a message of the broker to the client and reports whether it was
// the answer to msg. What is no message is not passed on.
func (r *bridge) pass(msg jsonrpc.Message, resp *http.Response, data []byte, f *flight) bool {
	got, err := jsonrpc.Decode(data)
	if err != nil {
		return false
	}
	answer := got.Kind == jsonrpc.Response && bytes.Equal(got.ID, msg.ID)
	if got.Kind == jsonrpc.Response && !answer {
		return false // an answer to nobody here
	}
	if answer && msg.Method == "initialize" && got.Result != nil {
		r.remember(resp.Header.Get(headerSession), got.Result)
	}
	if !answer {
		r.say(data)
		return false
	}
	r.answer(f, r.errorOf(msg, got, data))
	if msg.Method == "initialize" && resp.Header.Get(headerSession) != "" && got.Result != nil {
		r.listen() // not before the client has its answer
	}
	return true
}

func (r *bridge) remember(session string, result []byte) {
	version := ""
	if o, err := jsonrpc.ParseObject(result); err == nil {
		version, _ = o.Text("protocolVersion")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session, r.version = session, version
}

func (r *bridge) wasCancelled(f *flight) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return f.cancelled
}

// broken answers a request that got no answer.
func (r *bridge) broken(msg jsonrpc.Message, f *flight, err error) {
	var l *lost
	arrived := !errors.As(err, &l) || l.arrived
	var refusal *broker.Refusal
	switch {
	case r.wasCancelled(f) && (arrived || f.end != nil):
		return // the client waits for nothing any more
	case errors.Is(err, errTooLarge):
		refusal = broker.Refuse(broker.CodeAnswerTooLarge, "The answer is longer than a line may be. The request itself was handled.", map[string]any{"limit_bytes": r.MaxLine})
	case errors.As(err, &refusal): // there is no credential to ask with
	case !arrived:
		if !errors.Is(err, context.Canceled) {
			r.missing(err)
		}
		refusal = broker.Refuse(broker.CodeBrokerNotRunning, "No broker is running; start one with `berth serve`. The request was not sent.", nil)
	case msg.Method == "tools/call":
		refusal = broker.Refuse(broker.CodeOutcomeUnknown, "The connection to the broker ended before the answer; the call may have taken effect. Check before repeating it.", nil)
	default:
		refusal = broker.Refuse(broker.CodeBrokerNotRunning, "The connection to the broker ended before the answer. This request changes nothing and may be repeated.", nil)
	}
	r.answer(f, r.no(msg, refusal))
}

// refused turns an HTTP error into the answer of the request.
func (r *bridge) refused(msg jsonrpc.Message, resp *http.Response, f *flight) {
	body, err := readAtMost(resp.Body, 1<<20)
	if err == nil {
		if got, err := jsonrpc.Decode(body); err == nil && got.Error != nil {
			r.answer(f, jsonrpc.AppendErrorObject(nil, msg.ID, got.Error))
			return
		}
	}
	var p httpguard.ErrorBody
	if json.Unmarshal(body, &p) != nil || p.Message == "" {
		p = httpguard.ErrorBody{Code: broker.CodeInternal, Message: fmt.Sprintf("The broker answered with HTTP %d.", resp.StatusCode)}
	}
	refusal := broker.Refuse(p.Code, p.Message, map[string]any{"http_status": resp.StatusCode})
	if r.Surface != nil && msg.Method == "tools/call" {
		r.answer(f, r.no(msg, refusal))
		return
	}
	r.answer(f, jsonrpc.AppendError(nil, msg.ID, codeRefused, p.Message, refusal.JSON()))
}

// goodbye ends the session, as the protocol asks of a client that leaves. The
// broker forgets it anyway, so a failure is nobody's business.
func (r *bridge) goodbye(ctx context.Context) {
	r.mu.Lock()
	base, token, known := r.base, r.token, r.session != "" || (r.Instance != nil && r.base != "")
	r.mu.Unlock()
	if !known {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if resp, err := r.postTo(ctx, base, token, http.MethodDelete, nil, carried{}); err == nil {
		discard(resp.Body)
	}
}

// errTooLarge is an answer over the limit.
var errTooLarge = errors.New("the broker's answer is larger than a line may be")

func readAtMost(in io.Reader, limit int) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if err == nil && len(body) > limit {
		err = errTooLarge
	}
	return body, err
}

// discard reads what little is left, so that the connection can be used again.
func discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	_ = body.Close()
}

// eventReader reads the data of server-sent events.
type eventReader struct {
	in    *bufio.Reader
	limit int
	alive func() // called for every line, comments too
}

func newEventReader(in io.Reader, limit int, alive func()) *eventReader {
	return &eventReader{in: bufio.NewReaderSize(in, 32<<10), limit: limit, alive: alive}
}

// next gives the data of the next event that has any. An event that the end of
// the stream cut short is none, as the format says.
func (e *eventReader) next() ([]byte, error) {
	var data []byte
	there := false
	for {
		l := readLine(e.in, e.limit+len("data: "))
		if l.err != nil {
			return nil, l.err
		}
		e.alive()
		if l.skimmed != nil {
			return nil, errTooLarge
		}
		if len(l.data) == 0 {
			if there {
				return data, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(l.data, []byte(":"))
		if string(field) != "data" {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		if there {
			data = append(data, '\n')
		}
		if len(data)+len(value) > e.limit {
			return nil, errTooLarge
		}
		data, there = append(data, value...), true
	}
}
