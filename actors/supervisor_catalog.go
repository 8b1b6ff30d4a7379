package actors

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/parity"
)

// This file is the supervisor's part in the catalog: it takes what backends
// list, makes snapshots of it, and keeps it with what is told of it.

// maxUnkept bounds the events of one backend that wait for its catalog to be
// kept. The oldest stay: what came later is what the journal cannot take.
const maxUnkept = 500

// keeping is what of one backend's catalog is in the journal, and what is not yet.
type keeping struct {
	told    map[string]bool // what stands and an event was made of
	changed bool            // there is something to keep
	running chan struct{}   // closed when the save that runs has ended; nil: none runs
	events  []broker.Event  // to write with the next
}

// kept says that a catalog is in the journal, or is not.
type kept struct {
	backend string
	events  []broker.Event // that were to be written with it
	failed  bool
}

// keeping gives a backend's; it is made at first need.
func (s *supervisor) keeping(backend string) *keeping {
	k := s.keeps[backend]
	if k == nil {
		k = &keeping{told: map[string]bool{}}
		s.keeps[backend] = k
	}
	return k
}

// know takes over what an earlier broker told.
func (k *keeping) know(told []string) {
	for _, key := range told {
		k.told[key] = true
	}
}

func (k *keeping) say(events []broker.Event) {
	k.events = append(k.events, events[:min(len(events), maxUnkept-len(k.events))]...)
}

// listed takes a backend's catalog into the registry and keeps it for the next
// start.
func (s *supervisor) listed(m *listed) {
	src, ok := s.sources[m.backend]
	if !ok || m.origin != s.origin(m.backend) { // what it was reached as before a change
		return
	}
	if m.failed != nil {
		if !src.Listed || src.Stale {
			s.unlisted[m.backend] = unlisted{why: m.failed, times: s.unlisted[m.backend].times + 1}
			s.publish()
		}
		return
	}
	delete(s.unlisted, m.backend)
	if src.Surface != nil {
		return // its list is part of the program
	}
	before, known := src.Tools, src.Listed
	src.Listed, src.Stale, src.Server, src.Tools = true, false, m.inc.Server, catalog.KeepOrder(src.Tools, m.inc.Tools)
	if src.Rules.Pin {
		src.Accepted = catalog.Accept(src.Accepted, src.Tools)
	}
	if !src.Native {
		k := s.keeping(m.backend)
		k.changed = true
		if known && !src.Rules.Pin {
			k.say(catalog.Changes(m.backend, before, src.Tools))
		}
	}
	s.rebuild()
	s.keepChanged()
}

// origin names the configuration that a backend's catalog comes from.
func (s *supervisor) origin(backend string) string {
	if v, ok := s.sys.backends.Load(backend); ok {
		return v.(*backendRef).cfg.Origin
	}
	return ""
}

// rebuild makes a new snapshot and swaps it in.
func (s *supervisor) rebuild() {
	s.generation++
	sources := make([]catalog.Source, 0, len(s.sources))
	for _, src := range s.sources {
		sources = append(sources, *src)
	}
	snapshot, quarantined, faults := parity.Build(s.generation, sources, s.settings)
	told := map[catalog.Quarantined]bool{}
	for _, q := range quarantined {
		if told[q] = true; s.told[q] {
			continue
		}
		s.warn(q)
	}
	s.told = told
	for _, f := range faults {
		s.log.Error("the catalog does not pass its self-check", slog.String("check", f.Check), slog.String("backend", f.Backend), slog.String("verb", f.Verb), slog.String("reason", f.Reason))
	}
	if len(faults) > 0 && s.sys.snapshot.Load() != nil {
		s.publish() // the earlier one is served on
		return
	}
	s.sys.snapshot.Store(snapshot)
	s.tell(snapshot)
	s.rebuildBound(s.generation, sources)
	s.sys.hub.publish(Notice{Method: CatalogChanged})
	s.publish()
}

// warn logs what is not as it was listed or configured.
func (s *supervisor) warn(q catalog.Quarantined) {
	cause := []any{slog.String("code", q.Code), slog.String("reason", q.Reason)}
	switch {
	case q.Profile != "":
		s.log.Warn("a profile is not as it is configured", append(cause, slog.String("profile", q.Profile))...)
	case q.Pattern != "":
		s.log.Warn("a pattern of the configuration selects nothing", append(cause, slog.String("backend", q.Backend), slog.String("pattern", q.Pattern))...)
	case q.Verb == "":
		s.log.Warn("a backend is not served", append(cause, slog.String("backend", q.Backend))...)
	default:
		s.log.Warn("a verb is not served as it was listed", append(cause, slog.String("backend", q.Backend), slog.String("verb", q.Verb))...)
	}
}

