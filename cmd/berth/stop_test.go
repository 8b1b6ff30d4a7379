package main

import (
	"context"
	"net/url"
	"testing"

	"berth/transport/rest"
)

// stopHouse is a broker with one seat on one backend.
func stopHouse(t *testing.T, drain string) (*house, *wire) {
	h := newHouse(t)
	h.configure(map[string]any{
		"mcpServers": map[string]any{"st": h.fixtureEntry(map[string]any{"max_in_flight": 1, "long": []string{"work"}})},
		"berth":      map[string]any{"drain_timeout": drain},
	})
	must(t, h.start())
	return h, newWire(h, "stop-client")
}

type called struct {
	reply
	err error
}

// begin makes a call in the background.
func (w *wire) begin(ctx context.Context, tool string, arguments any) <-chan called {
	done := make(chan called, 1)
	go func() {
		r, err := w.call(ctx, tool, arguments, "")
		done <- called{r, err}
	}()
	return done
}

// queued waits until the backend has so many calls running and waiting.
func (h *house) queued(backend string, running, waiting int) {
	h.t.Helper()
	eventually(h.t, "the calls are there", func() bool {
		var list rest.Page[rest.Backend]
		must(h.t, h.api("/api/v1/backends", url.Values{}, &list))
		for _, b := range list.Objects {
			if b.Name == backend {
				return b.InFlight == running && b.QueuedCalls+b.QueuedJobs == waiting
			}
		}
		return false
	})
}

func TestAStopLetsARunningCallEnd(t *testing.T) {
	t.Parallel()
	h, w := stopHouse(t, "30s")
	file := h.dir + "/lines"
	running := w.begin(t.Context(), "st__append", map[string]any{"file": file, "line": "a", "seconds": 1})
	eventually(t, "its effect is there", func() bool { return countLines(file, "a") == 1 })
	must(t, h.broker.Terminate())
	if got := <-running; got.err != nil || got.Text != "appended a" {
		t.Errorf("the running call: %v, %+v", got.err, got.reply)
	}
	must(t, h.broker.AwaitExit())
	h.awaitNobody()
	if n := countLines(file, "a"); n != 1 {
		t.Errorf("its effect happened %d times", n)
	}
}

func TestAStopThatDoesNotWaitTellsTheTruth(t *testing.T) {
	t.Parallel()
	h, w := stopHouse(t, "0s")
	file := h.dir + "/lines"
	job, err := w.call(t.Context(), "st__work", map[string]any{"seconds": 600}, "")
	must(t, err)
	must(t, w.endOf(h, job.JobID)) // makes room, and is a finished job
	running := w.begin(t.Context(), "st__append", map[string]any{"file": file, "line": "a", "seconds": 600})
	h.queued("st", 1, 0)
	eventually(t, "its effect is there", func() bool { return countLines(file, "a") == 1 })
	waiting := w.begin(t.Context(), "st__append", map[string]any{"file": file, "line": "b", "seconds": 600})
	h.queued("st", 1, 1)
	last, err := w.call(t.Context(), "st__work", map[string]any{"seconds": 600}, "")
	must(t, err)
	h.queued("st", 1, 2)

	must(t, h.broker.Terminate())
	if got := <-running; got.err != nil || got.Code != "outcome_unknown" || !got.IsError {
		t.Errorf("the running call: %v, %+v; want outcome_unknown", got.err, got.reply)
	}
	if got := <-waiting; got.err != nil || got.Code != "shutting_down" || !got.IsError {
		t.Errorf("the waiting call: %v, %+v; want shutting_down", got.err, got.reply)
	}
	must(t, h.broker.AwaitExit())
	h.awaitNobody()
	if n := countLines(file, "b"); n != 0 {
		t.Error("the waiting call ran after it was refused")
	}

	must(t, h.start())
	for id, want := range map[string]string{job.JobID: "Failed", last.JobID: "Lost"} {
		if got, err := w.status(t.Context(), id, 0); err != nil || got.Status != want {
			t.Errorf("job %s: %v, %+v; want %s", id, err, got, want)
		}
	}
	if code, out, errOut := h.berth("journal", "check"); code != exitOK {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
}

// endOf cancels a job as an operator does and waits for its end.
func (w *wire) endOf(h *house, job string) error {
	if code, out, errOut := h.berth("jobs", "cancel", job, "--reason", "to make room"); code != exitOK {
		h.t.Errorf("cancel: exit %d, %s%s", code, out, errOut)
	}
	_, err := w.follow(h.t.Context(), job)
	return err
}
