package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"berth/broker"
)

// This file holds what harnesses ask of a backend that goes on after the call
// in which they asked: to hear of a resource, and of log messages from a level
// on. A backend that many share is one client to each of its own: it is told
// once, and again when it has a new incarnation.

// The methods by which a backend is told.
const (
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
	methodSetLevel    = "logging/setLevel"
)

// The bounds of what is kept. A holder is a session, or a stream of the
// stateless era.
const (
	maxSubscriptions       = 65536
	maxSubscriptionsHolder = 512
	tellLimit              = 30 * time.Second // for one request of those that are told again
)

// LogLevels are the protocol's, least severe first.
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// standing is one backend's part, or one session's instance of it.
type standing struct {
	resources map[string]map[string]bool // by URI: who wants to hear of it
	levels    map[string]int             // by holder
}

// subscriptions is safe for concurrent use. No lock is held while a backend is
// told: what was told and what is wanted may differ for that long, and who
// comes last puts it right.
type subscriptions struct {
	mu       sync.Mutex
	backends map[string]*standing // by backend, or backend NUL session
	held     map[string]int       // subscriptions of a holder
	total    int
}

// of gives a backend's part, making it if need be. The caller holds the lock.
func (s *subscriptions) of(backend string) *standing {
	if s.backends == nil {
		s.backends, s.held = map[string]*standing{}, map[string]int{}
	}
	b := s.backends[backend]
	if b == nil {
		b = &standing{resources: map[string]map[string]bool{}, levels: map[string]int{}}
		s.backends[backend] = b
	}
	return b
}

// add notes that holder wants to hear of uri and reports whether that is new.
func (s *subscriptions) add(backend, uri, holder string) (fresh bool, refusal *broker.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.of(backend)
	if b.resources[uri][holder] {
		return false, nil
	}
	if s.total >= maxSubscriptions || s.held[holder] >= maxSubscriptionsHolder {
		return false, broker.Refuse(broker.CodeOverloaded, "There are as many subscriptions as the broker keeps.",
			map[string]any{"limit": maxSubscriptionsHolder})
	}
	if b.resources[uri] == nil {
		b.resources[uri] = map[string]bool{}
	}
	b.resources[uri][holder] = true
	s.held[holder]++
	s.total++
	return true, nil
}

// remove takes a subscription back and reports whether the backend has none of
// uri left. One that is not there has nothing to take back.
func (s *subscriptions) remove(backend, uri, holder string) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.of(backend)
	defer s.tidy(backend)
	if !b.resources[uri][holder] {
		return len(b.resources[uri]) == 0
	}
	delete(b.resources[uri], holder)
	s.total--
	if s.held[holder]--; s.held[holder] == 0 {
		delete(s.held, holder)
	}
	if len(b.resources[uri]) > 0 {
		return false
	}
	delete(b.resources, uri)
	return true
}

// tidy forgets a backend of which nothing is held. The caller holds the lock.
func (s *subscriptions) tidy(backend string) {
	if b := s.backends[backend]; b != nil && len(b.resources) == 0 && len(b.levels) == 0 {
		delete(s.backends, backend)
	}
}

// wanted says whether holder, or anybody when it is empty, wants to hear of uri.
func (s *subscriptions) wanted(backend, uri, holder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.backends[backend]
	if b == nil {
		return false
	}
	return b.resources[uri][holder] || holder == "" && len(b.resources[uri]) > 0
}

// hears says whether holder wants to hear of uri or of what it is a part of.
func (s *subscriptions) hears(backend, uri, holder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.backends[backend]
	if b == nil || s.held[holder] == 0 {
		return false
	}
	if b.resources[uri][holder] {
		return true
	}
	for whole, holders := range b.resources {
		if holders[holder] && strings.HasPrefix(uri, whole) {
			return true
		}
	}
	return false
}

// setLevel notes a holder's level; before is its last one, or -1.
func (s *subscriptions) setLevel(backend, holder string, level int) (before int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.of(backend)
	defer s.tidy(backend)
	before, ok := b.levels[holder]
	if !ok {
		before = -1
	}
	if level < 0 {
		delete(b.levels, holder)
	} else {
		b.levels[holder] = level
	}
	return before
}

