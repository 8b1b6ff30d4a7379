package mcpserver

import (
	"encoding/json"
	"strings"

	"berth/broker"
	"berth/broker/shape"
	"berth/transport/jsonrpc"
)

// maxErrorMessage is the longest message of an error that a result is made, in
// bytes; its data has all of it.
const maxErrorMessage = 1024

// errorOf is the answer to a call as its client is to have it: with
// [Bridge.ErrorsAsRPC] an error result is a JSON-RPC error with the result's own
// sentence, and what it says in data (contracts/native.md section 1.8).
func (r *bridge) errorOf(msg, got jsonrpc.Message, data []byte) []byte {
	if !r.ErrorsAsRPC || msg.Method != "tools/call" || got.Result == nil {
		return data
	}
	payload, isError := broker.ToolText(got.Result)
	if !isError {
		return data
	}
	if payload == nil {
		payload = got.Result
	}
	return jsonrpc.AppendError(nil, msg.ID, jsonrpc.CodeInternal, sentenceOf(payload), payload)
}

// sentenceOf is what an error says of itself.
func sentenceOf(payload json.RawMessage) string {
	members, _ := shape.Members(payload) // a payload of another form has none
	for _, m := range members {
		if text, ok := shape.Text(m.Value); ok && strings.EqualFold(m.Name, "error") && strings.TrimSpace(text) != "" {
			return strings.ToValidUTF8(text[:min(len(text), maxErrorMessage)], "")
		}
	}
	return "The call failed; data says why."
}
