package mcpserver

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/transport/httpguard"
	"berth/transport/jsonrpc"
)

// Server is the HTTP front for MCP clients. It serves /mcp, /mcp/{profile} and
// /rpc.
//
// An http.Server around it should set ReadHeaderTimeout and IdleTimeout.
// ReadTimeout and WriteTimeout may be set: the front moves both deadlines of
// the connection for its own requests.
type Server struct {
	opts    Options // as validated; not changed after New
	tables  atomic.Pointer[tables]
	handler http.Handler // serve, behind the recover of every front

	callPrefix string // unique to this process
	calls      atomic.Uint64

	streams   streams
	sessions  opened
	questions questions
	waits     waits
	given     given
	talks     talks
	listeners listeners
	directory directory
	lookups   chan struct{} // a token for each lookup of a banner that goes on
	gathering sync.Map      // session and raw id -> context.CancelFunc, of lists that are being put together
}

// New builds the front.
func New(opts Options) (*Server, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	s := &Server{opts: opts}
	s.Retable(opts.Clients, opts.ReadOnly)
	prefix := make([]byte, 4)
	if _, err := io.ReadFull(opts.Random, prefix); err != nil {
		return nil, fmt.Errorf("random bytes for call ids: %w", err)
	}
	s.callPrefix = "call_" + hex.EncodeToString(prefix) + "_"
	s.lookups = make(chan struct{}, maxLookups)
	s.questions.prefix = "berth-" + hex.EncodeToString(prefix) + "-"
	s.waits.over = make(chan struct{})
	s.streams.init(opts.Limits.MaxStreams)
	s.sessions.init()
	s.listeners.init(opts.Limits.MaxStreams)
	s.handler = httpguard.Recover(opts.Logger, http.HandlerFunc(s.serve))
	return s, nil
}

// tables are what a configuration says of clients and profiles.
type tables struct {
	clients  []ClientLimits
	readOnly map[string]bool
}

// Retable replaces Options.Clients and Options.ReadOnly, from the next request
// on. The front keeps both.
func (s *Server) Retable(clients []ClientLimits, readOnly map[string]bool) {
	s.tables.Store(&tables{clients, readOnly})
}

// Drain refuses new work with `shutting_down` and waits until every open
// request was answered or ctx ends; the rest is then up to what Broker.Do
// answers. It gives the number of requests that were still open.
//
// Streams of notifications end at once: nothing is owed on them. So do calls
// whose harness is away, and waits for tasks, which go on.
func (s *Server) Drain(ctx context.Context) int {
	s.listeners.endAll()
	s.talks.end()
	s.waits.stop()
	return s.streams.drain(ctx)
}

// request is one HTTP request on its way through the front.
type request struct {
	w           http.ResponseWriter
	r           *http.Request
	control     *http.ResponseController
	accept      accepts
	caller      broker.Caller
	principal   broker.Principal // the caller's
	profile     string           // as the path names it, else the credential's first; empty: the tier's
	backend     string           // whose exact profile it is; empty: a profile of several
	session     *session
	writeLimit  time.Duration   // for one event to be taken
	attach      *broker.Refusal // why the broker does not take the session, or nil
	msg         jsonrpc.Message
	era         *era
	client      broker.Client                // what it said of itself
	asker       *asker                       // in the stateless era
	participant string                       // its key on the board; empty: it takes no part
	binding     *actors.Binding              // the instance that the session brings; nil: none
	limit       catalog.Limit                // what may only be read
	frozen      bool                         // nothing is ever pushed to it
	partial     bool                         // its list lacks what is not known yet
	no          func(*broker.Refusal) []byte // how a call is refused; nil for what is none
	span        actors.Span                  // nil: not traced
	outcome     string                       // for the span
	callID      func() string                // names the request; nil: nothing does
}

// ServeHTTP answers one request. Nothing of it is looked at before the guard
// has let it through.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	caller, ok := s.opts.Guard.Admit(w, r)
	if !ok {
		return
	}
	if s.opts.RuntimeID != "" { // sessions outlive this life, so each answer names it
		w.Header().Set("Berth-Runtime-Id", s.opts.RuntimeID)
	}
	rpc := r.URL.Path == pathRPC
	profile, ok := route(r.URL.Path)
	if !ok && !rpc {
		deny(w, r, http.StatusNotFound, broker.CodeNotFound, "Nothing is served at this path; MCP is at /mcp and /mcp/{profile}.")
		return
	}
	switch r.Method {
	case http.MethodPost, http.MethodDelete, http.MethodGet:
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		deny(w, r, http.StatusMethodNotAllowed, broker.CodeMethodNotAllowed, "Use POST for messages, GET for a stream of notifications and DELETE to end a session.")
		return
	}
	rq := &request{w: w, r: r, control: http.NewResponseController(w), writeLimit: s.opts.Limits.WriteEvent,
		accept: parseAccept(r), caller: caller, principal: caller.Principal,
		participant: broker.Participant(r.Header[broker.ParticipantHeader])}
	rq.callID = func() string { return s.refusedID(rq) }
	if rpc { // for clients that know no streams
		profile, rq.accept = "", accepts{json: true}
	}
	named := profile != ""
	if rq.profile, ok = caller.Serving(profile); !ok {
		deny(w, r, http.StatusForbidden, broker.CodeProfileNotPermitted, "This credential does not accept this profile.")
		return
	}
	if refusal := s.readScope(rq); refusal != nil {
		status := http.StatusBadRequest
		if refusal.Code == broker.CodeInstanceForbidden {
			status = http.StatusForbidden
		}
		httpguard.Refuse(w, r, status, refusal)
		return
	}
	served, known := s.profile(rq)
	if !known && !named && rq.profile != "" {
		deny(w, r, http.StatusForbidden, broker.CodeProfileUnknown, "The first profile of this credential does not exist.")
		return
	}
	if !known {
		deny(w, r, http.StatusNotFound, broker.CodeProfileUnknown, "There is no profile or backend of this name.")
		return
	}
	if served.Exact() {
		rq.backend = served.Name()
		if served.Native() {
			rq.backend = catalog.NativeName
		}
	}
	rq.frozen = rpc || served.Name() == catalog.Armada
	if rq.frozen && r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		deny(w, r, http.StatusMethodNotAllowed, broker.CodeMethodNotAllowed, "Nothing is pushed here; use POST.")
		return
	}
	era, known := eraOf(r)
	switch {
	case !known || !era.sessionless:
		s.findSession(rq)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST")
		deny(w, r, http.StatusMethodNotAllowed, broker.CodeMethodNotAllowed, "This version of the protocol has neither sessions nor GET; use POST.")
		return
	}
	if rq.session != nil && s.listeners.hasEnded(rq.session.key) {
		deny(w, r, http.StatusNotFound, broker.CodeNotFound, "This session was ended; begin a new one with initialize.")
		return
	}
	switch r.Method {
	case http.MethodDelete:
		s.endSession(rq)
	case http.MethodGet:
		s.get(rq)
	default:
		s.post(rq)
	}
}

