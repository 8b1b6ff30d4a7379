package metrics

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"berth/actors"
	"berth/broker"
	"berth/broker/dispatch"
)

type fakeSource struct{ backends []actors.BackendView }

func (f fakeSource) Backends(context.Context) []actors.BackendView { return f.backends }
func (fakeSource) SessionCount() int                               { return 3 }
func (fakeSource) BytesInFlight() int64                            { return 1 << 20 }

// full is a registry in which every metric of the table has a value.
func full(t *testing.T) *Metrics {
	t.Helper()
	m := New("1.2.3")
	at := time.Unix(1_700_000_000, 0)
	m.Observe(&actors.Request{Call: &broker.Call{Backend: "files", Verb: "files__read", Session: "s3cret-session", Principal: broker.LocalOperator}},
		&actors.Reply{Answer: &broker.Answer{Result: []byte(`{"content":[]}`)}, Timing: broker.Timing{Offered: at, Started: at.Add(time.Second), Ended: at.Add(3 * time.Second)}})
	m.Refused(broker.CodeOverloaded)
	m.JobAccepted()
	m.JobsEnded(2, broker.JobLost, broker.CodeJobLostOnRestart)
	if err := m.Commit(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	err := m.Watch(Sources{
		Actors:     fakeSource{[]actors.BackendView{{Name: "files", State: actors.StateReady, Seats: 4, InFlight: 1, QueuedCalls: 2, QueuedJobs: 5, OldestWait: time.Second, Shed: 6, Abandoned: 7, Incarnations: 8}}},
		Journal:    func() (Journal, error) { return Journal{FileBytes: 9, Commits: 10, Writes: 11, Waiting: 12}, nil },
		Unfinished: func(broker.JobStatus) (int, error) { return 13, nil },
		Spans:      func() (uint64, uint64, uint64) { return 14, 15, 16 },
		Missions:   func(s dispatch.MissionStatus) (int, error) { return len(s), nil },
		Captains:   func(s dispatch.CaptainState) (int, error) { return len(s), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// families gathers what a scrape shows, by name.
func families(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	list, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range list {
		out[f.GetName()] = f
	}
	return out
}

// TestTheTableIsWhatAScrapeShows: the page is made of the table, so the page
// and the registry agree.
func TestTheTableIsWhatAScrapeShows(t *testing.T) {
	shown := families(t, full(t))
	for _, want := range Table {
		got, ok := shown[want.Name]
		if !ok {
			t.Errorf("%s is documented and not shown", want.Name)
			continue
		}
		var labels []string
		for _, l := range got.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		wanted := slices.Clone(want.Labels)
		slices.Sort(wanted)
		if !slices.Equal(labels, wanted) || strings.ToLower(got.GetType().String()) != want.Type || got.GetHelp() != want.Help {
			t.Errorf("%s: a scrape says %s %v %q", want.Name, got.GetType(), labels, got.GetHelp())
		}
		delete(shown, want.Name)
	}
	for name := range maps.Keys(shown) {
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is shown and not documented", name)
		}
	}
}

func TestAScrapeShowsWhatItsSourcesSay(t *testing.T) {
	m := full(t)
	m.Observe(&actors.Request{Call: &broker.Call{Backend: "files"}}, &actors.Reply{Refusal: broker.Refuse("made_up_by_a_backend", "x", nil)})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`berth_build_info{version="1.2.3"} 1`,
		`berth_calls_total{backend="files",outcome="ok"} 1`,
		`berth_calls_total{backend="files",outcome="other"} 1`,
		`berth_refusals_total{code="other"} 1`,
		`berth_refusals_total{code="overloaded"} 1`,
		`berth_queue_wait_seconds_sum{backend="files"} 1`,
		`berth_run_seconds_sum{backend="files"} 2`,
		`berth_backend_queued{backend="files",lane="jobs"} 5`,
		`berth_backend_state{backend="files",state="ready"} 1`,
		`berth_jobs_unfinished{status="Running"} 13`, `berth_missions{status="LandingFailed"} 13`, `berth_captains{state="Idle"} 4`,
		`berth_jobs_ended_total{reason="job_lost_on_restart",status="Lost"} 2`,
		`berth_journal_commit_seconds_count 1`,
		`berth_journal_waiting 12`,
		`berth_trace_spans_total{result="dropped"} 15`,
	} {
		if !strings.Contains(string(body), want+"\n") {
			t.Errorf("the scrape lacks %s", want)
		}
	}
	for _, never := range []string{"s3cret", "files__read", "operator", "made_up"} {
		if strings.Contains(string(body), never) {
			t.Errorf("the scrape holds %q", never)
		}
	}
}

func TestWhatIsNotKnownIsNotShown(t *testing.T) {
	m := New("1")
	err := m.Watch(Sources{Actors: fakeSource{}, Journal: func() (Journal, error) { return Journal{}, errors.New("closed") },
		Unfinished: func(broker.JobStatus) (int, error) { return 0, errors.New("closed") }})
	if err != nil {
		t.Fatal(err)
	}
	shown := families(t, m)
	for _, name := range []string{"berth_jobs_unfinished", "berth_journal_file_bytes", "berth_trace_spans_total"} {
		if _, ok := shown[name]; ok {
			t.Errorf("%s is shown", name)
		}
	}
}
