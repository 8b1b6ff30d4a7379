package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"

	"berth/broker"
	"berth/broker/catalog"
	"berth/transport/jsonrpc"
)

// initializeResult has the members of the protocol in its order.
type initializeResult struct {
	ProtocolVersion string          `json:"protocolVersion"`
	Capabilities    json.RawMessage `json:"capabilities"`
	ServerInfo      json.RawMessage `json:"serverInfo"`
	Instructions    string          `json:"instructions,omitempty"`
	Meta            map[string]any  `json:"_meta,omitempty"`
}

func (s *Server) ping(rq *request) { rq.result([]byte("{}")) }

// initialize answers the handshake. The merged profile is Berth itself and
// answers at once; an exact profile is its backend, so it waits until that was
// seen, and says so rather than showing another server.
func (s *Server) initialize(rq *request) {
	if refusal := s.streams.enter(); refusal != nil {
		rq.refuse(refusal)
		return
	}
	defer s.streams.leave()
	ses, problem, err := s.handshake(rq)
	if err != nil {
		s.opts.Logger.Error("no session id could be made", slog.Any("error", err))
		rq.refuse(broker.AsRefusal(err))
		return
	}
	if problem != "" {
		rq.fail(jsonrpc.CodeInvalidParams, problem, nil)
		return
	}
	// The id is set before the answer is known, because on a stream the
	// headers may have to leave first. After an error a client has no use for it.
	rq.w.Header().Set(headerSession, ses.token(s.opts.SessionKey))
	id := rq.msg.ID
	if rq.backend == "" {
		rq.answer(s.welcome(id, rq.principal, ses, s.ownServer(rq, ses)))
		return
	}
	s.run(&exchange{rq: rq}, func(ctx context.Context) []byte {
		result, refusal := s.exactServer(ctx, rq, ses)
		if refusal != nil {
			return refusalError(id, refusal)
		}
		return s.welcome(id, rq.principal, ses, result)
	})
}

// handshake reads what the client says of itself into a new session.
func (s *Server) handshake(rq *request) (ses *session, problem string, err error) {
	params, perr := jsonrpc.ParseObject(rq.msg.Params)
	if perr != nil {
		return nil, "initialize needs params with protocolVersion, capabilities and clientInfo", nil
	}
	version, ok := params.Text("protocolVersion")
	if !ok {
		return nil, `"protocolVersion" must be a string`, nil
	}
	if ses, err = newSession(s.opts.Random); err != nil {
		return nil, "", err
	}
	ses.principal, ses.profile, ses.version, ses.started = rq.principal.Digest(), rq.profile, negotiate(version), s.opts.Now()
	if caps, ok := params.Get("capabilities"); ok && caps[0] == '{' {
		ses.caps = bytes.Clone(kept(caps)) // the session outlives the request's body
	}
	if raw, ok := params.Get("clientInfo"); ok {
		if client, err := jsonrpc.ParseObject(raw); err == nil {
			ses.client, _ = client.Text("name")
			ses.clientVer, _ = client.Text("version")
		}
	}
	return ses, "", nil
}

// welcome makes the session known and gives the response.
func (s *Server) welcome(id []byte, p broker.Principal, ses *session, result initializeResult) []byte {
	if refusal := s.opts.Broker.Attach(ses.info(p)); refusal != nil {
		return refusalError(id, refusal)
	}
	result.Capabilities = s.sessionTasks(ses, result.Capabilities)
	raw, err := json.Marshal(result)
	if err != nil { // only a backend's own serverInfo can be at fault
		s.opts.Logger.Error("the answer to initialize could not be encoded", slog.String("profile", ses.profile), slog.Any("error", err))
		return refusalError(id, broker.AsRefusal(err))
	}
	return jsonrpc.AppendResult(nil, id, raw)
}

func (s *Server) ownServer(rq *request, ses *session) initializeResult {
	instructions := ""
	if profile, ok := s.profile(rq); ok {
		instructions = profile.Instructions()
	}
	info, _ := json.Marshal(struct { // two strings cannot fail to encode
		Name    string `json:"name"`
		Version string `json:"version"`
	}{"berth", s.opts.Version})
	capabilities := s.ownCapabilities(rq.backend != "")
	if rq.frozen {
		capabilities = unpushed(capabilities)
	}
	return initializeResult{ProtocolVersion: ses.version, Capabilities: capabilities, ServerInfo: info,
		Instructions: instructions, Meta: map[string]any{"berth/runtimeId": s.opts.RuntimeID}}
}

// exactServer is the backend's own introduction, with nothing added.
func (s *Server) exactServer(ctx context.Context, rq *request, ses *session) (initializeResult, *broker.Refusal) {
	profile, refusal := s.await(ctx, rq)
	if refusal != nil {
		return initializeResult{}, refusal
	}
	server, known := profile.Server()
	if pending := profile.Pending(); len(pending) > 0 {
		return initializeResult{}, s.opts.Broker.WhyPending(pending)
	}
	if !known || rq.frozen { // nothing is pending, so this is the broker's own family
		return s.ownServer(rq, ses), nil
	}
	if len(server.Info) == 0 { // it gave no name; ours for it is all there is
		server.Info = slices.Concat([]byte(`{"name":`), jsonrpc.Quote(ses.profile), []byte(`,"version":""}`))
	}
	capabilities := exactCapabilities(server.Capabilities)
	if profile.Surface() != nil {
		capabilities = server.Capabilities // nothing is added to a surface
	}
	return initializeResult{ProtocolVersion: ses.version, Capabilities: capabilities, ServerInfo: server.Info, Instructions: server.Instructions}, nil
}

// await gives a profile once everything in it is known, or as it is when the
// limit has passed.
func (s *Server) await(ctx context.Context, rq *request) (*catalog.Profile, *broker.Refusal) {
	profile, ok := s.profile(rq)
	if ok && len(profile.Pending()) > 0 {
		ctx, cancel := context.WithTimeout(ctx, s.opts.Limits.ListWait)
		defer cancel()
		s.opts.Broker.AwaitCatalog(ctx, s.named(rq.profile))
		profile, ok = s.profile(rq)
	}
	if !ok {
		return nil, profileUnknown()
	}
	return profile, nil
}

func profileUnknown() *broker.Refusal {
	return broker.Refuse(broker.CodeProfileUnknown, "There is no profile or backend of this name.", nil)
}
