// Package metrics shows the broker to Prometheus.
//
// It owns the names of the metrics. Gauges are read from the actors when they
// are scraped; calls are counted as they end. Labels hold backend names,
// states and outcome codes, never a principal, an argument or a session.
// Everything is safe for concurrent use.
package metrics

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"berth/actors"
)

// Source is what is read at a scrape.
type Source interface {
	Backends(ctx context.Context) []actors.BackendView
	SessionCount() int
	BytesInFlight() int64
}

// Metrics counts calls and shows gauges.
type Metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	waits    *prometheus.HistogramVec
	runs     *prometheus.HistogramVec
}

// buckets reach from a fast local call to one that outlasts every client, in seconds.
var buckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}

// New makes the counters.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "berth_calls_total",
			Help: "Calls that ended, by backend and outcome: ok, tool_error, rpc_error, job, cancelled or the refusal's code."}, []string{"backend", "outcome"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "berth_queue_wait_seconds",
			Help: "Time between the offer of a call and its start.", Buckets: buckets}, []string{"backend"}),
		runs: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "berth_run_seconds",
			Help: "Time between the start of a call and its answer.", Buckets: buckets}, []string{"backend"}),
	}
	m.registry.MustRegister(m.calls, m.waits, m.runs, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Observe counts one call that ended.
func (m *Metrics) Observe(req *actors.Request, reply *actors.Reply) {
	backend := req.Call.Backend
	m.calls.WithLabelValues(backend, reply.Outcome()).Inc()
	if t := reply.Timing; !t.Started.IsZero() {
		m.waits.WithLabelValues(backend).Observe(t.Started.Sub(t.Offered).Seconds())
		if !t.Ended.IsZero() {
			m.runs.WithLabelValues(backend).Observe(t.Ended.Sub(t.Started).Seconds())
		}
	}
}

// Watch adds the gauges of a running broker.
func (m *Metrics) Watch(s Source) error { return m.registry.Register(collector{s}) }

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// collector reads the actors at a scrape.
type collector struct{ source Source }

var (
	descState    = desc("berth_backend_state", "1 for the state a backend is in.", "backend", "state")
	descInFlight = desc("berth_backend_in_flight", "Calls and jobs that hold a seat.", "backend")
	descSeats    = desc("berth_backend_seats", "Seats of a backend.", "backend")
	descQueued   = desc("berth_backend_queued", "Calls and jobs that wait for a seat.", "backend", "lane")
	descOldest   = desc("berth_backend_oldest_wait_seconds", "How long the longest waiting call has waited.", "backend")
	descShed     = desc("berth_backend_shed_total", "Calls refused because a lane was full.", "backend")
	descAbandon  = desc("berth_backend_abandoned_total", "Cancelled calls that were not answered within the grace.", "backend")
	descLives    = desc("berth_backend_incarnations_total", "Incarnations since the broker started.", "backend")
	descSessions = desc("berth_sessions", "Sessions that have an actor.")
	descBytes    = desc("berth_bytes_in_flight", "Bytes of arguments of the calls that wait or run.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descState, descInFlight, descSeats, descQueued, descOldest, descShed, descAbandon, descLives, descSessions, descBytes} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for _, b := range c.source.Backends(context.Background()) {
		gauge(descState, 1, b.Name, string(b.State))
		gauge(descInFlight, float64(b.InFlight), b.Name)
		gauge(descSeats, float64(b.Seats), b.Name)
		gauge(descQueued, float64(b.QueuedCalls), b.Name, "calls")
		gauge(descQueued, float64(b.QueuedJobs), b.Name, "jobs")
		gauge(descOldest, b.OldestWait.Seconds(), b.Name)
		count(descShed, b.Shed, b.Name)
		count(descAbandon, b.Abandoned, b.Name)
		count(descLives, uint64(b.Incarnations), b.Name)
	}
	gauge(descSessions, float64(c.source.SessionCount()))
	gauge(descBytes, float64(c.source.BytesInFlight()))
}
