package mcpserver

import (
	"encoding/json"

	"berth/transport/jsonrpc"
)

// exactCapabilities is what a backend said that it can do, as its profile says
// it. Berth tells when the tools have changed whether the backend would or not:
// it lists them again for every incarnation. Tasks are taken out here: those of
// a backend that many share are not each client's to see.
func exactCapabilities(backend json.RawMessage) json.RawMessage {
	all, err := jsonrpc.ParseObject(backend)
	if err != nil {
		return json.RawMessage(`{"tools":{"listChanged":true}}`)
	}
	all.Delete("tasks")
	if raw, ok := all.Get("tools"); ok {
		if tools, err := jsonrpc.ParseObject(raw); err == nil {
			if told, ok := tools.Get("listChanged"); !ok || string(told) != "true" {
				tools.Set("listChanged", []byte("true"))
				all.Set("tools", tools.Bytes())
			}
		}
	}
	return all.Bytes()
}

// ownCapabilities is what Berth itself serves: in the profile of a family of
// its own, tools that never change.
func (s *Server) ownCapabilities(profile string) json.RawMessage {
	if profile != "" {
		return json.RawMessage(`{"tools":{}}`)
	}
	return json.RawMessage(`{"tools":{"listChanged":true}}`)
}
