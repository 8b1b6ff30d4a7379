package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"

	"berth/actors"
	"berth/broker"
	"berth/transport/jsonrpc"
)

// This file answers in the merged profile what is no tool: a prompt is
// backend__name, a resource keeps its URI and goes to the backend that listed
// it (see directory).

// mergedMethods are the requests of the merged profile that are not in an era's
// table.
var mergedMethods = map[string]func(*Server, *request){
	"prompts/list":             (*Server).listPrompts,
	"prompts/get":              (*Server).getPrompt,
	"resources/list":           (*Server).listResources,
	"resources/templates/list": (*Server).listTemplates,
	"resources/read":           (*Server).reachResource,
	"resources/subscribe":      (*Server).reachResource,
	"resources/unsubscribe":    (*Server).reachResource,
	"completion/complete":      (*Server).complete,
	"logging/setLevel":         (*Server).setLevels,
}

// codeResourceNotFound is that of the handshake era; the other has none of its
// own.
const codeResourceNotFound = -32002

func (s *Server) getPrompt(rq *request) {
	name, ok := textOf(rq.msg.Params, "name")
	if !ok {
		rq.fail(jsonrpc.CodeInvalidParams, `"name" must be a string`, nil)
		return
	}
	s.reach(rq, func(ctx context.Context, x *exchange) (relayed, []byte) {
		backend, own, ok := s.findPrompt(ctx, x, name)
		if !ok {
			return relayed{}, jsonrpc.AppendError(nil, rq.msg.ID, jsonrpc.CodeInvalidParams, "Unknown prompt: "+clip(name), nil)
		}
		return relayed{backend: backend, params: with(rq.msg.Params, "name", own)}, nil
	})
}

func (s *Server) findPrompt(ctx context.Context, x *exchange, name string) (backend, own string, ok bool) {
	able := s.able(s.opts.Broker.Catalog(), "prompts")
	if backend, own, ok = s.directory.prompt(able, name); ok {
		return backend, own, true
	}
	s.renew(ctx, x, &promptsOffered)
	if backend, own, ok = s.directory.prompt(able, name); ok {
		return backend, own, true
	}
	// A backend may have prompts that it does not list.
	return prefixed(able, name)
}

func (s *Server) reachResource(rq *request) {
	uri, ok := textOf(rq.msg.Params, "uri")
	if !ok {
		rq.fail(jsonrpc.CodeInvalidParams, `"uri" must be a string`, nil)
		return
	}
	s.reach(rq, func(ctx context.Context, x *exchange) (relayed, []byte) {
		backend, ok := s.findResource(ctx, x, uri)
		if !ok {
			return relayed{}, rq.resourceNotFound(uri)
		}
		return relayed{backend: backend, params: rq.msg.Params}, nil
	})
}

func (rq *request) resourceNotFound(uri string) []byte {
	code := codeResourceNotFound
	if rq.asker != nil {
		code = jsonrpc.CodeInvalidParams
	}
	data := slices.Concat([]byte(`{"uri":`), jsonrpc.Quote(clip(uri)), []byte("}"))
	return jsonrpc.AppendError(nil, rq.msg.ID, code, "Resource not found: no backend lists this URI or a template of it", data)
}

func (s *Server) findResource(ctx context.Context, x *exchange, uri string) (backend string, ok bool) {
	able := s.able(s.opts.Broker.Catalog(), "resources")
	if backend, ok = s.directory.owner(able, uri); ok {
		return backend, ok
	}
	s.renew(ctx, x, &resourcesOffered)
	if backend, ok = s.directory.owner(able, uri); ok {
		return backend, ok
	}
	s.renew(ctx, x, &templatesOffered)
	return s.directory.owner(able, uri)
}

func (s *Server) renew(ctx context.Context, x *exchange, kind *offerKind) {
	s.directory.renew(ctx, kind, s.opts.Now, func() { s.gather(ctx, x, kind) })
}

