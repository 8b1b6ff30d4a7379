// Package metrics shows the broker to Prometheus.
//
// It owns the names of the metrics: they stand in [Table], of which
// docs/metrics.md is made. Gauges are read from their owners when they are
// scraped; what ends is counted as it ends. Labels hold backend names, states
// and codes, never a principal, an argument, a session or a verb: the number of
// series is bounded by the configuration, not by who calls.
// Everything is safe for concurrent use.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"berth/actors"
	"berth/broker"
)

// Metrics counts what ends.
type Metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	refusals *prometheus.CounterVec
	waits    *prometheus.HistogramVec
	runs     *prometheus.HistogramVec
	accepted prometheus.Counter
	ended    *prometheus.CounterVec
	commits  prometheus.Histogram
}

// buckets reach from a fast local call to one that outlasts every client, in seconds.
var buckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}

// commitBuckets reach from a disk that keeps its cache to one that is in
// trouble, in seconds.
var commitBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}

// New makes the counters. version is the broker's.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		calls:    counters("berth_calls_total"),
		refusals: counters("berth_refusals_total"),
		waits:    histograms("berth_queue_wait_seconds"),
		runs:     histograms("berth_run_seconds"),
		ended:    counters("berth_jobs_ended_total"),
	}
	m.accepted = prometheus.NewCounter(prometheus.CounterOpts{Name: "berth_jobs_accepted_total", Help: entry("berth_jobs_accepted_total").Help})
	m.commits = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "berth_journal_commit_seconds", Help: entry("berth_journal_commit_seconds").Help, Buckets: commitBuckets})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "berth_build_info", Help: entry("berth_build_info").Help}, entry("berth_build_info").Labels)
	build.WithLabelValues(version).Set(1)
	m.registry.MustRegister(m.calls, m.refusals, m.waits, m.runs, m.accepted, m.ended, m.commits, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func counters(name string) *prometheus.CounterVec {
	e := entry(name)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: e.Name, Help: e.Help}, e.Labels)
}

func histograms(name string) *prometheus.HistogramVec {
	e := entry(name)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: e.Name, Help: e.Help, Buckets: buckets}, e.Labels)
}

// Observe counts one call that ended.
func (m *Metrics) Observe(req *actors.Request, reply *actors.Reply) {
	backend := req.Call.Backend
	if reply.Refusal != nil {
		m.Refused(reply.Refusal.Code)
		m.calls.WithLabelValues(backend, known(reply.Refusal.Code)).Inc()
	} else {
		m.calls.WithLabelValues(backend, reply.Outcome()).Inc()
	}
	if t := reply.Timing; !t.Started.IsZero() {
		m.waits.WithLabelValues(backend).Observe(t.Started.Sub(t.Offered).Seconds())
		if !t.Ended.IsZero() {
			m.runs.WithLabelValues(backend).Observe(t.Ended.Sub(t.Started).Seconds())
		}
	}
}

// Refused counts a refusal of what was not handed to the broker.
func (m *Metrics) Refused(code broker.Code) { m.refusals.WithLabelValues(known(code)).Inc() }

var codes = func() map[broker.Code]bool {
	out := map[broker.Code]bool{}
	for _, c := range broker.Codes() {
		out[c] = true
	}
	return out
}()

// known keeps codes that are none of the broker's, such as those of another
// broker behind it, from making series.
func known(code broker.Code) string {
	if codes[code] || code == "" {
		return string(code)
	}
	return "other"
}

// JobAccepted counts a job that is in the journal.
func (m *Metrics) JobAccepted() { m.accepted.Inc() }

// JobsEnded counts jobs whose end is in the journal.
func (m *Metrics) JobsEnded(n int, status broker.JobStatus, reason broker.Code) {
	m.ended.WithLabelValues(string(status), known(reason)).Add(float64(n))
}

// Commit times one commit of the journal.
func (m *Metrics) Commit(commit func() error) error {
	began := time.Now()
	err := commit()
	m.commits.Observe(time.Since(began).Seconds())
	return err
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
