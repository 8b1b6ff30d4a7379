package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"berth/broker"
	"berth/transport/jsonrpc"

	"github.com/mark3labs/mcp-go/mcp"
)

// hop is a connection that carries requests and knows nothing of eras.
type hop interface {
	peer
	// send sends a call, with params as the backend's era takes them.
	send(ctx context.Context, call *broker.Call, who *caller, params json.RawMessage) (broker.Answer, error)
	// listen sends a request whose answer ends a stream of notifications.
	listen(ctx context.Context, method string, params json.RawMessage, take func(*message)) (broker.Answer, error)
	// outdated ends the life because the backend is not what it was, and
	// reports false where that cannot be.
	outdated(cause string) bool
	Incarnation() broker.Incarnation
	Close(ctx context.Context) error
}

// stateless is one life of a backend of the stateless era: each request says
// what a handshake would have said, what the backend needs to know in the
// course of a call is asked of a handshake-era harness here, and what it has to
// tell comes on a stream that is opened for that.
type stateless struct {
	hop
	opts   Options
	watch  *watch
	levels *levels
	bind   func([]broker.Tool) // nil: there are no headers
}

// newStateless begins to listen, and waits a moment until it does, so that no
// change after the first list goes unnoticed.
func newStateless(ctx context.Context, h hop, opts Options, n *noise, hear broker.Hear, capabilities json.RawMessage, l *levels, d *desk, of *life, bind func([]broker.Tool)) *stateless {
	s := &stateless{hop: h, opts: opts, levels: l, bind: bind}
	s.watch = newWatch(h, opts, n, hear, capabilities, of.done)
	s.watch.overlap = bind != nil
	d.background(s.watch.run)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	// What came of it is the watch's to deal with.
	if _, err := s.watch.await(ctx, 1); err != nil {
		s.watch.late.Store(true)
	}
	return s
}

// request is the view of the connection that the walk over tools/list has.
func (s *stateless) request(ctx context.Context, method string, params json.RawMessage) (broker.Answer, error) {
	params, err := dress(params, statelessVersion, s.opts.client(), "")
	if err != nil {
		return broker.Answer{}, badParams()
	}
	return s.hop.request(ctx, method, params)
}

// List implements broker.Conn.
func (s *stateless) List(ctx context.Context) ([]broker.Tool, []string, error) {
	tools, flags, err := listTools(ctx, s, s.opts)
	if err == nil && s.bind != nil {
		s.bind(tools)
	}
	return tools, flags, err
}

// Call implements broker.Conn.
func (s *stateless) Call(ctx context.Context, call *broker.Call, peer broker.Peer) (broker.Answer, error) {
	who := newCaller(call, peer)
	defer who.finish()
	if a, done, err := s.instead(ctx, call, who); done {
		return a, err
	}
	params, err := s.dressed(call, who)
	if err != nil {
		return broker.Answer{}, badParams()
	}
	if call.Client.Stateless {
		// Whatever is asked of it, the harness answers itself.
		return s.once(ctx, call, who, params)
	}
	a, err := s.rounds(ctx, call, who, params)
	if err != nil || a.Error != nil {
		return a, err
	}
	// What does not decode is the backend's own and passes.
	if result, err := trimMeta(a.Result, ofResult); err == nil {
		a.Result = result
	}
	return a, nil
}

// once sends the call one time.
func (s *stateless) once(ctx context.Context, call *broker.Call, who *caller, params json.RawMessage) (broker.Answer, error) {
	a, err := s.hop.send(ctx, call, who, params)
	if err == nil && a.Error != nil {
		switch a.Error.Code {
		case mcp.HEADER_MISMATCH:
			// The tool may want other headers than when it was listed.
			s.watch.tell(toolsChanged, nil)
		case mcp.UNSUPPORTED_PROTOCOL_VERSION:
			const cause = "the backend does not speak " + statelessVersion + " any more"
			if !offers(a.Error.Data, statelessVersion) && s.hop.outdated(cause) {
				return broker.Answer{}, &broker.Failure{Gone: true, Cause: cause}
			}
		}
	}
	return a, err
}