// level is the least severe that anybody wants of a backend, or -1.
func (s *subscriptions) level(backend string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.backends[backend]; b != nil && len(b.levels) > 0 {
		return slices.Min(slices.Collect(maps.Values(b.levels)))
	}
	return -1
}

// holderLevel is what a holder asked of a backend, or -1.
func (s *subscriptions) holderLevel(backend, holder string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.backends[backend]; b != nil {
		if level, ok := b.levels[holder]; ok {
			return level
		}
	}
	return -1
}

// drop forgets a holder. It gives, by backend, the resources that nobody wants
// any more.
func (s *subscriptions) drop(holder string) map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var over map[string][]string
	for name, b := range s.backends {
		delete(b.levels, holder)
		if s.held[holder] > 0 {
			for uri, holders := range b.resources {
				if !holders[holder] {
					continue
				}
				s.total--
				if delete(holders, holder); len(holders) > 0 {
					continue
				}
				delete(b.resources, uri)
				if over == nil {
					over = map[string][]string{}
				}
				over[name] = append(over[name], uri)
			}
		}
		s.tidy(name)
	}
	delete(s.held, holder)
	return over
}

// all lists what a backend is told when it has a new incarnation.
func (s *subscriptions) all(backend string) (uris []string, level int) {
	level = s.level(backend)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.backends[backend]; b != nil {
		uris = slices.Sorted(maps.Keys(b.resources))
	}
	return uris, level
}

// Subscribe has holder hear of the changes of a resource: req is the caller's
// resources/subscribe, and its reply the backend's. What the backend refuses is
// not kept.
func (s *System) Subscribe(ctx context.Context, holder, uri string, req Request) Reply {
	key := s.standingKey(req.Call)
	fresh, refusal := s.subs.add(key, uri, holder)
	if refusal != nil {
		return Reply{Refusal: refusal}
	}
	reply := s.Do(ctx, req)
	switch {
	case !fresh:
	case reply.Answer == nil || reply.Answer.Error != nil:
		s.subs.remove(key, uri, holder)
	default:
		s.remember(ctx, holder)
	}
	return reply
}

// Unsubscribe takes a subscription back: req is the caller's
// resources/unsubscribe. The backend is told when nobody else holds one.
func (s *System) Unsubscribe(ctx context.Context, holder, uri string, req Request) Reply {
	key := s.standingKey(req.Call)
	last := s.subs.remove(key, uri, holder)
	s.remember(ctx, holder)
	if !last {
		return Reply{Answer: &broker.Answer{Result: json.RawMessage("{}")}}
	}
	reply := s.Do(ctx, req)
	if s.subs.wanted(key, uri, "") {
		// Somebody came in between; which of the two the backend heard last is
		// not known.
		s.tell(key, &tell{subscribe: []string{uri}})
	}
	return reply
}

// SetLevel has holder hear of log messages from a level on: req is the caller's
// logging/setLevel. The backend is told the least severe level of all who hold
// one; who wants less filters (see [System.Level]). A level that is none of the
// protocol's is the backend's to refuse.
func (s *System) SetLevel(ctx context.Context, holder, level string, req Request) Reply {
	n := slices.Index(LogLevels, level)
	if n < 0 {
		return s.Do(ctx, req)
	}
	key := s.standingKey(req.Call)
	before := s.subs.setLevel(key, holder, n)
	if least := s.subs.level(key); least >= 0 && least != n {
		call := *req.Call
		call.Params = levelParams(least)
		req.Call = &call
	}
	reply := s.Do(ctx, req)
	if reply.Answer == nil || reply.Answer.Error != nil {
		s.subs.setLevel(key, holder, before)
		return reply
	}
	s.remember(ctx, holder)
	return reply
}

// KeepLevel is SetLevel of several backends without telling one that has no
// incarnation: it is told when it has one. The holder is a session.
func (s *System) KeepLevel(ctx context.Context, holder string, backends []string, level string) {
	n := slices.Index(LogLevels, level)
	if n < 0 || len(backends) == 0 {
		return
	}
	for _, backend := range backends {
		key := s.standingKey(&broker.Call{Backend: backend, Session: holder})
		s.subs.setLevel(key, holder, n)
		s.tell(key, &tell{level: true})
	}
	s.remember(ctx, holder)
}

