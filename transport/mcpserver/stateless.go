package mcpserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"berth/actors"
	"berth/broker"
	"berth/transport/jsonrpc"
)

// This file is the era without sessions (2026-07-28): who asks, and in which
// version, stands in the `_meta` of every request, and a request is a scope of
// ids of its own. Closing its stream is the only cancel.

// statelessVersions are the versions of this era, newest first.
var statelessVersions = []string{mcp.ProtocolVersion20260728}

// The keys of `_meta` with which client and server say who they are.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// The codes of this era.
const (
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = mcp.UNSUPPORTED_PROTOCOL_VERSION // -32022
)

// statelessQuick is how long an answer of this era may take and still be sent
// without a stream. It is longer than in the other era because the status of
// an error means something here, and a stream has none.
const statelessQuick = time.Second

var stateless = era{
	requests: map[string]func(*Server, *request){
		"server/discover":      (*Server).discover,
		"tools/list":           (*Server).listTools,
		"tools/call":           (*Server).callTool,
		"subscriptions/listen": (*Server).subscribe,

		"tasks/get":    ofTasksExtension((*Server).getTask),
		"tasks/update": ofTasksExtension((*Server).updateTask),
		"tasks/cancel": ofTasksExtension((*Server).cancelTaskExtension),
	},
	other:       (*Server).relayExact,
	admit:       (*Server).admitStateless,
	sessionless: true,
	result:      completed,
}

// gone are methods of older versions that this one has not. Their work is done
// by `_meta`, by subscriptions/listen and by closing a stream.
var gone = map[string]bool{
	"initialize": true, "ping": true, "logging/setLevel": true,
	"resources/subscribe": true, "resources/unsubscribe": true,
}

// asker is what a request says of its client.
type asker struct {
	params   *jsonrpc.Object
	logLevel string // least severe level of log messages it wants; empty: none
}

// admitStateless checks what every request of this era must carry, in the
// order: known method, who asks, version, headers. It has answered when it
// gives false.
func (s *Server) admitStateless(rq *request) bool {
	if gone[rq.msg.Method] || s.answerer(rq.era, rq) == nil {
		rq.failWith(http.StatusNotFound, jsonrpc.CodeMethodNotFound, "Method not found: "+clip(rq.msg.Method), nil)
		return false
	}
	problem := rq.readAsker()
	if problem != "" {
		rq.failWith(http.StatusBadRequest, jsonrpc.CodeInvalidParams, problem, nil)
		return false
	}
	header := rq.r.Header.Get(headerVersion)
	if rq.client.Version != header {
		rq.failWith(http.StatusBadRequest, codeHeaderMismatch,
			headerVersion+" is "+clip(header)+", but the request's "+metaVersion+" is "+clip(rq.client.Version), nil)
		return false
	}
	problem = checkHeaders(rq.r.Header, rq.msg.Method, rq.asker.params)
	if problem == "" && rq.msg.Method == "tools/call" {
		problem = s.checkParamHeaders(rq)
	}
	if problem != "" {
		rq.failWith(http.StatusBadRequest, codeHeaderMismatch, "Header mismatch: "+problem, nil)
		return false
	}
	return true
}

// readAsker reads `_meta`, which must say the version and the capabilities.
func (rq *request) readAsker() (problem string) {
	const missing = "_meta must have "
	params, err := jsonrpc.ParseObject(rq.msg.Params)
	if err != nil {
		return missing + metaVersion + " and " + metaCapabilities
	}
	if name, again := params.Repeated(); again {
		return "params repeat the member " + clip(name)
	}
	raw, ok := params.Get("_meta")
	if !ok {
		return missing + metaVersion + " and " + metaCapabilities
	}
	meta, err := jsonrpc.ParseObject(raw)
	if err != nil {
		return `"_meta" must be an object`
	}
	if name, again := meta.Repeated(); again {
		return "_meta repeats the member " + clip(name)
	}
	version, ok := meta.Text(metaVersion)
	if !ok {
		return missing + metaVersion + ", a string"
	}
	capabilities, ok := meta.Get(metaCapabilities)
	if !ok || capabilities[0] != '{' {
		return missing + metaCapabilities + ", an object"
	}
	info, ok := meta.Get(metaClientInfo)
	if ok && info[0] != '{' {
		return metaClientInfo + " must be an object"
	}
	rq.client = broker.Client{Version: version, Stateless: true, Info: info, Capabilities: capabilities}
	rq.asker = &asker{params: params}
	rq.asker.logLevel, _ = meta.Text(metaLogLevel)
	return ""
}

// clientName is what the client of a stateless request calls itself.
func (rq *request) clientName() string {
	info, err := jsonrpc.ParseObject(rq.client.Info)
	if err != nil {
		return ""
	}
	name, _ := info.Text("name")
	return name
}

// strayVersion tells a request that says a version in `_meta` which its header
// does not: such a client is of the stateless era, and without the header
// nobody between us and it could have known.
func strayVersion(rq *request) bool {
	if !bytes.Contains(rq.msg.Params, []byte(metaVersion)) {
		return false
	}
	params, err := jsonrpc.ParseObject(rq.msg.Params)
	if err != nil {
		return false
	}
	raw, _ := params.Get("_meta")
	meta, err := jsonrpc.ParseObject(raw)
	if err != nil {
		return false
	}
	version, ok := meta.Text(metaVersion)
	return ok && version != rq.r.Header.Get(headerVersion)
}

// failWith answers with an error and a status, always as plain JSON.
func (rq *request) failWith(status, code int, message string, data []byte) {
	rq.send(status, jsonrpc.AppendError(nil, rq.msg.ID, code, message, rq.named(data)))
}

// status is the one that a response is sent with when no stream was opened. In
// the stateless era it follows from the code of an error.
func (rq *request) status(message []byte) int {
	if rq.asker == nil {
		return http.StatusOK
	}
	// Every response is made by package jsonrpc, which puts the id first.
	head := `{"jsonrpc":"2.0","id":` + string(rq.msg.ID) + `,"error":`
	if len(message) < len(head) || string(message[:len(head)]) != head {
		return http.StatusOK
	}
	var e struct {
		Code int `json:"code"`
	}
	if json.Unmarshal(message[len(head):len(message)-1], &e) != nil {
		return http.StatusOK
	}
	switch e.Code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case jsonrpc.CodeInvalidRequest, jsonrpc.CodeInvalidParams, codeHeaderMismatch, codeMissingCapability, codeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// hears reports whether the client of a request wants a notification of its
// backend. In the stateless era it says with the request which log messages it
// wants, and none is its default; one without a level that we know is passed on
// to who asked for any.
func (rq *request) hears(method string, params json.RawMessage) bool {
	if rq.asker == nil || method != logMessage {
		return true
	}
	least := slices.Index(actors.LogLevels, rq.asker.logLevel)
	at := slices.Index(actors.LogLevels, levelOf(params))
	return least >= 0 && (at < 0 || at >= least)
}
