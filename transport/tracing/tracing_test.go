package tracing

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"berth/actors"
	"berth/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector is one that takes OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []*tracepb.Span
	headers http.Header
	path    string
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Errorf("not OTLP: %v", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.headers, c.path = r.Header.Clone(), r.URL.Path
		for _, rs := range data.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func newTracer(t *testing.T, o Options) *Tracer {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	tracer, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func shutdown(t *testing.T, tracer *Tracer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := tracer.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

const callers = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestAShutdownSendsWhatWaits(t *testing.T) {
	c := newCollector(t)
	tracer := newTracer(t, Options{Endpoint: c.URL, Headers: map[string]string{"X-Key": "secret"}, Sample: 1})
	at := time.Unix(1_700_000_000, 0)
	root := tracer.Begin(broker.ParseTrace(callers, "v=1"), "tools/call", at)
	run := root.Child(actors.SpanRun, at.Add(time.Second))
	run.Set(actors.SpanBackend, "files")
	below := run.Trace()
	run.End(at.Add(2*time.Second), "ok")
	job := root.Follow("job", at)
	root.End(at.Add(3*time.Second), "job")
	job.End(at.Add(4*time.Second), string(broker.CodeReapedAsStale))
	shutdown(t, tracer)

	if len(c.spans) != 3 || c.path != "/v1/traces" || c.headers.Get("X-Key") != "secret" {
		t.Fatalf("%d spans at %s with %v", len(c.spans), c.path, c.headers)
	}
	byName := map[string]*tracepb.Span{}
	for _, s := range c.spans {
		byName[s.Name] = s
		if got := hexOf(s.TraceId); got != callers[3:35] {
			t.Errorf("%s is in trace %s", s.Name, got)
		}
	}
	rootSpan := byName["tools/call"]
	if hexOf(rootSpan.ParentSpanId) != callers[36:52] || rootSpan.TraceState != "v=1" || rootSpan.Kind != tracepb.Span_SPAN_KIND_SERVER {
		t.Errorf("the root is %v", rootSpan)
	}
	if s := byName["run"]; string(s.ParentSpanId) != string(rootSpan.SpanId) || s.Kind != tracepb.Span_SPAN_KIND_CLIENT || hexOf(s.SpanId) != below.Parent[36:52] || below.State != "v=1" {
		t.Errorf("the run is %v, and its backend hears %+v", s, below)
	}
	if s := byName["job"]; len(s.Links) != 1 || string(s.Links[0].SpanId) != string(rootSpan.SpanId) || s.Status.Code != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("the job is %v", s)
	}
	if got := tracer.Stats(); got != (Stats{Exported: 3}) {
		t.Errorf("%+v", got)
	}
}

func hexOf(id []byte) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, c := range id {
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

func TestWhatIsNotSampledIsPassedOnAndNotRecorded(t *testing.T) {
	c := newCollector(t)
	tracer := newTracer(t, Options{Endpoint: c.URL, Sample: 0})
	now := time.Now()
	unsampled := strings.TrimSuffix(callers, "1") + "0"
	for _, parent := range []string{"", unsampled} {
		root := tracer.Begin(broker.ParseTrace(parent, ""), "tools/call", now)
		run := root.Child(actors.SpanRun, now)
		if got := run.Trace(); !got.Known() || !strings.HasSuffix(got.Parent, "-00") || parent != "" && got.TraceID() != unsampled[3:35] {
			t.Errorf("of %q a backend hears %+v", parent, got)
		}
		run.End(now, "ok")
		root.End(now, "ok")
	}
	sampled := tracer.Begin(broker.ParseTrace(callers, ""), "tools/call", now)
	sampled.End(now, "ok")
	shutdown(t, tracer)
	if len(c.spans) != 1 {
		t.Errorf("%d spans, want only that of the caller who records", len(c.spans))
	}
}

// TestACollectorThatHangsDelaysNobody fills the queue while no request is
// answered: every span after that is dropped at once, and a shutdown ends with
// its context.
func TestACollectorThatHangsDelaysNobody(t *testing.T) {
	asked, release := make(chan struct{}, 1), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-release
	}))
	defer srv.Close()
	defer close(release)
	tracer := newTracer(t, Options{Endpoint: srv.URL, Sample: 1})
	now := time.Now()
	const spans = queueLength + 2*batchLength
	for range spans {
		tracer.Begin(broker.TraceContext{}, "x", now).End(now, "")
	}
	<-asked
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = tracer.Shutdown(ended) // it says that it was cut short, or not
	tracer.Begin(broker.TraceContext{}, "late", now).End(now, "")
	got := tracer.Stats()
	if got.Exported != 0 || got.Dropped == 0 || got.Dropped+got.Failed < spans {
		t.Errorf("%+v of %d", got, spans)
	}
}

func TestACollectorThatRefusesIsCountedAndNotShown(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/secret-path" {
			t.Error("a redirect was followed")
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	var log strings.Builder
	tracer, err := New(Options{Endpoint: srv.URL + "/secret-path", Sample: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	tracer.Begin(broker.TraceContext{}, "x", now).End(now, "")
	shutdown(t, tracer)
	if got := tracer.Stats(); got != (Stats{Failed: 1}) || strings.Contains(log.String(), "secret") || !strings.Contains(log.String(), "HTTP 307") {
		t.Errorf("%+v, log %s", got, log.String())
	}
	gone := newTracer(t, Options{Endpoint: "http://127.0.0.1:1/secret-path", Sample: 1})
	gone.Begin(broker.TraceContext{}, "x", now).End(now, "")
	shutdown(t, gone)
	if got := gone.Stats(); got != (Stats{Failed: 1}) {
		t.Errorf("%+v", got)
	}
}

func BenchmarkASpanThatIsRecorded(b *testing.B) {
	q := mustNew(b)
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		root := q.Begin(broker.TraceContext{}, "tools/call", now)
		root.Child(actors.SpanRun, now).End(now, "ok")
		root.End(now, "ok")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = q.Shutdown(ended)
}

func mustNew(b *testing.B) *Tracer {
	t, err := New(Options{Endpoint: "http://127.0.0.1:1", Sample: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	return t
}