func levelParams(level int) json.RawMessage {
	return json.RawMessage(`{"level":"` + LogLevels[level] + `"}`)
}

// Subscribed reports whether holder wants to hear of a resource of a backend.
// The protocol lets a backend name a part of the resource that was subscribed.
func (s *System) Subscribed(backend, uri, holder string) bool {
	return s.subs.hears(backend, uri, holder) || s.subs.hears(standingName(backend, holder), uri, holder)
}

// Level reports whether holder wants log messages of a level of a backend, and
// whether it has said so at all.
func (s *System) Level(backend, level, holder string) (wanted, said bool) {
	least := max(s.subs.holderLevel(backend, holder), s.subs.holderLevel(standingName(backend, holder), holder))
	return slices.Index(LogLevels, level) >= least, least >= 0
}

// Forget drops what holder asked for. It is done for a session when it ends, or
// is idle; what is remembered of it stays in the second case.
func (s *System) Forget(holder string) {
	for key, uris := range s.subs.drop(holder) {
		s.tell(key, &tell{unsubscribe: uris})
	}
}

// standingKey is where a call's backend has its part.
func (s *System) standingKey(c *broker.Call) string {
	if v, ok := s.backends.Load(c.Backend); ok && v.(*backendRef).cfg.PerSession {
		key := c.Session
		if key == "" {
			key = sessionless + c.Principal.Digest()
		}
		return standingName(c.Backend, key)
	}
	return c.Backend
}

func standingName(backend, session string) string {
	if session == "" {
		return backend
	}
	return backend + "\x00" + session
}

// tell asks a backend actor to tell its present incarnation something.
type tell struct {
	subscribe, unsubscribe []string
	level                  bool
	all                    bool // everything that is held: the incarnation is new
}

// instance finds the actor of a part.
func (s *System) instance(key string) (*actor.PID, bool) {
	if name, _, own := strings.Cut(key, "\x00"); !own {
		return s.sharedBackend(name)
	}
	pid, ok := s.instances.Load(key)
	if !ok {
		return nil, false
	}
	return pid.(*actor.PID), true
}

// tell reaches the actor of a part. One without an incarnation has nothing to
// be told.
func (s *System) tell(key string, m *tell) {
	if pid, ok := s.instance(key); ok {
		s.send(pid, m)
	}
}

// tell works off the mailbox. Failures are the backend's: what it did not take
// is told again to its next incarnation.
func (b *backend) tell(m *tell) {
	if b.conn == nil {
		return
	}
	key := standingName(b.cfg.Name, b.session)
	subscribe, level := m.subscribe, -1
	if m.all {
		subscribe, level = b.sys.subs.all(key)
	} else if m.level {
		level = b.sys.subs.level(key)
	}
	var calls []*broker.Call
	add := func(method string, params json.RawMessage) {
		calls = append(calls, b.ownCall(method, params, broker.Session))
	}
	if level >= 0 {
		add(methodSetLevel, levelParams(level))
	}
	for _, uri := range subscribe {
		add(methodSubscribe, uriParams(uri))
	}
	for _, uri := range m.unsubscribe {
		if !b.sys.subs.wanted(key, uri, "") {
			add(methodUnsubscribe, uriParams(uri))
		}
	}
	if len(calls) == 0 {
		return
	}
	conn, log := b.conn, b.log
	b.sys.work.Go(func() {
		for _, call := range calls {
			if _, err := ask(conn, call); err != nil {
				log.Warn("a backend was not told what its clients asked for", slog.String("method", call.Method), slog.String("cause", err.Error()))
				return
			}
		}
	})
}

// recovered turns a panic of a transport into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the transport to the backend panicked: %v", p)
	}
}

func uriParams(uri string) json.RawMessage {
	quoted, _ := json.Marshal(uri) // a string cannot fail to encode
	return append(append([]byte(`{"uri":`), quoted...), '}')
}