// offers reports whether the data of an error lists version as supported.
func offers(data json.RawMessage, version string) bool {
	var d struct {
		Supported []string `json:"supported"`
	}
	return json.Unmarshal(data, &d) == nil && slices.Contains(d.Supported, version)
}

// dressed gives the params of a call with what they must say of the harness.
func (s *stateless) dressed(call *broker.Call, who *caller) (json.RawMessage, error) {
	client := call.Client
	if client.Info == nil {
		client.Info = s.opts.client().Info
	}
	params, err := withTrace(call.Params, call.Trace)
	if err != nil {
		return nil, err
	}
	if client.Stateless {
		return dress(params, statelessVersion, client, "")
	}
	if who.peer.Request == nil {
		client.Capabilities = unaskable(client.Capabilities)
	}
	return dress(params, statelessVersion, client, s.levels.get(who.session))
}

// unaskable gives capabilities without those by which a harness is asked:
// this one does not wait for the call, as with a job.
func unaskable(capabilities json.RawMessage) json.RawMessage {
	o, err := jsonrpc.ParseObject(capabilities)
	if err != nil {
		return nil
	}
	for _, asked := range []string{"sampling", "elicitation", "roots"} {
		o.Delete(asked)
	}
	return o.Bytes()
}

// instead answers the methods that the stateless era has another form for.
func (s *stateless) instead(ctx context.Context, call *broker.Call, who *caller) (a broker.Answer, done bool, err error) {
	empty := broker.Answer{Result: json.RawMessage(`{}`), RuntimeID: s.Incarnation().RuntimeID}
	switch call.Method {
	case string(mcp.MethodPing):
		return empty, true, nil
	case string(mcp.MethodSetLogLevel):
		level, _ := text(call.Params, "level")
		if !slices.Contains(logLevels, level) {
			return wrongParams(`"level" must be one of the levels of the protocol`), true, nil
		}
		if call.Session != "" && !call.Client.Stateless {
			s.levels.set(who.session, level)
		}
		return empty, true, nil
	case string(mcp.MethodResourcesSubscribe), string(mcp.MethodResourcesUnsubscribe):
		uri, ok := text(call.Params, "uri")
		if !ok {
			return wrongParams(`"uri" must be a text`), true, nil
		}
		if call.Method == string(mcp.MethodResourcesUnsubscribe) {
			s.watch.unsubscribe(uri)
			return empty, true, nil
		}
		refused, err := s.watch.subscribe(ctx, uri)
		if refused != nil {
			return broker.Answer{Error: refused}, true, nil
		}
		return empty, true, err
	}
	return broker.Answer{}, false, nil
}

func wrongParams(what string) broker.Answer {
	return broker.Answer{Error: &broker.RPCError{Code: mcp.INVALID_PARAMS, Message: what}}
}

// logLevels are those of logging/setLevel.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// levels holds what sessions of the handshake era have set, as each request of
// the stateless era says it anew. It belongs to the backend and outlives its
// lives.
type levels struct {
	mu    sync.Mutex
	level map[string]string
	order []string
}

// maxLevels limits how many sessions are remembered; the oldest goes.
const maxLevels = 4096

func (l *levels) set(session, level string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.level == nil {
		l.level = map[string]string{}
	}
	if _, known := l.level[session]; !known {
		if len(l.order) >= maxLevels {
			delete(l.level, l.order[0])
			l.order = append(l.order[:0], l.order[1:]...)
		}
		l.order = append(l.order, session)
	}
	l.level[session] = level
}

func (l *levels) get(session string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.level[session]
}

// needsInput reports whether a result asks for something before the call can
// go on.
func needsInput(result json.RawMessage) bool {
	if !bytes.Contains(result, []byte(`"input_required"`)) {
		return false
	}
	kind, _ := text(result, "resultType")
	return kind == "input_required"
}
