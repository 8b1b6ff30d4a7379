package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"berth/broker"
	"berth/transport/jsonrpc"
)

// era is one generation of the protocol: what a client may ask and tell. A
// method reads the request and answers it.
type era struct {
	requests      map[string]func(*Server, *request)
	notifications map[string]func(*Server, *request)
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
	other: (*Server).relayExact,
	ask:   (*Server).askOnStream,
}

// eraOf tells a request's era by its version header; a request without one is
// of the handshake era. The stateless era (2026-07-28) will be told here.
func eraOf(r *http.Request) (*era, bool) {
	version := r.Header.Get(headerVersion)
	if version == "" || slices.Contains(versions, version) {
		return &handshake, true
	}
	return nil, false
}

// refuseVersion answers a version that is not spoken the way that lets a
// client of a newer era choose another.
func (s *Server) refuseVersion(rq *request) {
	data := fmt.Appendf(nil, `{"supported":%s,"requested":%s}`, supported(), jsonrpc.Quote(clip(rq.r.Header.Get(headerVersion))))
	rq.send(http.StatusBadRequest, jsonrpc.AppendError(nil, nil, mcp.UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data))
}

func supported() []byte {
	out := []byte{'['}
	for i, v := range versions {
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
