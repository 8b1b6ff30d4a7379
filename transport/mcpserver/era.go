package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"berth/broker"
	"berth/transport/jsonrpc"
)

// era is one generation of the protocol: what a client may ask and tell. A
// method reads the request and answers it.
type era struct {
	requests      map[string]func(*Server, *request)
	notifications map[string]func(*Server, *request)
	// admit checks what every request must carry; it has answered when it gives
	// false. Nil: there is nothing to check.
	admit func(*Server, *request) bool
	// sessionless: no request belongs to a session.
	sessionless bool
	// notices answers GET; nil: none is served.
	notices func(*Server, *request)
	// other answers the requests of an exact profile that are not in the table;
	// nil: there are none.
	other func(*Server, *request)
	// ask makes what a backend asks the client by, in the course of an
	// exchange; nil: the client cannot be asked.
	ask func(*Server, *exchange) func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *broker.RPCError)
	// result gives a backend's or the front's result the form of the era; nil:
	// as it is.
	result func(*request, json.RawMessage) json.RawMessage
}

// versions are those that the handshake can agree on, newest first.
var versions = []string{
	mcp.ProtocolVersion20251125,
	mcp.ProtocolVersion20250618,
	mcp.ProtocolVersion20250326,
	mcp.ProtocolVersion20241105,
}

// handshake is the era of initialize and of sessions, 2024-11-05 to 2025-11-25.
var handshake = era{
	requests: map[string]func(*Server, *request){
		"initialize": (*Server).initialize,
		"ping":       (*Server).ping,
		"tools/list": (*Server).listTools,
		"tools/call": (*Server).callTool,

		"tasks/get":    ofLegacyTasks((*Server).legacyGetTask),
		"tasks/result": ofLegacyTasks((*Server).legacyTaskResult),
		"tasks/list":   ofLegacyTasks((*Server).legacyListTasks),
		"tasks/cancel": ofLegacyTasks((*Server).legacyCancelTask),
	},
	notifications: map[string]func(*Server, *request){
		"notifications/cancelled": (*Server).cancelled,
	},
	admit:   (*Server).admitHandshake,
	notices: (*Server).notices,
	other:   (*Server).relayExact,
	ask:     (*Server).askOnStream,
}

// saidVersion is what a request's version header says. One that comes twice is
// a list, which is no version: each reader would take another.
func saidVersion(r *http.Request) string {
	values := r.Header[headerVersion]
	if len(values) == 1 {
		return values[0]
	}
	return strings.Join(values, ", ")
}

// eraOf tells a request's era by its version header; a request without one is
// of the handshake era.
func eraOf(r *http.Request) (*era, bool) {
	version := saidVersion(r)
	switch {
	case version == "" || slices.Contains(versions, version):
		return &handshake, true
	case slices.Contains(statelessVersions, version):
		return &stateless, true
	}
	return nil, false
}

// admitHandshake turns away who belongs to the other era and says so only in
// the body.
func (s *Server) admitHandshake(rq *request) bool {
	if strayVersion(rq) {
		rq.failWith(http.StatusBadRequest, codeHeaderMismatch, headerVersion+" does not say the version that the request's "+metaVersion+" says", nil)
		return false
	}
	return true
}

// refuseVersion answers a version that is not spoken the way that lets a
// client of a newer era choose another.
func (s *Server) refuseVersion(rq *request) {
	data := fmt.Appendf(nil, `{"supported":%s,"requested":%s}`, supported(), jsonrpc.Quote(clip(saidVersion(rq.r))))
	id := rq.msg.ID
	if rq.msg.Kind != jsonrpc.Request {
		id = nil
	}
	rq.send(http.StatusBadRequest, jsonrpc.AppendError(nil, id, codeUnsupportedVersion, "Unsupported protocol version", data))
}

// supported are the versions of both eras, newest first.
func supported() []byte {
	out := []byte{'['}
	for i, v := range slices.Concat(statelessVersions, versions) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, jsonrpc.Quote(v)...)
	}
	return append(out, ']')
}

// negotiate gives the client's version if it is spoken, else the newest.
func negotiate(asked string) string {
	if slices.Contains(versions, asked) {
		return asked
	}
	return versions[0]
}