// deny answers what is no JSON-RPC request yet, in the form of the operator API.
func deny(w http.ResponseWriter, r *http.Request, status int, code broker.Code, message string) {
	httpguard.Refuse(w, r, status, broker.Refuse(code, message, nil))
}

// pathRPC is for older JSON-RPC clients: the verbs of /mcp, JSON answers only.
const pathRPC = "/rpc"

// route gives the profile of a path.
func route(path string) (profile string, ok bool) {
	if path == "/mcp" || path == "/mcp/" {
		return "", true
	}
	profile, ok = strings.CutPrefix(path, "/mcp/")
	return profile, ok && !strings.Contains(profile, "/")
}

// findSession reads the session id. One that is forged, or was given to
// another principal or for another profile, is as good as none.
func (s *Server) findSession(rq *request) {
	token := rq.r.Header.Get(headerSession)
	if token == "" {
		return
	}
	ses, ok := s.sessions.open(token, s.opts.SessionKey, rq.principal)
	if !ok || ses.profile != rq.profile {
		s.opts.Logger.Debug("a session id that is not ours to honour was passed over", slog.String("principal", rq.principal.Key()))
		return
	}
	rq.session = ses
}

func (s *Server) endSession(rq *request) {
	if rq.session != nil {
		s.opts.Broker.End(rq.session.key)
		s.listeners.end(rq.session.key)
	}
	if rq.binding != nil {
		s.opts.Bindings.EndBinding(rq.principal, rq.binding)
	}
	rq.empty(http.StatusNoContent)
}

func (s *Server) post(rq *request) {
	if !isJSON(rq.r) {
		deny(rq.w, rq.r, http.StatusUnsupportedMediaType, broker.CodeInvalidArguments, "Send one JSON-RPC message as application/json.")
		return
	}
	body, status, refusal := httpguard.ReadBody(rq.w, rq.r, 0)
	if refusal != nil {
		httpguard.WriteError(rq.w, status, "", refusal)
		return
	}
	msg, err := jsonrpc.Decode(body)
	if err != nil {
		var e *jsonrpc.Error
		errors.As(err, &e)
		rq.send(http.StatusBadRequest, jsonrpc.AppendError(nil, e.ID, e.Code, e.Message, nil))
		return
	}
	rq.msg = msg
	era, ok := eraOf(rq.r)
	if !ok {
		s.refuseVersion(rq)
		return
	}
	rq.era = era
	if rq.session != nil {
		rq.attach = s.opts.Broker.Attach(rq.session.info(rq.principal))
		rq.client = rq.session.asClient()
	}
	switch msg.Kind {
	case jsonrpc.Request:
		s.request(era, rq)
	case jsonrpc.Notification:
		if handle := era.notifications[msg.Method]; handle != nil {
			handle(s, rq)
		}
		rq.empty(http.StatusAccepted)
	default:
		if rq.session != nil {
			s.questions.answered(rq.session.key, msg)
		}
		rq.empty(http.StatusAccepted)
	}
}

func (s *Server) request(era *era, rq *request) {
	if era.admit != nil && !era.admit(s, rq) {
		return
	}
	if state, ok := rq.resumed(); ok {
		s.resume(rq, state)
		return
	}
	s.traced(rq)
	defer s.over(rq)
	handle := s.answerer(era, rq)
	if handle == nil || (rq.frozen && pushes[rq.msg.Method]) {
		rq.fail(jsonrpc.CodeMethodNotFound, "Method not found: "+clip(rq.msg.Method), nil)
		return
	}
	handle(s, rq)
}

// pushes are requests for what comes outside of an answer.
var pushes = map[string]bool{"subscriptions/listen": true, "resources/subscribe": true, "resources/unsubscribe": true, "logging/setLevel": true}

// answerer gives what answers a request in its era and profile, or nil.
func (s *Server) answerer(era *era, rq *request) func(*Server, *request) {
	if handle := era.requests[rq.msg.Method]; handle != nil {
		return handle
	}
	if rq.backend == "" {
		return mergedMethods[rq.msg.Method]
	}
	if era.other != nil && s.relays(rq) {
		return era.other
	}
	return nil
}

// callID names a call in this process.
func (s *Server) callID() string {
	return s.callPrefix + strconv.FormatUint(s.calls.Add(1), 10)
}
