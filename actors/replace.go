package actors

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"berth/broker"
	"berth/broker/catalog"
)

// This file is what the actors do when the journal is replaced under them: no
// new call is admitted for a while, then what was read from the journal at the
// start is read again.

// Pause refuses new calls with why; nil admits them again. What runs goes on,
// and control calls that read are answered.
func (s *System) Pause(why *broker.Refusal) {
	if why == nil {
		s.paused.Store(nil)
		return
	}
	s.paused.Store(why)
}

// pausedFor refuses a call while new ones are not admitted.
func (s *System) pausedFor(c *broker.Call) *broker.Refusal {
	if c.Lane == broker.LaneControl && c.Effects.ReadOnly() {
		return nil
	}
	return s.paused.Load()
}

// Found is what a journal holds for the actors.
type Found struct {
	// Tracked are the records that its recovery left Running.
	Tracked []broker.Job
	// Catalogs are the stored ones.
	Catalogs []broker.StoredCatalog
}

// journalReplaced says that the journal is another one.
type journalReplaced struct {
	found Found
	done  chan<- struct{} // closed once it was taken
	once  sync.Once
}

func (m *journalReplaced) settle() { m.once.Do(func() { close(m.done) }) }

// Reject leaves it to the next start.
func (m *journalReplaced) Reject(error) { m.settle() }

// Replaced takes what another journal holds: work that is followed is followed
// again, a backend that has not listed in this life of the broker is served as
// it is stored there, and the lists of the others are kept there, against what
// it had told and accepted of them. What sessions that are here ask for is kept
// there, too.
func (s *System) Replaced(f Found) {
	done := make(chan struct{})
	s.send(s.supervisor, &journalReplaced{found: f, done: done})
	<-done
}

func (s *supervisor) replaced(ctx actor.Context, m *journalReplaced) {
	defer m.settle()
	stored := map[string]broker.StoredCatalog{}
	for _, c := range m.found.Catalogs {
		stored[c.Backend] = c
	}
	for _, src := range s.sources {
		c, known := stored[src.Backend]
		if src.Native || src.Surface != nil {
			continue
		}
		s.replacedCatalog(src, c, known && c.Origin == s.origin(src.Backend))
	}
	s.counted = 0 // none of the costs is known to be there
	s.rebuild()
	s.keepChanged()
	s.resume(ctx, m.found.Tracked)
	s.sys.rememberAll()
}

// replacedCatalog takes what another journal has of a backend, if it knows it.
func (s *supervisor) replacedCatalog(src *catalog.Source, c broker.StoredCatalog, known bool) {
	k := s.keeping(src.Backend)
	// What was told is in the journal before. What stands is told in this one,
	// unless it was told there.
	k.told, k.events = map[string]bool{}, nil
	if !known {
		k.changed = k.changed || src.Listed
		return
	}
	k.know(c.Told)
	switch {
	case !src.Listed || src.Stale:
		src.Listed, src.Stale, src.Server, src.Tools = true, true, c.Server, c.Tools
		if src.Rules.Pin {
			src.Accepted = c.Tools
		}
	case src.Rules.Pin:
		src.Accepted = catalog.Accept(c.Tools, src.Tools)
		k.changed = true
	default:
		k.say(catalog.Changes(src.Backend, c.Tools, src.Tools))
		k.changed = true
	}
}

// resume follows the work of records that a recovery left Running.
func (s *supervisor) resume(ctx actor.Context, records []broker.Job) {
	for i := range records {
		record := records[i]
		if record.Instance != "" { // what its session brought went with it; another instance is not asked
			s.sys.loseBrought(record)
			continue
		}
		pid, ok := s.sys.sharedBackend(record.Backend)
		if !ok {
			s.sys.loseTracked(record)
			continue
		}
		s.spawnJob(ctx, &jobStart{sys: s.sys, backend: pid, record: &record})
	}
}