// publish wakes those who wait for a catalog.
func (s *supervisor) publish() {
	old := s.sys.lists.Swap(&listState{unlisted: maps.Clone(s.unlisted), changed: make(chan struct{})})
	if old != nil {
		close(old.changed)
	}
}

// tell makes one event of each thing that stands about a backend's verbs since
// the snapshot before. What went and comes back is told again.
func (s *supervisor) tell(snapshot *catalog.Snapshot) {
	for name, src := range s.sources {
		if src.Native || src.Surface != nil || !src.Listed {
			continue
		}
		k, told, events := s.keeping(name), map[string]bool{}, []broker.Event(nil)
		if src.Stale { // what its backend lists now is not known, so nothing is over
			told = maps.Clone(k.told)
		}
		for _, st := range snapshot.Standing(name) {
			if !k.told[st.Key] && !told[st.Key] {
				events = append(events, st.Event)
			}
			told[st.Key] = true
		}
		if len(events) > 0 || len(told) != len(k.told) {
			k.changed = true
		}
		k.told = told
		k.say(catalog.Told(events))
	}
}

// keepChanged stores, for the next start, what was accepted of each backend where
// there is something new. One save of a backend runs at a time, so that the last
// one has the last word.
func (s *supervisor) keepChanged() {
	s.keepCosts()
	for name, k := range s.keeps {
		if s.keepable(name, k) && k.running == nil {
			k.running = s.keep(name, k, nil)
		}
	}
}

// keepLast stores what is not kept when the broker stops.
func (s *supervisor) keepLast() {
	s.keepCosts()
	for name, k := range s.keeps {
		if s.keepable(name, k) {
			s.keep(name, k, k.running)
		}
	}
}

// keepable says whether there is something to keep of a backend. There is not of
// one that was taken out, or is reached as something else and has not listed.
func (s *supervisor) keepable(name string, k *keeping) bool {
	src, configured := s.sources[name]
	return k.changed && (name == catalog.NativeName || configured && src.Listed)
}

// keep stores a backend's catalog and its events once after is closed.
func (s *supervisor) keep(name string, k *keeping, after <-chan struct{}) (ended chan struct{}) {
	stored, events := s.storable(name), k.events
	ended = make(chan struct{})
	k.changed, k.events = false, nil
	s.sys.work.Go(func() {
		defer close(ended)
		if after != nil {
			<-after
		}
		err := s.sys.journal.SaveCatalog(context.Background(), stored, events...)
		if err != nil {
			s.log.Warn("a catalog could not be kept", slog.String("backend", name), slog.String("cause", err.Error()))
		}
		s.sys.send(s.self, &kept{backend: name, events: events, failed: err != nil})
	})
	return ended
}

// keepCosts has what was counted since the last time kept too. It stands with
// the broker's own part of the catalog, which lists nothing.
func (s *supervisor) keepCosts() {
	costs := s.sys.opts.Catalog.Costs
	if costs == nil {
		return
	}
	if n := costs.Counted(); n != s.counted {
		s.counted = n
		s.keeping(catalog.NativeName).changed = true
	}
}

// storable is what is kept of a backend.
func (s *supervisor) storable(name string) broker.StoredCatalog {
	if name == catalog.NativeName {
		listed := map[string]bool{}
		for _, v := range s.sys.snapshot.Load().Verbs() {
			listed[v.Digest()] = true
		}
		return broker.StoredCatalog{Backend: name, Costs: s.sys.opts.Catalog.Costs.Retain(listed), At: s.sys.now()}
	}
	src := s.sources[name]
	tools := src.Tools
	if src.Rules.Pin {
		tools = src.Accepted
	}
	return broker.StoredCatalog{Backend: src.Backend, Origin: s.origin(src.Backend), Server: src.Server, Tools: tools,
		Told: slices.Sorted(maps.Keys(s.keeping(src.Backend).told)), At: s.sys.now()}
}

// kept goes on with what came meanwhile. Events that were not written wait for
// the next change of the catalog: they are not lost while the broker lives.
func (s *supervisor) kept(m *kept) {
	k := s.keeping(m.backend)
	k.running = nil
	if m.failed {
		later := k.events
		k.events = m.events
		k.say(later)
	}
	s.keepChanged()
}
