package mcpserver

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/transport/httpguard"
	"berth/transport/jsonrpc"
)

// The notifications that a stream of a session carries or judges.
const (
	toolsChanged     = "notifications/tools/list_changed"
	promptsChanged   = "notifications/prompts/list_changed"
	resourcesChanged = "notifications/resources/list_changed"
	resourceUpdated  = "notifications/resources/updated"
	logMessage       = "notifications/message"
	elicitationDone  = "notifications/elicitation/complete"
)

// settle is how long a changed list of a backend waits for more of the same.
const settle = 250 * time.Millisecond

// apart is the least time between two times that one stream is told that the
// list of tools has changed.
const apart = 2 * time.Second

// pause is how long changes wait when the last time was at told.
func pause(now, told time.Time) time.Duration { return max(settle, apart-now.Sub(told)) }

// get answers GET: the stream on which a session hears what is not part of an
// answer.
func (s *Server) get(rq *request) {
	era, ok := eraOf(rq.r)
	switch {
	case !ok:
		s.refuseVersion(rq)
	case era.notices == nil:
		rq.w.Header().Set("Allow", "POST")
		deny(rq.w, rq.r, http.StatusMethodNotAllowed, broker.CodeMethodNotAllowed, "This version of the protocol has no GET.")
	case !rq.accept.stream:
		deny(rq.w, rq.r, http.StatusNotAcceptable, broker.CodeMethodNotAllowed, "A GET gives a stream; accept text/event-stream.")
	case rq.session == nil && rq.r.Header.Get(headerSession) == "":
		deny(rq.w, rq.r, http.StatusBadRequest, broker.CodeInvalidArguments, "A stream belongs to a session; send its Mcp-Session-Id.")
	case rq.session == nil:
		deny(rq.w, rq.r, http.StatusNotFound, broker.CodeNotFound, "There is no such session; begin a new one with initialize.")
	default:
		rq.era = era
		era.notices(s, rq)
	}
}

// notices serves one stream until the client leaves, the session ends, another
// stream of it takes this one's place, or the broker stops.
func (s *Server) notices(rq *request) {
	if refusal := s.opts.Broker.Attach(rq.session.info(rq.principal)); refusal != nil {
		httpguard.Refuse(rq.w, rq.r, http.StatusServiceUnavailable, refusal)
		return
	}
	e, refusal := s.listeners.begin(rq.session.key)
	if refusal != nil {
		httpguard.Refuse(rq.w, rq.r, http.StatusServiceUnavailable, refusal)
		return
	}
	defer s.listeners.leave(e)
	h := &hearing{s: s, rq: rq, ear: e, x: exchange{rq: rq}, due: map[string]bool{}}
	notices := s.opts.Broker.Listen(h.wants)
	defer notices.Close()
	if profile, ok := s.profile(rq); ok {
		s.listeners.baseline(rq.session.key, profile.Digest())
	}
	if h.x.begin() == nil {
		h.run(notices)
	}
}

// hearing is one stream that is being served. It belongs to its handler's
// goroutine, save wants.
type hearing struct {
	s   *Server
	rq  *request
	ear *ear
	x   exchange
	due map[string]bool // changes of lists that settle

	told time.Time // when a change of the list of tools was last told of
}

// wants keeps out what is for other sessions or of backends outside the
// profile.
func (h *hearing) wants(n actors.Notice) bool {
	switch n.Method {
	case actors.CatalogChanged:
		return true
	case actors.TaskChanged:
		return h.tells(n)
	}
	return (n.Session == "" || n.Session == h.rq.session.key) && (h.rq.backend == "" || n.Backend == h.rq.backend)
}

func (h *hearing) run(notices *actors.Listener) {
	beat := time.NewTicker(h.s.opts.Limits.KeepAlive)
	defer beat.Stop()
	settled := time.NewTimer(settle)
	settled.Stop()
	defer settled.Stop()
	// The list may have changed since it was served and before this stream was.
	h.due[toolsChanged] = true
	settled.Reset(settle)
	for {
		var err error
		select {
		case <-h.rq.r.Context().Done():
			return
		case <-h.rq.gone():
			h.rq.endDeadline()
			return
		case <-h.ear.over:
			h.rq.endDeadline()
			return
		case <-beat.C:
			// The session must not be taken for idle while it listens.
			_ = h.s.opts.Broker.Attach(h.rq.session.info(h.rq.principal))
			err = h.x.write(comment)
		case <-notices.Signal():
			waiting := len(h.due)
			err = h.take(notices)
			if waiting == 0 && len(h.due) > 0 {
				settled.Reset(pause(h.s.opts.Now(), h.told))
			}
		case <-settled.C:
			err = h.sendDue()
		}
		if err != nil {
			return
		}
	}
}

// take writes what has come. The protocol wants each message on one stream of a
// session, which is the newest.
func (h *hearing) take(notices *actors.Listener) error {
	all, missed := notices.Take()
	if !h.s.listeners.newest(h.ear) {
		return nil
	}
	if missed { // what it was is not known, so everything may have changed
		h.due[toolsChanged], h.due[promptsChanged], h.due[resourcesChanged] = true, true, true
	}
	for _, n := range all {
		switch n.Method {
		case actors.CatalogChanged:
			h.due[toolsChanged] = true
		case promptsChanged, resourcesChanged:
			h.due[n.Method] = true
		case actors.TaskChanged:
			if err := h.sendTask(n); err != nil {
				return err
			}
		default:
			if !h.passes(n) {
				continue
			}
			if err := h.x.event(jsonrpc.AppendNotification(nil, n.Method, n.Params)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendDue tells of the lists that changed. That of tools is known here, so it
// is told only when another was served.
func (h *hearing) sendDue() error {
	for _, method := range []string{toolsChanged, promptsChanged, resourcesChanged} {
		if !h.due[method] {
			continue
		}
		delete(h.due, method)
		if method == toolsChanged && !h.toolsDiffer() {
			continue
		}
		if method == toolsChanged {
			h.told = h.s.opts.Now()
		}
		if err := h.x.event(jsonrpc.AppendNotification(nil, method, nil)); err != nil {
			return err
		}
	}
	return nil
}

func (h *hearing) toolsDiffer() bool {
	profile, ok := h.s.profile(h.rq)
	return ok && h.s.listeners.differs(h.rq.session.key, profile.Digest())
}

// passes judges a notice for this session. What the protocol does not name is
// passed on where the profile is the backend itself.
func (h *hearing) passes(n actors.Notice) bool {
	holder := h.rq.session.key
	switch n.Method {
	case resourceUpdated:
		uri, ok := textOf(n.Params, "uri")
		return ok && h.s.opts.Broker.Subscribed(n.Backend, uri, holder)
	case logMessage:
		// In the merged profile a session hears the logs of backends only when
		// it asked for logs.
		wanted, said := h.s.opts.Broker.Level(n.Backend, levelOf(n.Params), holder)
		return said && wanted || !said && h.rq.backend != ""
	case elicitationDone:
		return true
	case "notifications/cancelled", "notifications/progress":
		return false // of the hop to the backend
	}
	return h.rq.backend != "" && !strings.HasPrefix(n.Method, "notifications/tasks")
}

func levelOf(params json.RawMessage) string {
	level, _ := textOf(params, "level")
	return level
}

func textOf(params json.RawMessage, member string) (string, bool) {
	o, err := jsonrpc.ParseObject(params)
	if err != nil {
		return "", false
	}
	return o.Text(member)
}
