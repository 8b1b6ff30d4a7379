package dashboard

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"berth/actors"
	"berth/broker"
)

// The bounds of what a sampler keeps.
const (
	// SlotLength is the time between two samples.
	SlotLength = 10 * time.Second
	slots      = 360 // an hour
	maxSeries  = 256 // backends; of more the plots are left out
)

// Backends shows the backends as they are now.
type Backends interface {
	Backends(ctx context.Context) []actors.BackendView
}

// Counter counts jobs by status, over the whole journal.
type Counter interface {
	CountJobs() (map[broker.JobStatus]int, error)
}

// Counts are jobs by status as they were counted At; the zero value: not yet.
type Counts struct {
	Jobs map[broker.JobStatus]int
	At   time.Time
}

// Sampler keeps an hour of the backends in memory. A moment at which nothing
// was seen stays unknown: it is a gap, not a zero. Its methods are safe for
// concurrent use.
type Sampler struct {
	backends Backends
	jobs     Counter
	now      func() time.Time
	log      *slog.Logger

	mu     sync.Mutex
	series map[string]*series
	counts Counts
}

// series is the last hour of one backend, as rings of slots.
type series struct {
	newest                 int64 // number of the newest slot
	inFlight, queued, wait [slots]float32
	// waited is the longest wait of the calls that started since the last
	// sample, in seconds; NaN: none did.
	waited float32
}

var unknown = float32(math.NaN())

func newSeries(at int64) *series {
	s := &series{newest: at, waited: unknown}
	for i := range slots {
		s.inFlight[i], s.queued[i], s.wait[i] = unknown, unknown, unknown
	}
	return s
}

// forward makes slot `at` the newest; those that were passed over are unknown.
func (s *series) forward(at int64) {
	for n := max(s.newest+1, at-slots+1); n <= at; n++ {
		i := n % slots
		s.inFlight[i], s.queued[i], s.wait[i] = unknown, unknown, unknown
	}
	s.newest = max(s.newest, at)
}

// NewSampler makes a sampler; now and log may be nil.
func NewSampler(backends Backends, jobs Counter, now func() time.Time, log *slog.Logger) *Sampler {
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Sampler{backends: backends, jobs: jobs, now: now, log: log, series: map[string]*series{}}
}

// Run samples until ctx ends. Jobs are counted less often than backends when
// that takes long: it takes a hundredth of the time at most.
func (s *Sampler) Run(ctx context.Context) {
	tick := time.NewTicker(SlotLength)
	defer tick.Stop()
	var nextCount time.Time
	for {
		s.Sample(ctx)
		if began := s.now(); !began.Before(nextCount) {
			s.Count()
			nextCount = began.Add(100 * s.now().Sub(began))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Observe takes note of how long a call waited. It is called once for each call
// that ended, and does not block.
func (s *Sampler) Observe(req *actors.Request, reply *actors.Reply) {
	t := reply.Timing
	if t.Started.IsZero() || t.Offered.IsZero() {
		return
	}
	waited := float32(max(0, t.Started.Sub(t.Offered)).Seconds())
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.series[req.Call.Backend]
	if one != nil && !(one.waited >= waited) {
		one.waited = waited
	}
}

// Sample takes one sample of every backend, now.
func (s *Sampler) Sample(ctx context.Context) {
	views := s.backends.Backends(ctx)
	at := s.slot()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range views {
		one := s.series[v.Name]
		if one == nil {
			if len(s.series) >= maxSeries {
				continue
			}
			one = newSeries(at)
			s.series[v.Name] = one
		}
		one.forward(at)
		i := at % slots
		one.wait[i] = one.waited
		one.waited = unknown
		if v.Seats == 0 { // its actor did not answer: what it holds is not known
			continue
		}
		one.inFlight[i], one.queued[i] = float32(v.InFlight), float32(v.QueuedCalls+v.QueuedJobs)
		if oldest := float32(v.OldestWait.Seconds()); v.QueuedCalls+v.QueuedJobs > 0 && !(one.wait[i] >= oldest) {
			one.wait[i] = oldest
		}
	}
	maps.DeleteFunc(s.series, func(_ string, one *series) bool { return at-one.newest >= slots })
}

// Count counts jobs, now.
func (s *Sampler) Count() {
	jobs, err := s.jobs.CountJobs()
	if err != nil {
		s.log.Warn("the jobs could not be counted", slog.String("cause", err.Error()))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = Counts{Jobs: jobs, At: s.now()}
}

// Counts are the jobs as they were counted last.
func (s *Sampler) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

func (s *Sampler) slot() int64 { return s.now().UnixNano() / int64(SlotLength) }

// History is an hour of samples, oldest first; NaN is unknown.
type History struct{ InFlight, Queued, Wait []float32 }

// History gives the last hour of a backend; false: nothing is known of it.
func (s *Sampler) History(backend string) (History, bool) {
	at := s.slot()
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.series[backend]
	if one == nil {
		return History{}, false
	}
	return one.history(at), true
}

func (one *series) history(at int64) History {
	h := History{make([]float32, slots), make([]float32, slots), make([]float32, slots)}
	for n := range slots {
		slot := at - slots + 1 + int64(n)
		if slot > one.newest || slot <= one.newest-slots || slot < 0 {
			h.InFlight[n], h.Queued[n], h.Wait[n] = unknown, unknown, unknown
			continue
		}
		i := slot % slots
		h.InFlight[n], h.Queued[n], h.Wait[n] = one.inFlight[i], one.queued[i], one.wait[i]
	}
	return h
}

// All gives the last hour over all backends: sums, and the longest wait. A
// moment at which some backend is unknown counts those that are known.
func (s *Sampler) All() History {
	at := s.slot()
	s.mu.Lock()
	defer s.mu.Unlock()
	total := newSeries(at).history(at)
	for _, name := range slices.Sorted(maps.Keys(s.series)) {
		h := s.series[name].history(at)
		for n := range slots {
			total.InFlight[n] = sum(total.InFlight[n], h.InFlight[n])
			total.Queued[n] = sum(total.Queued[n], h.Queued[n])
			if !(total.Wait[n] >= h.Wait[n]) && !isUnknown(h.Wait[n]) {
				total.Wait[n] = h.Wait[n]
			}
		}
	}
	return total
}

func isUnknown(v float32) bool { return v != v }

func sum(a, b float32) float32 {
	switch {
	case isUnknown(a):
		return b
	case isUnknown(b):
		return a
	}
	return a + b
}