// complete goes to the backend of what is referred to.
func (s *Server) complete(rq *request) {
	params, err := jsonrpc.ParseObject(rq.msg.Params)
	var ref *jsonrpc.Object
	if err == nil {
		raw, _ := params.Get("ref")
		ref, err = jsonrpc.ParseObject(raw)
	}
	if err != nil {
		rq.fail(jsonrpc.CodeInvalidParams, `"ref" must be an object`, nil)
		return
	}
	name, isPrompt := ref.Text("name")
	uri, isResource := ref.Text("uri")
	kind, _ := ref.Text("type")
	s.reach(rq, func(ctx context.Context, x *exchange) (relayed, []byte) {
		switch {
		case kind == "ref/prompt" && isPrompt:
			if backend, own, ok := s.findPrompt(ctx, x, name); ok {
				ref.Set("name", jsonrpc.Quote(own))
				params.Set("ref", ref.Bytes())
				return relayed{backend: backend, params: params.Bytes()}, nil
			}
		case kind == "ref/resource" && isResource:
			if backend, ok := s.findResource(ctx, x, uri); ok {
				return relayed{backend: backend, params: rq.msg.Params}, nil
			}
		}
		return relayed{}, jsonrpc.AppendError(nil, rq.msg.ID, jsonrpc.CodeInvalidParams, "Nothing of this name is offered, so there is nothing to complete", nil)
	})
}

// reach relays a request to the backend that find names, or answers with the
// response that it gives instead.
func (s *Server) reach(rq *request, find func(context.Context, *exchange) (relayed, []byte)) {
	if refusal := s.admit(rq); refusal != nil {
		rq.refuse(refusal)
		return
	}
	defer s.streams.leave()
	whole, problem := readRelayed(rq.msg.Params)
	if problem != "" {
		rq.fail(jsonrpc.CodeInvalidParams, problem, nil)
		return
	}
	x := &exchange{rq: rq, progress: newProgress(whole.token, s.opts.Now)}
	s.run(x, func(ctx context.Context) []byte {
		to, response := find(ctx, x)
		if response != nil {
			return response
		}
		params, _ := readRelayed(to.params) // it was read
		to.method, to.id = rq.msg.Method, string(rq.msg.ID)
		return s.perform(ctx, x, s.asked(x, to, params), func(rq *request, reply actors.Reply) []byte { return s.told(rq, to, reply) })
	})
}

// with gives params with another string as one of its members.
func with(params json.RawMessage, member, text string) json.RawMessage {
	o, err := jsonrpc.ParseObject(params)
	if err != nil {
		return params
	}
	o.Set(member, jsonrpc.Quote(text))
	return o.Bytes()
}

// setLevels has every backend that logs do so from a level on. One that is not
// up is told when it is.
func (s *Server) setLevels(rq *request) {
	level, _ := textOf(rq.msg.Params, "level")
	if !slices.Contains(actors.LogLevels, level) {
		rq.fail(jsonrpc.CodeInvalidParams, `"level" must be one of the protocol's`, nil)
		return
	}
	if rq.attach != nil {
		rq.refuse(rq.attach)
		return
	}
	if rq.session != nil { // nobody else could hear
		s.opts.Broker.KeepLevel(rq.r.Context(), rq.session.key, s.able(s.opts.Broker.Catalog(), "logging"), level)
	}
	rq.result([]byte("{}"))
}

// learnLinks remembers where the links of a tool's result lead.
func (s *Server) learnLinks(backend string, result json.RawMessage) {
	if !bytes.Contains(result, []byte(`"resource_link"`)) {
		return
	}
	var read struct {
		Content []struct {
			Type string `json:"type"`
			URI  string `json:"uri"`
		} `json:"content"`
	}
	if err := json.Unmarshal(result, &read); err != nil {
		s.opts.Logger.Debug("the links of a result cannot be read", slog.String("backend", backend), slog.Any("error", err))
		return
	}
	for _, c := range read.Content {
		if c.Type == "resource_link" && c.URI != "" {
			s.directory.link(backend, c.URI)
		}
	}
}

// unreached refuses a list of which no backend gave its part.
func unreached(backends []string) *broker.Refusal {
	return broker.Refuse(broker.CodeBackendUnavailable, "None of the backends that have such a list gave it.", map[string]any{"backends": backends})
}
