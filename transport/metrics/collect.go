package metrics

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"berth/actors"
	"berth/broker"
	"berth/broker/dispatch"
)

// Source is what is read of the actors at a scrape.
type Source interface {
	Backends(ctx context.Context) []actors.BackendView
	SessionCount() int
	BytesInFlight() int64
}

// Journal is what is read of the journal at a scrape. It must be cheap.
type Journal struct {
	FileBytes int64
	Commits   uint64
	Writes    uint64
	Waiting   int
}

// Sources are who is asked at a scrape. Actors is required; what is nil is not
// shown.
type Sources struct {
	Actors  Source
	Journal func() (Journal, error)
	// Unfinished counts the jobs of an unfinished status.
	Unfinished func(broker.JobStatus) (int, error)
	// Missions counts the missions of a status, Captains the captains of a state.
	Missions func(dispatch.MissionStatus) (int, error)
	Captains func(dispatch.CaptainState) (int, error)
	// Spans counts spans by what became of them.
	Spans func() (exported, dropped, failed uint64)
}

// Watch adds the gauges of a running broker.
func (m *Metrics) Watch(s Sources) error { return m.registry.Register(collector{s}) }

// collector asks the sources at a scrape.
type collector struct{ Sources }

// collected are the metrics of the table that a collector shows.
var collected = func() map[string]*prometheus.Desc {
	counted := []string{"berth_build_info", "berth_calls_total", "berth_refusals_total", "berth_queue_wait_seconds", "berth_run_seconds",
		"berth_jobs_accepted_total", "berth_jobs_ended_total", "berth_journal_commit_seconds"}
	out := map[string]*prometheus.Desc{}
	for _, m := range Table {
		if !slices.Contains(counted, m.Name) {
			out[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
		}
	}
	return out
}()

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range collected {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	show := func(name string, v float64, labels ...string) {
		kind := prometheus.GaugeValue
		if entry(name).Type == "counter" {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(collected[name], kind, v, labels...)
	}
	for _, b := range c.Actors.Backends(context.Background()) {
		show("berth_backend_state", 1, b.Name, string(b.State))
		show("berth_backend_in_flight", float64(b.InFlight), b.Name)
		show("berth_backend_seats", float64(b.Seats), b.Name)
		show("berth_backend_queued", float64(b.QueuedCalls), b.Name, "calls")
		show("berth_backend_queued", float64(b.QueuedJobs), b.Name, "jobs")
		show("berth_backend_oldest_wait_seconds", b.OldestWait.Seconds(), b.Name)
		show("berth_backend_shed_total", float64(b.Shed), b.Name)
		show("berth_backend_abandoned_total", float64(b.Abandoned), b.Name)
		show("berth_backend_failed_starts", float64(b.FailedStarts), b.Name)
		show("berth_backend_incarnations_total", float64(b.Incarnations), b.Name)
	}
	show("berth_sessions", float64(c.Actors.SessionCount()))
	show("berth_bytes_in_flight", float64(c.Actors.BytesInFlight()))
	if c.Unfinished != nil {
		for _, status := range []broker.JobStatus{broker.JobAccepted, broker.JobRunning} {
			if n, err := c.Unfinished(status); err == nil { // else it is not known
				show("berth_jobs_unfinished", float64(n), string(status))
			}
		}
	}
	counted(show, "berth_missions", c.Missions, slices.DeleteFunc(dispatch.MissionStatuses(), dispatch.MissionStatus.Final))
	counted(show, "berth_captains", c.Captains, dispatch.CaptainStates())
	if c.Journal != nil {
		if j, err := c.Journal(); err == nil {
			show("berth_journal_commits_total", float64(j.Commits))
			show("berth_journal_writes_total", float64(j.Writes))
			show("berth_journal_waiting", float64(j.Waiting))
			show("berth_journal_file_bytes", float64(j.FileBytes))
		}
	}
	if c.Spans != nil {
		exported, dropped, failed := c.Spans()
		show("berth_trace_spans_total", float64(exported), "exported")
		show("berth_trace_spans_total", float64(dropped), "dropped")
		show("berth_trace_spans_total", float64(failed), "failed")
	}
}

// counted shows how many there are of each state; what cannot be counted is not
// shown.
func counted[S ~string](show func(string, float64, ...string), name string, count func(S) (int, error), states []S) {
	if count == nil {
		return
	}
	for _, s := range states {
		if n, err := count(s); err == nil {
			show(name, float64(n), string(s))
		}
	}
}
