package mcpserver

import (
	"bytes"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"berth/broker"
	"berth/transport/jsonrpc"
)

// codeRefused is the JSON-RPC code of a refusal that is about the request
// rather than about a call. It stands in the range that implementations are
// free to use; data.code says what it is.
const codeRefused = -32010

// result answers a request at once.
func (rq *request) result(result []byte) {
	rq.answer(jsonrpc.AppendResult(nil, rq.msg.ID, result))
}

// fail answers a request at once with an error.
func (rq *request) fail(code int, message string, data []byte) {
	rq.answer(jsonrpc.AppendError(nil, rq.msg.ID, code, message, rq.named(data)))
}

// named is the data of an error with the id by which the request can be named
// (contracts/catalog.md section 9); data is an object, or nil.
func (rq *request) named(data []byte) []byte {
	if rq.callID == nil {
		return data
	}
	id := `"call_id":"` + rq.callID() + `"}`
	if len(data) <= len("{}") {
		return []byte("{" + id)
	}
	return append(append(bytes.Clone(data[:len(data)-1]), ','), id...)
}

// refuse answers a request at once with a refusal as an error.
func (rq *request) refuse(r *broker.Refusal) {
	rq.came(string(r.Code))
	rq.answer(errorOf(rq.msg.ID, r, rq.named(r.JSON())))
}

// refusalError is a refusal as a JSON-RPC error: for requests that are no
// call, and for what the protocol calls an error of the request.
func refusalError(id []byte, r *broker.Refusal) []byte { return errorOf(id, r, r.JSON()) }

// callError is refusalError with the id by which the log names the request
// (contracts/catalog.md section 9).
func callError(id []byte, callID string, r *broker.Refusal) []byte {
	return errorOf(id, r, append([]byte(`{"call_id":"`+callID+`",`), r.JSON()[1:]...))
}

// misfit answers a request whose params do not fit.
func (s *Server) misfit(rq *request, message string) {
	rq.answer(s.misfitError(rq, broker.Refuse(broker.CodeInvalidArguments, message, nil)))
}

func (s *Server) misfitError(rq *request, r *broker.Refusal) []byte {
	return callError(rq.msg.ID, s.refusedID(rq), r)
}

// refusedID names a request that is answered with an error, in the log too.
func (s *Server) refusedID(rq *request) string {
	id := s.callID()
	s.opts.Logger.Debug("a request is refused", slog.String("call", id), slog.String("method", clip(rq.msg.Method)))
	return id
}

func errorOf(id []byte, r *broker.Refusal, data []byte) []byte {
	code := codeRefused
	switch r.Code {
	case broker.CodeVerbUnknown, broker.CodeInvalidArguments:
		code = jsonrpc.CodeInvalidParams
	case broker.CodeDuplicateRequestID:
		code = jsonrpc.CodeInvalidRequest
	case broker.CodeInternal:
		code = jsonrpc.CodeInternal
	}
	return jsonrpc.AppendError(nil, id, code, r.Message, data)
}

// refusal is a refusal as the response to a request: to a call in the form that
// calls have here, to anything else as an error.
func (rq *request) refusal(r *broker.Refusal) []byte {
	if rq.no != nil {
		return rq.no(r)
	}
	return refusalError(rq.msg.ID, r)
}

// answer sends a message that is ready, in a form that the client takes.
func (rq *request) answer(message []byte) {
	if status := rq.status(message); rq.accept.json || status != http.StatusOK {
		rq.send(status, message)
		return
	}
	x := exchange{rq: rq}
	x.finish(message)
}

// jsonType is shared by all answers: it is replaced in a header, never changed.
var jsonType = []string{"application/json"}

// send writes one JSON body.
func (rq *request) send(status int, message []byte) {
	h := rq.w.Header()
	h["Content-Type"] = jsonType
	h.Set("Content-Length", strconv.Itoa(len(message)))
	rq.writeDeadline()
	rq.w.WriteHeader(status)
	err := rq.write(message)
	if err == nil {
		err = rq.control.Flush()
	}
	if err == nil {
		rq.endDeadline()
	}
}

// empty answers without a body, which net/http writes when the handler ends.
func (rq *request) empty(status int) {
	rq.writeDeadline()
	rq.w.WriteHeader(status)
}

// piece is how much a client has to take within the limit, in bytes: an answer
// may be large and its reader slow.
const piece = 256 << 10

// write writes p under a deadline that was set, and sets another for each
// further piece.
func (rq *request) write(p []byte) error {
	for {
		n := min(len(p), piece)
		if _, err := rq.w.Write(p[:n]); err != nil {
			return err
		}
		if p = p[n:]; len(p) == 0 {
			return nil
		}
		rq.writeDeadline()
	}
}

// Deadlines are best effort: a ResponseWriter of a test or of another server
// may have none, and the connection is then bounded by whoever gave it.

func (rq *request) writeDeadline() {
	_ = rq.control.SetWriteDeadline(time.Now().Add(rq.writeLimit))
}

// endDeadline takes our deadline off a connection that other handlers may
// answer on, unless its server sets one for each request anyway.
func (rq *request) endDeadline() {
	if srv, ok := rq.r.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.WriteTimeout > 0 {
		return
	}
	_ = rq.control.SetWriteDeadline(time.Time{})
}

// clip shortens text of a client before it is repeated to it.
func clip(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}
