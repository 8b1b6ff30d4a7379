package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/actors"
	"berth/cmd/internal/brokerproc"
	"berth/journal"
	"berth/transport/rest"
)

// A Berth behind a Berth: the outer one has the inner one as an HTTP backend,
// with its token in a header.
type federation struct {
	t            *testing.T
	inner, outer *house
	wire         *wire // to the outer one
}

func newFederation(t *testing.T) *federation {
	f := &federation{t: t, inner: newHouse(t), outer: newHouse(t)}
	f.inner.configure(map[string]any{
		"mcpServers": map[string]any{"st": f.inner.fixtureEntry(map[string]any{"long": []string{"work"}})},
		"berth":      map[string]any{"drain_timeout": "0s"},
	})
	must(t, f.inner.start())
	f.inner.listen = f.inner.broker.Addr() // and there it comes back
	token, err := os.ReadFile(filepath.Join(f.inner.state, "api-token"))
	must(t, err)
	f.outer.env = []string{"INNER_TOKEN=" + strings.TrimSpace(string(token))}
	f.outer.configure(map[string]any{
		"mcpServers": map[string]any{"inner": map[string]any{"url": "http://" + f.inner.listen + "/mcp/full",
			"headers": map[string]string{"Authorization": "Bearer ${INNER_TOKEN}"},
			"berth":   map[string]any{"long": []string{"st__work"}}}},
		"berth": map[string]any{"drain_timeout": "0s"},
	})
	must(t, f.outer.start())
	f.wire = newWire(f.outer, "federated-client")
	// The inner one's catalog is kept first, so that later writes are the job's.
	if got, err := f.wire.call(t.Context(), "inner__st__add", map[string]any{"a": 1, "b": 2}, ""); err != nil || got.Text != "3" {
		t.Fatalf("a plain call through both: %v, %+v", err, got)
	}
	eventually(t, "the catalog is kept", func() bool { return f.writes() > 0 })
	return f
}

// submit submits a long job through both and waits until the outer one tracks
// it and the handle is durable: the record, its start and the handle are three
// writes.
func (f *federation) submit(seconds float64) string {
	f.t.Helper()
	before := f.writes()
	job, err := f.wire.call(f.t.Context(), "inner__st__work", map[string]any{"seconds": seconds}, "")
	must(f.t, err)
	if job.JobID == "" {
		f.t.Fatalf("no job: %s", job.Text)
	}
	eventually(f.t, "the outer broker tracks the job", func() bool {
		return strings.Contains(f.outer.broker.Log(), "job is tracked in its backend") && f.writes() >= before+3
	})
	return job.JobID
}

// writes is how often the outer broker's journal was written.
func (f *federation) writes() uint64 {
	var stats journal.Stats
	must(f.t, f.outer.api("/api/v1/journal/stats", nil, &stats))
	return stats.Writes
}

// innerState is the state of the inner broker, as the outer one has it.
func (f *federation) innerState() actors.BackendState {
	var list rest.Page[rest.Backend]
	must(f.t, f.outer.api("/api/v1/backends", nil, &list))
	for _, b := range list.Objects {
		if b.Name == "inner" {
			return b.State
		}
	}
	f.t.Fatal("the inner broker is no backend")
	return ""
}

func TestALongJobIsFollowedThroughTwoBrokers(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	names, err := f.wire.request(t.Context(), "tools/list", map[string]any{})
	must(t, err)
	if !strings.Contains(string(names), `"inner__st__work"`) || !strings.Contains(string(names), `"inner__job_status"`) {
		t.Errorf("the outer broker lists %.500s", names)
	}
	got := f.wire.want(f.submit(1.5), "Succeeded", "")
	if !strings.Contains(string(got.Result), "waited 1.5 s") {
		t.Errorf("the result is %s", got.Result)
	}
}

func TestARestartOfTheOuterBrokerGoesOnFollowing(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	job := f.submit(6)
	f.outer.broker.Kill()
	f.outer.awaitNobody()
	must(t, f.outer.start())
	var list rest.JobPage
	must(t, f.outer.api("/api/v1/jobs", nil, &list))
	if len(list.Objects) != 1 || !strings.Contains(string(list.Objects[0]), `"Status":"Running"`) {
		t.Errorf("right after the restart the list is %s, want one job, Running", list.Objects)
	}
	got := f.wire.want(job, "Succeeded", "")
	if !strings.Contains(string(got.Result), "waited 6 s") {
		t.Errorf("the result is %s", got.Result)
	}
	if code, out, errOut := f.outer.berth("journal", "check"); code != exitOK {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
}

func TestARestartOfTheInnerBrokerLosesTheJob(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	job := f.submit(600)
	f.inner.broker.Kill()
	must(t, f.inner.start())
	f.wire.want(job, "Lost", "job_lost_on_restart") // the inner one's own word
	if got, err := f.wire.call(t.Context(), "inner__st__add", map[string]any{"a": 1, "b": 2}, ""); err != nil || got.Text != "3" {
		t.Errorf("a call after the inner restart: %v, %+v", err, got)
	}
}

func TestARestartOfBothLosesTheJob(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	job := f.submit(600)
	f.outer.broker.Kill()
	f.inner.broker.Kill()
	must(t, f.inner.start())
	must(t, f.outer.start())
	f.wire.want(job, "Lost", "job_lost_on_restart") // the inner one kept the record, and says so
	if code, out, errOut := f.outer.berth("journal", "check"); code != exitOK {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
}

func TestAnInnerBrokerThatIsGoneIsNotTheEndOfItsWork(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	job := f.submit(600)
	f.inner.broker.Kill()
	// Until the outer one has read the end of its connection a call may be
	// written on it, and of that nobody can say what became.
	eventually(t, "the outer broker sees that the inner one is gone", func() bool { return f.innerState() != actors.StateReady })
	got, err := f.wire.call(t.Context(), "inner__st__add", map[string]any{"a": 1, "b": 2}, "")
	if err != nil || got.Code != "backend_unavailable" {
		t.Errorf("a call to the dead inner broker: %v, %+v", err, got)
	}
	if got, err := f.wire.status(t.Context(), job, 0); err != nil || got.Status != "Running" {
		t.Errorf("the job while nothing is known of its work: %v, %+v", err, got)
	}
	if err := f.outer.broker.Stop(); err != nil {
		t.Error(err)
	}
	if err := f.outer.witness.AwaitNobody(brokerproc.Patience); err != nil {
		t.Error(err)
	}
}
