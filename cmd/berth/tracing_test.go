package main

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"berth/cmd/internal/brokerproc"
)

const callersTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// otlpCollector takes what a broker sends it.
type otlpCollector struct {
	*httptest.Server
	mu    sync.Mutex
	raw   []byte // all that came
	spans []*tracepb.Span
}

func newOTLPCollector(t *testing.T) *otlpCollector {
	c := &otlpCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil || r.Header.Get("X-Collector-Key") != "s3cret-collector-key" {
			t.Errorf("not OTLP (%v), or without its header", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw = append(c.raw, body...)
		for _, rs := range data.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// under gives the spans below a span of a name, or below the caller's own.
func (c *otlpCollector) under(parent []byte, name string) []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*tracepb.Span
	for _, s := range c.spans {
		if s.Name == name && string(s.ParentSpanId) == string(parent) {
			out = append(out, s)
		}
	}
	return out
}

func attributesOf(s *tracepb.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes {
		out[a.Key] = a.Value.GetStringValue()
	}
	return out
}

// tracedHouse is a broker over the fixture as a child and over HTTP.
func tracedHouse(t *testing.T, berth map[string]any) (*house, *wire) {
	h := newHouse(t)
	cmd := exec.Command(h.bin.fixture, "http")
	cmd.Env = append(os.Environ(), "BERTH_FIXTURE_SEEN=1")
	fixture, err := brokerproc.Start(t.Context(), cmd)
	must(t, err)
	child := h.fixtureEntry(map[string]any{"long": []string{"greet"}})
	child["env"].(map[string]string)["BERTH_FIXTURE_SEEN"] = "1"
	t.Cleanup(fixture.Kill)
	berth["drain_timeout"] = "0s"
	h.configure(map[string]any{"mcpServers": map[string]any{
		"child": child,
		"old":   map[string]any{"url": "http://" + fixture.Addr() + "/mcp", "berth": map[string]any{"handshake": true}},
		"new":   map[string]any{"url": "http://" + fixture.Addr() + "/mcp"},
	}, "berth": berth})
	must(t, h.start())
	w := newWire(h, "tracing-client")
	_, err = w.request(t.Context(), "tools/list", map[string]any{}) // else the first call looks its name up twice
	must(t, err)
	return h, w
}

// seenBy is what a backend got beside the arguments.
type seenBy struct {
	Meta        map[string]json.RawMessage
	TraceParent []string `json:"traceparent"`
	TraceState  []string `json:"tracestate"`
}

func (w *wire) seen(backend string, meta map[string]any) (got seenBy) {
	w.house.t.Helper()
	params := map[string]any{"name": backend + "__seen", "arguments": map[string]any{"secret_argument": "s3cret-argument-value"}}
	if meta != nil {
		params["_meta"] = meta
	}
	raw, err := w.request(w.house.t.Context(), "tools/call", params)
	must(w.house.t, err)
	var result struct{ Content []struct{ Text string } }
	must(w.house.t, json.Unmarshal(raw, &result))
	must(w.house.t, json.Unmarshal([]byte(result.Content[0].Text), &got))
	return got
}

func TestACollectorSeesTheWholeTreeOfACall(t *testing.T) {
	t.Parallel()
	collector := newOTLPCollector(t)
	h, w := tracedHouse(t, map[string]any{"tracing": map[string]any{"endpoint": collector.URL, "headers": map[string]string{"X-Collector-Key": "s3cret-collector-key"}}})
	for _, backend := range []string{"child", "old", "new"} {
		got := w.seen(backend, map[string]any{"traceparent": callersTrace, "tracestate": "vendor=1", "example.com/own": 1.5})
		var parent string
		must(t, json.Unmarshal(got.Meta["traceparent"], &parent))
		if parent[3:35] != callersTrace[3:35] || parent == callersTrace {
			t.Errorf("%s hears of %s, want a span of ours in the caller's trace", backend, parent)
		}
		if string(got.Meta["tracestate"]) != `"vendor=1"` || string(got.Meta["example.com/own"]) != "1.5" {
			t.Errorf("%s: _meta is %s", backend, got.Meta)
		}
		if backend != "child" && (!slices.Equal(got.TraceParent, []string{parent}) || !slices.Equal(got.TraceState, []string{"vendor=1"})) {
			t.Errorf("%s: the headers say %v %v, the _meta %s", backend, got.TraceParent, got.TraceState, parent)
		}
	}
	job, err := w.request(t.Context(), "tools/call", map[string]any{"name": "child__greet", "arguments": map[string]any{"name": "s3cret-argument-value"},
		"_meta": map[string]any{"traceparent": callersTrace}})
	must(t, err)
	var handle struct {
		StructuredContent struct{ JobId, Status string }
	}
	must(t, json.Unmarshal(job, &handle))
	w.want(handle.StructuredContent.JobId, "Succeeded", "")
	if _, err := w.request(t.Context(), "tools/call", map[string]any{"name": "child__no-such-tool", "arguments": map[string]any{}}); err == nil {
		t.Error("an unknown name was answered")
	}
	must(t, h.broker.Terminate()) // a stop sends what waits
	h.awaitEnd()

	callers, err := hex.DecodeString(callersTrace[36:52])
	must(t, err)
	requests := collector.under(callers, "tools/call")
	if len(requests) != 4 {
		t.Fatalf("%d requests in the caller's trace, want 4", len(requests))
	}
	for _, r := range requests {
		of := attributesOf(r)
		if of["berth.principal"] != "default/operator" || of["berth.session"] == "" || of["berth.call_id"] == "" || of["berth.verb"] == "" {
			t.Errorf("a request says %v", of)
		}
		parts := []string{"policy", "queue", "run", "shape"}
		at := r.SpanId
		if of["berth.outcome"] == "job" {
			jobs := collector.under(r.SpanId, "job")
			if len(jobs) != 1 || len(jobs[0].Links) != 1 || attributesOf(jobs[0])["berth.job_id"] != handle.StructuredContent.JobId || attributesOf(jobs[0])["berth.outcome"] != "Succeeded" {
				t.Fatalf("the job's spans are %v", jobs)
			}
			at, parts = jobs[0].SpanId, []string{"queue", "run"}
		}
		for _, part := range parts {
			spans := collector.under(at, part)
			if len(spans) != 1 {
				t.Errorf("%s: %d spans %s", of["berth.verb"], len(spans), part)
				continue
			}
			if s := spans[0]; s.StartTimeUnixNano < r.StartTimeUnixNano || s.EndTimeUnixNano < s.StartTimeUnixNano {
				t.Errorf("%s: the part %s is not inside its request", of["berth.verb"], part)
			}
		}
	}
	refused := slices.ContainsFunc(collector.spans, func(s *tracepb.Span) bool { return attributesOf(s)["berth.outcome"] == "verb_unknown" })
	if !refused {
		t.Error("no span tells of the refused call")
	}
	for _, secret := range []string{"s3cret", "no-such-tool"} {
		if strings.Contains(string(collector.raw), secret) {
			t.Errorf("what was sent to the collector holds %q", secret)
		}
	}
	if strings.Contains(h.broker.Log(), "s3cret") {
		t.Error("the log holds a secret")
	}
}

// TestWithoutACollectorOnlyWhatTheCallerSaysIsPassedOn: nothing is added for a
// caller in no trace, and a caller's own context comes through as it is.
func TestWithoutACollectorOnlyWhatTheCallerSaysIsPassedOn(t *testing.T) {
	t.Parallel()
	_, w := tracedHouse(t, map[string]any{})
	for _, backend := range []string{"child", "old", "new"} {
		got := w.seen(backend, map[string]any{"example.com/own": 1.5})
		if _, there := got.Meta["traceparent"]; there || len(got.TraceParent) > 0 {
			t.Errorf("%s: a caller in no trace: %+v", backend, got)
		}
		got = w.seen(backend, map[string]any{"traceparent": "malformed\r\nX-Evil: 1", "tracestate": "a=1"})
		if len(got.TraceParent)+len(got.TraceState) > 0 {
			t.Errorf("%s: a malformed context: %+v", backend, got)
		}
		got = w.seen(backend, map[string]any{"traceparent": callersTrace, "tracestate": "vendor=1"})
		if string(got.Meta["traceparent"]) != `"`+callersTrace+`"` || string(got.Meta["tracestate"]) != `"vendor=1"` {
			t.Errorf("%s: the caller's own context came as %s", backend, got.Meta)
		}
		if backend != "child" && !slices.Equal(got.TraceParent, []string{callersTrace}) {
			t.Errorf("%s: the caller's own context came in the headers as %v", backend, got.TraceParent)
		}
	}
}
