package mcpserver

import (
	"context"
	"encoding/json"
	"log/slog"

	"berth/broker"
	"berth/broker/catalog"
	"berth/transport/jsonrpc"
)

// listTools answers from the rendered pages. While a backend of the profile is
// unknown it waits a little; then a merged list says what is missing and an
// exact one is an error, because an empty list would be a lie.
func (s *Server) listTools(rq *request) {
	if refusal := s.admit(rq); refusal != nil {
		rq.refuse(refusal)
		return
	}
	defer s.streams.leave()
	cursor := ""
	if rq.msg.Params != nil {
		params, err := jsonrpc.ParseObject(rq.msg.Params)
		if err != nil {
			s.misfit(rq, `"params" must be an object`)
			return
		}
		if _, there := params.Get("cursor"); there {
			if cursor, _ = params.Text("cursor"); cursor == "" {
				s.misfit(rq, "The cursor is none that a list of this profile gave.")
				return
			}
		}
	}
	profile, ok := s.profile(rq)
	if rq.backend == "" {
		s.wake()
	}
	if ok && len(profile.Pending()) == 0 {
		rq.answer(s.page(rq, profile, cursor))
		return
	}
	s.run(&exchange{rq: rq}, func(ctx context.Context) []byte {
		profile, refusal := s.await(ctx, rq)
		if refusal != nil {
			return refusalError(rq.msg.ID, refusal)
		}
		if pending := profile.Pending(); len(pending) > 0 && rq.backend != "" {
			return refusalError(rq.msg.ID, s.opts.Broker.WhyPending(pending))
		}
		return s.page(rq, profile, cursor)
	})
}

// wake has the backends come up of which nothing is known, so that they can be
// found and called whatever this list shows. Nobody waits for them here.
func (s *Server) wake() {
	if full, ok := s.opts.Broker.Catalog().Profile(catalog.Full); ok && len(full.Pending()) > 0 {
		s.opts.Broker.AwaitCatalog(ended, catalog.Full)
	}
}

// ended is a context in which nothing is waited for.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// page gives one page; what is pending is named in it.
func (s *Server) page(rq *request, profile *catalog.Profile, cursor string) []byte {
	if rq.session != nil && cursor == "" {
		s.listeners.served(rq.session.key, profile.Digest())
	}
	page, refusal := rq.listPage(profile, cursor)
	if refusal != nil {
		return s.misfitError(rq, refusal)
	}
	if s.opts.Surfaces != nil {
		s.opts.Surfaces.Served(rq.holder(), profile, cursor == "")
	}
	if pending := profile.Pending(); len(pending) > 0 {
		rq.partial = true
		marked, err := markPending(page, pending)
		if err != nil {
			s.opts.Logger.Error("a page of the list could not be marked", slog.Any("error", err))
			return refusalError(rq.msg.ID, broker.AsRefusal(err))
		}
		page = marked
	}
	return jsonrpc.AppendResult(nil, rq.msg.ID, rq.shaped(page))
}

func markPending(page json.RawMessage, pending []string) (json.RawMessage, error) {
	o, err := jsonrpc.ParseObject(page)
	if err != nil {
		return nil, err
	}
	meta, err := json.Marshal(map[string]any{"berth/pending": pending})
	if err != nil {
		return nil, err
	}
	o.Set("_meta", meta)
	return o.Bytes(), nil
}

// admit takes a place for a request that may wait, unless its session is not
// taken. The caller leaves when it gives nil.
func (s *Server) admit(rq *request) *broker.Refusal {
	if rq.attach != nil {
		return rq.attach
	}
	return s.streams.enter()
}
