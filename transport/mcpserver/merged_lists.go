package mcpserver

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"berth/broker/catalog"
	"berth/transport/jsonrpc"
)

// offerKind is one kind of list that the merged profile puts together.
type offerKind struct {
	method     string
	capability string
	member     string // of the result
	key        string // of an entry: what it is known by
}

// The kinds. They are compared by address.
var (
	promptsOffered   = offerKind{"prompts/list", "prompts", "prompts", "name"}
	resourcesOffered = offerKind{"resources/list", "resources", "resources", "uri"}
	templatesOffered = offerKind{"resources/templates/list", "resources", "resourceTemplates", "uriTemplate"}
)

// maxPages bounds the walk through one backend's list.
const maxPages = 100

func (s *Server) listPrompts(rq *request)   { s.listOffered(rq, &promptsOffered) }
func (s *Server) listResources(rq *request) { s.listOffered(rq, &resourcesOffered) }
func (s *Server) listTemplates(rq *request) { s.listOffered(rq, &templatesOffered) }

// listOffered answers with the lists of all backends as one page. What is
// missing is named in it; when everything is, it is an error.
func (s *Server) listOffered(rq *request, kind *offerKind) {
	if refusal := s.admit(rq); refusal != nil {
		rq.refuse(refusal)
		return
	}
	defer s.streams.leave()
	if cursor, ok := textOf(rq.msg.Params, "cursor"); ok {
		s.misfit(rq, "The cursor is none that this list gave: "+clip(cursor))
		return
	}
	x := &exchange{rq: rq}
	s.run(x, func(ctx context.Context) []byte {
		merged, refusal := s.await(ctx, x.rq)
		if refusal != nil {
			return refusalError(rq.msg.ID, refusal)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if rq.session != nil {
			key := rq.session.key + " " + string(rq.msg.ID)
			s.gathering.Store(key, cancel)
			defer s.gathering.Delete(key)
		}
		lists, missing := s.gather(ctx, x, kind)
		if ctx.Err() != nil {
			return nil // cancelled, or the client is gone
		}
		if len(lists) == 0 && len(missing) > 0 {
			return refusalError(rq.msg.ID, unreached(missing))
		}
		missing = append(missing, merged.Pending()...)
		return jsonrpc.AppendResult(nil, rq.msg.ID, rq.shaped(assemble(kind, lists, missing)))
	})
}

// list is what one backend gave.
type list struct {
	backend string
	entries []entry
}

type entry struct {
	key string
	raw json.RawMessage
}

// gather asks all backends that have such a list, at once, each for all of it,
// and remembers what they list. missing are those that gave none in time.
func (s *Server) gather(ctx context.Context, x *exchange, kind *offerKind) (lists []list, missing []string) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Limits.ListWait)
	defer cancel()
	able := s.able(s.opts.Broker.Catalog(), kind.capability)
	got := make([]*list, len(able))
	var work sync.WaitGroup
	for i, backend := range able {
		work.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					s.opts.Logger.Error("panic while a list was read", "backend", backend, "panic", p)
				}
			}()
			if entries, ok := s.walk(ctx, x, backend, kind); ok {
				got[i] = &list{backend, entries}
			}
		})
	}
	work.Wait()
	for i, backend := range able {
		if got[i] == nil {
			missing = append(missing, backend)
			continue
		}
		lists = append(lists, *got[i])
		names := make([]string, 0, len(got[i].entries))
		for _, e := range got[i].entries {
			names = append(names, e.key)
		}
		s.directory.note(backend, kind, names)
	}
	return lists, missing
}

// walk reads all pages of one backend's list, within bounds.
func (s *Server) walk(ctx context.Context, x *exchange, backend string, kind *offerKind) (entries []entry, ok bool) {
	params := json.RawMessage("{}")
	for range maxPages {
		reply := s.ask(ctx, x, relayed{backend: backend, method: kind.method}, hopped{params: params})
		if reply.Answer == nil || reply.Answer.Error != nil {
			return nil, false
		}
		page, err := jsonrpc.ParseObject(reply.Answer.Result)
		if err != nil {
			return nil, false
		}
		var raws []json.RawMessage
		if raw, there := page.Get(kind.member); there {
			if err := json.Unmarshal(raw, &raws); err != nil {
				return nil, false
			}
		}
		for _, raw := range raws {
			if key, ok := textOf(raw, kind.key); ok && len(entries) < maxOffered {
				entries = append(entries, entry{key, raw})
			}
		}
		next, more := page.Text("nextCursor")
		if !more || next == "" || len(entries) >= maxOffered {
			break
		}
		params = slices.Concat([]byte(`{"cursor":`), jsonrpc.Quote(next), []byte("}"))
	}
	return entries, true
}

// assemble makes one page of the lists, which are in the order of their
// backends' names.
func assemble(kind *offerKind, lists []list, missing []string) json.RawMessage {
	taken := map[string]bool{}
	var entries []entry
	for _, l := range lists {
		for _, e := range l.entries {
			if kind == &promptsOffered {
				e.key = catalog.PromptName(l.backend, e.key)
				e.raw = with(e.raw, "name", e.key)
			}
			if !taken[e.key] {
				taken[e.key] = true
				entries = append(entries, e)
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	out := append([]byte(`{"`), kind.member...)
	out = append(out, `":[`...)
	for i, e := range entries {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, jsonrpc.OneLine(e.raw)...)
	}
	out = append(out, ']')
	if len(missing) > 0 {
		slices.Sort(missing)
		names, _ := json.Marshal(slices.Compact(missing)) // strings cannot fail to encode
		out = append(append(append(out, `,"_meta":{"berth/pending":`...), names...), '}')
	}
	return append(out, '}')
}
