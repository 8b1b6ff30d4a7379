package tracing

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	queueLength = 4096
	batchLength = 512
	batchWait   = time.Second     // for company, after the first of a batch
	sendLimit   = 5 * time.Second // of one request
	complaint   = time.Minute     // between two log lines about a collector
)

// queue is where spans wait that are over. The SDK's own batch processor is
// not used because it does not tell how many spans it dropped.
type queue struct {
	exporter sdktrace.SpanExporter
	log      *slog.Logger
	spans    chan sdktrace.ReadOnlySpan

	exported atomic.Uint64
	dropped  atomic.Uint64
	failed   atomic.Uint64

	stopOnce sync.Once
	stopping chan struct{}
	done     chan struct{}
	life     context.Context // of every request
	kill     context.CancelFunc

	complained time.Time // owned by the goroutine
}

func newQueue(to sdktrace.SpanExporter, log *slog.Logger) *queue {
	q := &queue{exporter: to, log: log, spans: make(chan sdktrace.ReadOnlySpan, queueLength),
		stopping: make(chan struct{}), done: make(chan struct{})}
	q.life, q.kill = context.WithCancel(context.Background())
	go q.run()
	return q
}

// OnStart implements sdktrace.SpanProcessor.
func (q *queue) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd takes a span, or drops it. It never waits.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	select {
	case <-q.stopping:
		q.dropped.Add(1)
		return
	default:
	}
	select {
	case q.spans <- s:
	default:
		q.dropped.Add(1)
	}
}

// ForceFlush implements sdktrace.SpanProcessor; nobody here asks for it.
func (q *queue) ForceFlush(context.Context) error { return nil }

// Shutdown sends what waits until ctx ends. It is idempotent.
func (q *queue) Shutdown(ctx context.Context) error {
	q.stopOnce.Do(func() { close(q.stopping) })
	defer context.AfterFunc(ctx, q.kill)()
	<-q.done // it ends with ctx
	q.kill()
	return q.exporter.Shutdown(ctx)
}

func (q *queue) run() {
	defer close(q.done)
	for {
		select {
		case s := <-q.spans:
			q.send(q.batch(s))
		case <-q.stopping:
			q.drain()
			return
		}
	}
}

// batch gathers company for a span.
func (q *queue) batch(first sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	batch := []sdktrace.ReadOnlySpan{first}
	wait := time.NewTimer(batchWait)
	defer wait.Stop()
	for len(batch) < batchLength {
		select {
		case s := <-q.spans:
			batch = append(batch, s)
		case <-wait.C:
			return batch
		case <-q.stopping:
			return batch
		}
	}
	return batch
}

// drain sends what is left at a shutdown.
func (q *queue) drain() {
	for {
		var batch []sdktrace.ReadOnlySpan
		for len(batch) < batchLength && len(q.spans) > 0 {
			batch = append(batch, <-q.spans)
		}
		if len(batch) == 0 {
			return
		}
		if q.life.Err() != nil {
			q.dropped.Add(uint64(len(batch)))
			continue
		}
		q.send(batch)
	}
}

func (q *queue) send(batch []sdktrace.ReadOnlySpan) {
	ctx, cancel := context.WithTimeout(q.life, sendLimit)
	defer cancel()
	if err := q.exporter.ExportSpans(ctx, batch); err != nil {
		q.failed.Add(uint64(len(batch)))
		if now := time.Now(); now.Sub(q.complained) >= complaint {
			q.complained = now
			q.log.Warn("spans could not be sent to the collector", slog.Int("spans", len(batch)), slog.Uint64("failed", q.failed.Load()), slog.String("cause", err.Error()))
		}
		return
	}
	q.exported.Add(uint64(len(batch)))
}
