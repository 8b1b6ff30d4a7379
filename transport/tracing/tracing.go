// Package tracing records the parts of calls as OpenTelemetry spans and sends
// them to a collector, as OTLP over HTTP.
//
// It owns the recording and the way out; which parts there are and what they
// say is decided where they happen, through [actors.Span]. It refuses nothing
// and delays nobody: spans that are over wait in a bounded queue, and one that
// finds it full, or whose request to the collector fails, is dropped and
// counted. The environment variables of OpenTelemetry are not read: the
// configuration says it all.
//
// Everything is safe for concurrent use. [New] starts one goroutine, which
// [Tracer.Shutdown] ends.
package tracing

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"berth/actors"
	"berth/broker"
)

// Options says where spans go. Endpoint and Logger are required.
type Options struct {
	// Endpoint is the URL of a collector; one without a path gets /v1/traces.
	Endpoint string
	Headers  map[string]string
	// Sample is the share of the traces that begin here, 0 to 1. A caller's
	// trace is recorded when the caller says that it is.
	Sample float64
	// Version is the broker's, RuntimeID names its life.
	Version   string
	RuntimeID string
	Logger    *slog.Logger
}

// Tracer records spans.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	queue    *queue
}

// New starts recording. No connection is made before there is a span to send.
func New(o Options) (*Tracer, error) {
	to, err := newSender(o.Endpoint, o.Headers)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(context.Background(), to) // it connects to nobody
	if err != nil {
		return nil, err
	}
	t := &Tracer{queue: newQueue(exporter, o.Logger)}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Sample))),
		sdktrace.WithSpanProcessor(t.queue),
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "berth"), attribute.String("service.version", o.Version),
			attribute.String("service.instance.id", o.RuntimeID))))
	t.tracer = t.provider.Tracer("berth")
	return t, nil
}

// limits bound a span. The names that backends and callers choose are bounded
// before; this is the last fence.
var limits = sdktrace.SpanLimits{AttributeValueLengthLimit: 256, AttributeCountLimit: 32, EventCountLimit: 0, LinkCountLimit: 1,
	AttributePerEventCountLimit: 0, AttributePerLinkCountLimit: 0}

// Begin begins a trace of its own, or continues the caller's.
func (t *Tracer) Begin(parent broker.TraceContext, name string, at time.Time) actors.Span {
	ctx := context.Background()
	if parent.Known() {
		ctx = w3c.Extract(ctx, propagation.MapCarrier{broker.TraceParentKey: parent.Parent, broker.TraceStateKey: parent.State})
	}
	_, s := t.tracer.Start(ctx, name, trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindServer))
	return &span{tracer: t.tracer, span: s}
}

// Stats is what became of the spans so far.
type Stats struct {
	Exported uint64 // taken by the collector
	Dropped  uint64 // found the queue full, or were left at a shutdown
	Failed   uint64 // in requests that the collector did not take
}

// Stats counts.
func (t *Tracer) Stats() Stats {
	return Stats{Exported: t.queue.exported.Load(), Dropped: t.queue.dropped.Load(), Failed: t.queue.failed.Load()}
}

// Shutdown sends what waits, until ctx ends, and stops recording. What is left
// then is counted as dropped.
func (t *Tracer) Shutdown(ctx context.Context) error {
	// First our own: the provider passes over it when ctx has ended.
	return errors.Join(t.queue.Shutdown(ctx), t.provider.Shutdown(context.WithoutCancel(ctx)))
}

var w3c propagation.TraceContext

// span implements actors.Span.
type span struct {
	tracer trace.Tracer
	span   trace.Span
}

// Trace gives the context below the span.
func (s *span) Trace() broker.TraceContext {
	carrier := propagation.MapCarrier{}
	w3c.Inject(trace.ContextWithSpanContext(context.Background(), s.span.SpanContext()), carrier)
	return broker.ParseTrace(carrier[broker.TraceParentKey], carrier[broker.TraceStateKey])
}

// Child begins a part of this one. One that is not recorded has none: what
// continues it continues the whole.
func (s *span) Child(name string, at time.Time) actors.Span { return s.begin(name, at) }

// Follow begins what outlives this part: below it in the same trace, as its
// backend's spans belong to the caller's, and with a link that says so.
func (s *span) Follow(name string, at time.Time) actors.Span {
	return s.begin(name, at, trace.WithLinks(trace.Link{SpanContext: s.span.SpanContext()}))
}

func (s *span) begin(name string, at time.Time, more ...trace.SpanStartOption) actors.Span {
	if !s.span.IsRecording() && !s.span.SpanContext().IsSampled() {
		return s
	}
	kind := trace.SpanKindInternal
	if name == actors.SpanRun {
		kind = trace.SpanKindClient
	}
	ctx := trace.ContextWithSpanContext(context.Background(), s.span.SpanContext())
	_, child := s.tracer.Start(ctx, name, append(more, trace.WithTimestamp(at), trace.WithSpanKind(kind))...)
	return &span{tracer: s.tracer, span: child}
}

// Set says one thing of the part.
func (s *span) Set(key, value string) { s.span.SetAttributes(attribute.String(key, value)) }

// End ends the part.
func (s *span) End(at time.Time, outcome string) {
	if outcome != "" {
		s.span.SetAttributes(attribute.String(actors.SpanOutcome, outcome))
		if !fine[outcome] {
			s.span.SetStatus(codes.Error, outcome)
		}
	}
	s.span.End(trace.WithTimestamp(at))
}

// fine are the outcomes that are no failure.
var fine = map[string]bool{"ok": true, "job": true, "cancelled": true, string(broker.JobSucceeded): true, string(broker.JobRunning): true}
