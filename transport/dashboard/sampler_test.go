package dashboard_test

import (
	"context"
	"math"
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/transport/dashboard"
)

func known(values []float32) (n int) {
	for _, v := range values {
		if !math.IsNaN(float64(v)) {
			n++
		}
	}
	return n
}

func (r *rig) waited(backend string, wait time.Duration) {
	r.sampler.Observe(&actors.Request{Call: &broker.Call{Backend: backend}}, &actors.Reply{Timing: broker.Timing{Offered: epoch, Started: epoch.Add(wait)}})
}

func TestSamplesThatWereNotTakenAreUnknown(t *testing.T) {
	r := newRig(t)
	r.hour()
	h, ok := r.sampler.History("files")
	if !ok || len(h.InFlight) != 360 {
		t.Fatalf("%d samples, %v", len(h.InFlight), ok)
	}
	if got := known(h.InFlight); got != 360-61 {
		t.Errorf("%d samples are known", got)
	}
	if v := h.InFlight[230]; !math.IsNaN(float64(v)) {
		t.Errorf("the gap has %v", v)
	}
	if all := r.sampler.All(); known(all.InFlight) != 360-61 || all.InFlight[359] != h.InFlight[359] {
		t.Error("the sum over all backends is another")
	}
	r.mu.Lock()
	r.now = r.now.Add(2 * time.Hour)
	r.mu.Unlock()
	if h, _ := r.sampler.History("files"); known(h.InFlight) != 0 {
		t.Error("what is older than an hour is still shown")
	}
}

func TestWaitsAreTheLongestOfASlot(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	r.views[0].QueuedCalls, r.views[0].OldestWait = 0, 0
	r.sampler.Sample(ctx)
	r.waited("files", 2*time.Second)
	r.waited("files", time.Second)
	r.waited("unknown backend", time.Hour)
	r.mu.Lock()
	r.now = r.now.Add(dashboard.SlotLength)
	r.mu.Unlock()
	r.sampler.Sample(ctx)
	h, _ := r.sampler.History("files")
	if got := h.Wait[359]; got != 2 {
		t.Errorf("the wait is %v", got)
	}
	if got := h.Wait[358]; !math.IsNaN(float64(got)) {
		t.Errorf("where no call began the wait is %v", got)
	}
	if _, ok := r.sampler.History("unknown backend"); ok {
		t.Error("a backend that nobody lists has a history")
	}
}

// A backend whose actor did not answer holds an unknown number of calls.
func TestABackendThatDoesNotAnswerIsUnknown(t *testing.T) {
	r := newRig(t)
	r.views = []actors.BackendView{{Name: "files", State: actors.StateStopped}}
	r.sampler.Sample(context.Background())
	if h, ok := r.sampler.History("files"); !ok || known(h.InFlight) != 0 || known(h.Queued) != 0 {
		t.Errorf("known: %d", known(h.InFlight))
	}
}

func TestTheSamplerIsBounded(t *testing.T) {
	r := newRig(t)
	r.views = nil
	for n := range 400 {
		r.views = append(r.views, actors.BackendView{Name: strconv.Itoa(n), Seats: 1})
	}
	r.sampler.Sample(context.Background())
	kept := 0
	for n := range 400 {
		if _, ok := r.sampler.History(strconv.Itoa(n)); ok {
			kept++
		}
	}
	if kept != 256 {
		t.Errorf("%d are kept", kept)
	}
	r.views = r.views[:1]
	r.now = r.now.Add(2 * time.Hour)
	r.sampler.Sample(context.Background())
	if _, ok := r.sampler.History("7"); ok {
		t.Error("a backend that is gone for an hour is kept")
	}
}

func TestTheSamplerRunsUntilItsOwnerEndsIt(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		s := dashboard.NewSampler(r, r, nil, nil)
		ctx, cancel := context.WithCancel(context.Background())
		over := make(chan struct{})
		go func() {
			s.Run(ctx)
			close(over)
		}()
		<-time.After(10*dashboard.SlotLength + time.Second) // the bubble's clock
		synctest.Wait()
		if h, ok := s.History("files"); !ok || known(h.InFlight) != 11 {
			t.Errorf("%d samples", known(h.InFlight))
		}
		if got := s.Counts(); got.Jobs[broker.JobFailed] != 1 || got.At.IsZero() {
			t.Errorf("counts %+v", got)
		}
		cancel()
		<-over
	})
}

// A gap is no line at zero: each run of known moments is a path of its own.
func TestAPlotShowsGapsAsGaps(t *testing.T) {
	r := newRig(t)
	r.hour()
	page := r.login("operator-token").send("GET", "/", nil).Body.String()
	found := regexp.MustCompile(`aria-label="In flight over the last hour: ([^"]*)".*?class="line" d="([^"]*)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatal("there is no plot")
	}
	if found[1] != "at most 6, now 3" {
		t.Errorf("it says %q", found[1])
	}
	if moves := regexp.MustCompile("M").FindAllString(found[2], -1); len(moves) != 2 {
		t.Errorf("%d runs: %s", len(moves), found[2])
	}
}
