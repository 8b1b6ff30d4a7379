package mcpserver

import (
	"bytes"
	"encoding/json"

	"berth/broker/catalog"
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
// its own, tools that never change; in the merged one, besides, whatever one of
// the backends can. While something is not known yet, it may turn out to.
func (s *Server) ownCapabilities(exact bool) json.RawMessage {
	if exact {
		return json.RawMessage(`{"tools":{}}`)
	}
	snapshot := s.opts.Broker.Catalog()
	merged, ok := snapshot.Profile(catalog.Full)
	pending := ok && len(merged.Pending()) > 0
	out := []byte(`{"tools":{"listChanged":true}`)
	for _, c := range []struct {
		path []string
		says string
	}{
		{[]string{"prompts"}, `,"prompts":{"listChanged":true}`},
		{[]string{"resources", "subscribe"}, `,"resources":{"subscribe":true,"listChanged":true}`},
		{[]string{"resources"}, `,"resources":{"listChanged":true}`},
		{[]string{"completions"}, `,"completions":{}`},
		{[]string{"logging"}, `,"logging":{}`},
	} {
		if c.path[0] == "resources" && bytes.Contains(out, []byte(`"resources"`)) {
			continue
		}
		if pending || len(s.able(snapshot, c.path...)) > 0 {
			out = append(out, c.says...)
		}
	}
	return append(out, '}')
}

// unpushed are capabilities without what is told outside of an answer.
func unpushed(capabilities json.RawMessage) json.RawMessage {
	all, err := jsonrpc.ParseObject(capabilities)
	if err != nil {
		return json.RawMessage(`{"tools":{}}`)
	}
	for _, name := range []string{"tools", "prompts", "resources"} {
		if _, there := all.Get(name); there {
			all.Set(name, []byte("{}"))
		}
	}
	all.Delete("logging")
	return all.Bytes()
}

// able lists the backends, in byte order, that declare a capability.
func (s *Server) able(snapshot *catalog.Snapshot, path ...string) []string {
	var names []string
	for _, name := range snapshot.Profiles() {
		p, ok := snapshot.Profile(name)
		if !ok || p.Native() {
			continue
		}
		if server, known := p.Server(); known && declares(server.Capabilities, path...) {
			names = append(names, name)
		}
	}
	return names
}
