package mcpserver

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"berth/broker"
	"berth/transport/jsonrpc"
)

// Server is the HTTP front for MCP clients. It serves /mcp and /mcp/{profile}.
//
// An http.Server around it should set ReadHeaderTimeout and IdleTimeout.
// ReadTimeout and WriteTimeout may be set: the front moves both deadlines of
// the connection for its own requests.
type Server struct {
	opts Options // as validated; not changed after New

	callPrefix string // unique to this process
	calls      atomic.Uint64

	streams streams
}

// New builds the front.
func New(opts Options) (*Server, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	prefix := make([]byte, 4)
	if _, err := io.ReadFull(opts.Random, prefix); err != nil {
		return nil, fmt.Errorf("random bytes for call ids: %w", err)
	}
	s := &Server{opts: opts, callPrefix: "call_" + hex.EncodeToString(prefix) + "_"}
	s.streams.init(opts.Limits.MaxStreams)
	return s, nil
}

// Drain refuses new work with `shutting_down` and waits until every open
// request was answered or ctx ends; the rest is then up to what Broker.Do
// answers. It gives the number of requests that were still open.
func (s *Server) Drain(ctx context.Context) int { return s.streams.drain(ctx) }

// request is one HTTP request on its way through the front.
type request struct {
	w          http.ResponseWriter
	r          *http.Request
	control    *http.ResponseController
	accept     accepts
	principal  broker.Principal
	profile    string // empty: the merged one
	session    *session
	writeLimit time.Duration   // for one event to be taken
	attach     *broker.Refusal // why the broker does not take the session, or nil
	msg        jsonrpc.Message
}

// ServeHTTP answers one request. Nothing of it is looked at before it was
// authenticated.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rq := &request{w: w, r: r, control: http.NewResponseController(w), writeLimit: s.opts.Limits.WriteEvent}
	if r.ContentLength != 0 {
		// Also for requests that are refused unread: net/http reads what is left
		// of a body before it lets go of the connection.
		rq.readDeadline(time.Now().Add(s.opts.Limits.ReadBody))
	}
	principal, ok := s.opts.Authenticate(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeProblem(w, http.StatusUnauthorized, "Unauthorized", broker.CodeUnauthorized, "A valid bearer token is needed.")
		return
	}
	if !s.checkHost(r) || !s.checkOrigin(r) {
		writeProblem(w, http.StatusForbidden, "Forbidden", broker.CodeOriginForbidden, "This host or origin may not use the broker.")
		return
	}
	profile, ok := route(r.URL.Path)
	if !ok {
		writeProblem(w, http.StatusNotFound, "NotFound", "", "Nothing is served at this path; MCP is at /mcp and /mcp/{profile}.")
		return
	}
	if r.Method != http.MethodPost && r.Method != http.MethodDelete {
		w.Header().Set("Allow", "POST, DELETE")
		writeProblem(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "", "Use POST for messages and DELETE to end a session.")
		return
	}
	if _, known := s.opts.Broker.Catalog().Profile(profile); !known {
		writeProblem(w, http.StatusNotFound, "NotFound", broker.CodeProfileUnknown, "There is no profile or backend of this name.")
		return
	}
	rq.accept, rq.principal, rq.profile = parseAccept(r), principal, profile
	s.findSession(rq)
	if r.Method == http.MethodDelete {
		s.endSession(rq)
		return
	}
	s.post(rq)
}

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
	ses, ok := openSession(token, s.opts.SessionKey)
	if !ok || ses.principal != rq.principal.Digest() || ses.profile != rq.profile {
		s.opts.Logger.Debug("a session id that is not ours to honour was passed over", slog.String("principal", rq.principal.Key()))
		return
	}
	rq.session = ses
}

func (s *Server) endSession(rq *request) {
	if rq.session != nil {
		s.opts.Broker.End(rq.session.key)
	}
	rq.w.WriteHeader(http.StatusNoContent)
}

func (s *Server) post(rq *request) {
	if !isJSON(rq.r) {
		writeProblem(rq.w, http.StatusUnsupportedMediaType, "UnsupportedMediaType", "", "Send one JSON-RPC message as application/json.")
		return
	}
	era, ok := eraOf(rq.r)
	if !ok {
		s.refuseVersion(rq)
		return
	}
	body, ok := s.readBody(rq)
	if !ok {
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
	if rq.session != nil {
		rq.attach = s.opts.Broker.Attach(rq.session.info(rq.principal))
	}
	switch msg.Kind {
	case jsonrpc.Request:
		s.request(era, rq)
	case jsonrpc.Notification:
		if handle := era.notifications[msg.Method]; handle != nil {
			handle(s, rq)
		}
		rq.w.WriteHeader(http.StatusAccepted)
	default:
		// Nothing is asked of clients yet, so no response is waited for.
		rq.w.WriteHeader(http.StatusAccepted)
	}
}

func (s *Server) request(era *era, rq *request) {
	handle := era.requests[rq.msg.Method]
	if handle == nil {
		rq.fail(jsonrpc.CodeMethodNotFound, "Method not found: "+clip(rq.msg.Method), nil)
		return
	}
	handle(s, rq)
}

// readBody reads the whole body within the limits of size and time, or
// answers why not.
func (s *Server) readBody(rq *request) ([]byte, bool) {
	limit := s.opts.Limits.MaxBody
	if rq.r.ContentLength > limit {
		s.tooLarge(rq)
		return nil, false
	}
	body, err := readAll(http.MaxBytesReader(rq.w, rq.r.Body, limit), rq.r.ContentLength)
	var large *http.MaxBytesError
	switch {
	case err == nil:
		// Left standing, the deadline would end the connection under a long call.
		// net/http takes it off when it begins to watch for a disconnect, but
		// does not promise to.
		rq.readDeadline(time.Time{})
		return body, true
	case errors.As(err, &large):
		s.tooLarge(rq)
	case errors.Is(err, os.ErrDeadlineExceeded):
		rq.w.Header().Set("Connection", "close")
		writeProblem(rq.w, http.StatusRequestTimeout, "RequestTimeout", "", "The body did not arrive in time.")
	default:
		// The client is gone, or its framing is broken; this line reaches it only then.
		rq.w.Header().Set("Connection", "close")
		writeProblem(rq.w, http.StatusBadRequest, "BadRequest", "", "The body could not be read.")
	}
	return nil, false
}

// maxClaim is how much of a body is set aside because of its length alone,
// which is a claim until the bytes come.
const maxClaim = 1 << 20

// readAll reads a body whose length is said to be length; -1: it is not said.
func readAll(r io.Reader, length int64) ([]byte, error) {
	if length >= 0 && length <= maxClaim {
		body := make([]byte, length)
		_, err := io.ReadFull(r, body)
		return body, err
	}
	var buf bytes.Buffer
	if length > 0 {
		buf.Grow(maxClaim)
	}
	_, err := buf.ReadFrom(r)
	return buf.Bytes(), err
}

func (s *Server) tooLarge(rq *request) {
	refusal := broker.Refuse(broker.CodeRequestTooLarge, "The message is larger than the broker takes.", map[string]any{"limit_bytes": s.opts.Limits.MaxBody})
	rq.w.Header().Set("Connection", "close")
	rq.send(http.StatusRequestEntityTooLarge, jsonrpc.AppendError(nil, nil, jsonrpc.CodeInvalidRequest, refusal.Message, refusal.JSON()))
}

// callID names a call in this process.
func (s *Server) callID() string {
	return s.callPrefix + strconv.FormatUint(s.calls.Add(1), 10)
}
