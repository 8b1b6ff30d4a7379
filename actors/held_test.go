package actors

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

// trace records the spans of calls.
type trace struct {
	mu    sync.Mutex
	spans []*recordedSpan
}

type recordedSpan struct {
	in      *trace
	name    string
	outcome string
	ends    int
}

func (tr *trace) begin(name string) Span {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	s := &recordedSpan{in: tr, name: name}
	tr.spans = append(tr.spans, s)
	return s
}

func (s *recordedSpan) Trace() broker.TraceContext           { return broker.TraceContext{} }
func (s *recordedSpan) Child(name string, _ time.Time) Span  { return s.in.begin(name) }
func (s *recordedSpan) Follow(name string, _ time.Time) Span { return s.in.begin(name) }
func (s *recordedSpan) Set(string, string)                   {}
func (s *recordedSpan) End(_ time.Time, outcome string) {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	s.outcome = outcome
	s.ends++
}

// said lists what ended how; each span must have ended once.
func (tr *trace) said(t *testing.T) (out []string) {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, s := range tr.spans {
		if s.ends != 1 {
			t.Errorf("the span %s ended %d times", s.name, s.ends)
		}
		out = append(out, s.name+" "+s.outcome)
	}
	slices.Sort(out)
	return out
}

// A call that a hold or a drain stops, at once or when its turn comes, gives back
// what it took of its credential's share, and its trace says why it did not run.
func TestWhatAnOperatorStopsGivesBackItsShareAndIsTraced(t *testing.T) {
	kinds := map[string]func(*Request){
		"a call": func(*Request) {}, "a job": long, "a job with a key": keyed("k", "d"), "a call that becomes a job": promoted(time.Second),
	}
	stops := map[string]struct {
		waits bool // the call is in the queue when it is stopped
		drain bool
		code  broker.Code
	}{
		"held at once": {code: "held"}, "held when its turn comes": {waits: true, code: "held"}, "drained": {drain: true, code: broker.CodeBackendDraining},
	}
	for stop, tt := range stops {
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			t.Run(kind+", "+stop, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					gate, tr := make(chan struct{}), &trace{}
					var engage func()
					w := start(t, &upstream{call: gated(gate)}, func(o *Options) {
						engage = holdable(o)
						o.Backends[0].Admission.Seats = 1
					})
					shared := func(r *Request) {
						r.Call.Share = &broker.CallShare{Holder: "h", Share: broker.Share{InFlight: 2}}
					}
					first := w.async(context.Background(), shared)
					synctest.Wait()
					if !tt.waits {
						if engage(); tt.drain {
							w.drainBackend(byAnn)
						}
					}
					stopped := w.async(context.Background(), shared, func(r *Request) { r.Held, r.Span = !tt.drain, tr.begin("call") }, kinds[kind])
					elapse(2 * time.Second)
					engage()
					close(gate)
					<-first
					reply := <-stopped
					code, word := broker.Code(""), reply.Outcome()
					if reply.Refusal != nil {
						code = reply.Refusal.Code
					}
					if reply.Job != nil {
						code = w.job(reply.Job.ID).Reason
					}
					isJob := tt.waits && kind != "a call"
					if want := map[bool]string{true: "job", false: string(tt.code)}[isJob]; code != tt.code || word != want {
						t.Errorf("stopped with %q, in a word %q", code, word)
					}
					synctest.Wait()
					w.drainBackend(nil)
					if n := w.BytesInFlight(); n != 0 {
						t.Errorf("%d bytes are in flight", n)
					}
					for range 2 { // its share is free again
						if r := w.do(shared); r.Answer == nil {
							t.Errorf("afterwards: %+v", r)
						}
					}
					both := []<-chan Reply{w.async(context.Background(), shared), w.async(context.Background(), shared)}
					for _, c := range both {
						if r := <-c; r.Answer == nil {
							t.Errorf("two at once afterwards: %+v", r)
						}
					}
					tr.spans[0].End(time.Now(), word) // the transport's own
					want := []string{"call " + word}
					switch {
					case isJob:
						want = append(want, "job "+string(tt.code), "queue "+string(tt.code))
					case tt.waits:
						want = append(want, "queue "+string(tt.code))
					case kind == "a job with a key": // its job actor looks whether there is a first one
						want = append(want, "job not_created")
					}
					if got := tr.said(t); !slices.Equal(got, want) {
						t.Errorf("the trace is %q, wanted %q", got, want)
					}
				})
			})
		}
	}
}
