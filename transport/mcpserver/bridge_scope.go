package mcpserver

import (
	"net/http"

	"berth/broker"
	"berth/broker/shape"
	"berth/transport/jsonrpc"
)

// scope says in the headers of a message what the session brings and how far it
// goes. The broker keeps neither, so every message says it.
func (r *bridge) scope(h http.Header) {
	if r.ReadOnly != "" {
		h.Set(headerReadOnly, r.ReadOnly)
	}
	if r.Participant != "" {
		h.Set(broker.ParticipantHeader, r.Participant)
	}
	if r.Instance != nil {
		h.Set(headerInstance, encodeInstance(r.Instance))
	}
}

// no is a refusal of the bridge's own: of a call as the profile's surface has
// it, of anything else an error.
func (r *bridge) no(msg jsonrpc.Message, refusal *broker.Refusal) []byte {
	if r.Surface == nil || msg.Method != "tools/call" {
		return refusalError(msg.ID, refusal)
	}
	if refusal.Code == broker.CodeBrokerNotRunning { // to a surface's caller the broker is not there to see
		refusal = broker.Refuse(broker.CodeBackendUnavailable, refusal.Message, refusal.Detail)
	}
	name, _ := textOf(msg.Params, "name")
	result := shape.ToolResult(r.Surface.Refuse(clip(name), refusal), true)
	if carriage(msg).header != nil { // what every result of that era says
		result = append(result[:len(result)-1:len(result)-1], `,"resultType":"complete"}`...)
	}
	return jsonrpc.AppendResult(nil, msg.ID, result)
}
