package mcpserver

import (
	"context"
	"encoding/json"
	"log/slog"

	"berth/broker"
	"berth/transport/jsonrpc"
)

// discoverResult has the members of the protocol in its order.
type discoverResult struct {
	SupportedVersions json.RawMessage `json:"supportedVersions"`
	Capabilities      json.RawMessage `json:"capabilities"`
	Instructions      string          `json:"instructions,omitempty"`
	TTL               json.RawMessage `json:"ttlMs"`
	Scope             json.RawMessage `json:"cacheScope"`
	ResultType        string          `json:"resultType"`
	Meta              map[string]any  `json:"_meta"`
}

// discover answers what a profile is. As with initialize, an exact profile is
// its backend, so it waits until that was seen.
func (s *Server) discover(rq *request) {
	if refusal := s.streams.enter(); refusal != nil {
		rq.refuse(refusal)
		return
	}
	defer s.streams.leave()
	id, ses := rq.msg.ID, &session{profile: rq.profile, version: rq.client.Version}
	if rq.backend == "" {
		rq.answer(s.discovered(rq, s.ownServer(rq, ses)))
		return
	}
	s.run(&exchange{rq: rq}, func(ctx context.Context) []byte {
		result, refusal := s.exactServer(ctx, rq, ses)
		if refusal != nil {
			return refusalError(id, refusal)
		}
		return s.discovered(rq, result)
	})
}

func (s *Server) discovered(rq *request, server initializeResult) []byte {
	id := rq.msg.ID
	if profile, ok := s.profile(rq); !ok || profile.Surface() == nil {
		server.Capabilities = withTaskCapability(server.Capabilities, extensionTasks, nil)
	}
	meta := map[string]any{metaServerInfo: server.ServerInfo}
	for name, value := range server.Meta {
		meta[name] = value
	}
	raw, err := json.Marshal(discoverResult{
		SupportedVersions: supported(), Capabilities: server.Capabilities, Instructions: server.Instructions,
		TTL: json.RawMessage(ownTTL), Scope: json.RawMessage(ownScope), ResultType: "complete", Meta: meta,
	})
	if err != nil { // only a backend's own serverInfo can be at fault
		s.opts.Logger.Error("the answer to server/discover could not be encoded", slog.Any("error", err))
		return refusalError(id, broker.AsRefusal(err))
	}
	return jsonrpc.AppendResult(nil, id, raw)
}
