package resmontest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

const sweepBody = `{"query":"q","repositories":["arxiv"],"max_results":5}`

func TestFaultsThatAnswerInPlaceOfTheRoute(t *testing.T) {
	f := Run(t, Options{Data: Small})
	tests := []struct {
		name   string
		fault  Fault
		status int
		holds  string // the body contains it
		header string // of that name is
		value  string
	}{
		{"500", Status(500), 500, "Internal Server Error", "Content-Type", "text/plain; charset=utf-8"},
		{"502", Status(502), 502, "Bad Gateway", "", ""},
		{"503", Status(503), 503, "Service Unavailable", "", ""},
		{"400", Plain(400, "That will not do."), 400, `{"detail":"That will not do."}`, "Retry-After", ""},
		{"409", Plain(409, "Not now: 100%."), 409, `{"detail":"Not now: 100%."}`, "", ""},
		{"429", Plain(429, "Later."), 429, `{"detail":"Later."}`, "Retry-After", "5"},
		{"any body", Body(403, object{"detail": object{"message": "No."}}), 403, `{"detail":{"message":"No."}}`, "", ""},
		{"no route", RouteMissing(), 404, `{"detail":"Not Found"}`, "", ""},
		{"a list with a marker", List422("m7"), 422, `"input":"m7"`, "", ""},
		{"no json", NotJSON(), 200, "resmon is here", "Content-Type", "application/json"},
		{"an array for an object", WrongType(), 200, `[{"status":"ok"}]`, "", ""},
		{"elsewhere", Redirect("http://127.0.0.1:9"), 302, "", "Location", "http://127.0.0.1:9/api/health"},
		{"without a key", WithoutKey("status"), 200, `"version"`, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer f.Clear()
			f.Inject(tt.fault, Scope{Template: "/api/health", Times: 1})
			if got := get(t, f, "/api/routines/1"); got.status != 200 {
				t.Errorf("another route meets it: %d", got.status)
			}
			got := get(t, f, "/api/health")
			if got.status != tt.status || !strings.Contains(got.text(), tt.holds) || (tt.header != "" && got.header.Get(tt.header) != tt.value) {
				t.Errorf("%d %v %s", got.status, got.header, got.body)
			}
			if after := get(t, f, "/api/health"); after.status != 200 || after.object(t)["status"] != "ok" {
				t.Errorf("it is on for a second request: %d %s", after.status, after.body)
			}
		})
	}
	t.Run("an object for an array", func(t *testing.T) {
		defer f.Clear()
		f.Inject(WrongType(), Scope{})
		if got := get(t, f, "/api/routines"); !strings.HasPrefix(got.text(), "{") {
			t.Errorf("%s", got.body)
		}
	})
	t.Run("what must not leave, echoed", func(t *testing.T) {
		defer f.Clear()
		f.Inject(Echo(500), Scope{})
		got := get(t, f, "/api/health")
		for _, secret := range []string{f.Token(), Planted} {
			if !strings.Contains(got.text(), secret) || !strings.Contains(got.header.Get("X-Resmon-Debug"), secret) {
				t.Errorf("%d %v %s", got.status, got.header, got.body)
			}
		}
	})
	t.Run("huge", func(t *testing.T) {
		defer f.Clear()
		f.Inject(Huge(), Scope{})
		got := get(t, f, "/api/health")
		filler := strings.TrimSuffix(strings.TrimPrefix(got.text(), `{"status":"ok","filler":"`), `"}`)
		if got.status != 200 || len(filler) <= 32<<20 || strings.Trim(filler, "x") != "" { // it is JSON, which is slow to see by parsing it
			t.Errorf("%d bytes of %d", len(got.body), got.status)
		}
	})
}

func TestFaultsOfTheConnection(t *testing.T) {
	f := Run(t, Options{Data: Small})
	t.Run("dropped before", func(t *testing.T) {
		defer f.Clear()
		runs := f.Executions()
		f.Inject(DropBefore(), Scope{Method: "POST"})
		_, err := do(f.request(t, "POST", "/api/search/sweep", sweepBody))
		if !errors.Is(err, io.EOF) || f.Executions() != runs {
			t.Errorf("%v, %d runs more", err, f.Executions()-runs)
		}
		if e := newestRequest(f); e.Status != 0 || e.Applied || e.Fault != "drop_before" {
			t.Errorf("recorded as %+v", e)
		}
	})
	t.Run("dropped after the write", func(t *testing.T) {
		for path, body := range map[string]string{"/api/search/sweep": sweepBody, "/api/routines/2/activate": "", "/api/routines/1/run": "", "/api/profiles": `{"kind":"person","display_name":"New"}`,
			"/api/routines": `{"name":"n","schedule_cron":"0 8 * * *","parameters":{}}`} {
			f.Clear()
			f.Inject(DropAfterWrite(), Scope{Times: 1})
			_, err := do(f.request(t, "POST", path, body))
			if e := newestRequest(f); !errors.Is(err, io.EOF) || e.Status != 0 || !e.Applied || e.Fault != "drop_after_write" {
				t.Errorf("%s: %v, recorded as %+v", path, err, e)
			}
		}
		f.Clear()
		if len(f.Running()) != 2 || f.Profiles() != 5 || len(f.Routines()) != 5 || !f.Routines()[1].Active {
			t.Errorf("runs %v, %d profiles, routines %v", f.Running(), f.Profiles(), f.Routines())
		}
	})
	t.Run("cut in the body", func(t *testing.T) {
		defer f.Clear()
		f.Inject(CutBody(), Scope{})
		got, err := do(f.request(t, "GET", "/api/health", ""))
		if err != nil || got.status != 200 || !errors.Is(got.err, io.ErrUnexpectedEOF) || json.Valid(got.body) || len(got.body) == 0 {
			t.Errorf("%d, %v, %v, %s", got.status, err, got.err, got.body)
		}
	})
}

func newestRequest(f *Fake) Request {
	all := f.Requests()
	return all[len(all)-1]
}

func TestSlowWaitsUntilItsTimeOrItsRelease(t *testing.T) {
	f := Run(t, Options{Data: Small})
	answered := func(req func() (reply, error)) <-chan error {
		done := make(chan error, 1)
		go func() {
			got, err := req()
			if err == nil && got.status != 200 {
				err = errors.New(got.text())
			}
			done <- err
		}()
		return done
	}
	t.Run("released", func(t *testing.T) {
		defer f.Clear()
		in := f.Inject(Slow(time.Hour), Scope{})
		req := f.request(t, "GET", "/api/health", "")
		done := answered(func() (reply, error) { return do(req) })
		<-in.Reached()
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		in.Release()
		in.Release()
		if err := <-done; err != nil || in.Hits() != 1 {
			t.Errorf("%v after %d hits", err, in.Hits())
		}
	})
	t.Run("cleared", func(t *testing.T) {
		in := f.Inject(Hold(), Scope{})
		req := f.request(t, "GET", "/api/health", "")
		done := answered(func() (reply, error) { return do(req) })
		<-in.Reached()
		f.Clear()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("its time is over", func(t *testing.T) {
		defer f.Clear()
		f.Inject(Slow(time.Millisecond), Scope{})
		must(t, f, "GET", "/api/health", "")
	})
	t.Run("the caller goes", func(t *testing.T) {
		defer f.Clear()
		runs := f.Executions()
		in := f.Inject(Hold(), Scope{})
		ctx, cancel := context.WithCancel(context.Background())
		req := f.request(t, "POST", "/api/search/sweep", sweepBody).WithContext(ctx)
		done := answered(func() (reply, error) { return do(req) })
		<-in.Reached()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || f.Executions() != runs {
			t.Errorf("%v, %d runs more", err, f.Executions()-runs)
		}
	})
}

func TestScopeSaysWhichRequestsMeetAFault(t *testing.T) {
	f := Run(t, Options{Data: Small})
	statuses := func(paths ...string) (out []int) {
		for _, p := range paths {
			out = append(out, get(t, f, p).status)
		}
		return out
	}
	in := f.Inject(Status(500), Scope{Method: "GET", Template: "/api/settings/ai", Skip: 1, Times: 2})
	got := statuses("/api/settings/ai", "/api/settings/email", "/api/settings/ai", "/api/settings/ai", "/api/settings/ai")
	for i, want := range []int{200, 200, 500, 500, 200} {
		if got[i] != want {
			t.Errorf("statuses %v", got)
			break
		}
	}
	if in.Hits() != 2 {
		t.Errorf("%d hits, want 2", in.Hits())
	}
	again := f.Inject(Status(502), Scope{})
	again.Off()
	if got := get(t, f, "/api/health"); got.status != 200 {
		t.Errorf("a fault that is off answers %d", got.status)
	}
	f.Inject(QueueFull(), Scope{})
	if got := get(t, f, "/api/health"); got.status != 200 {
		t.Errorf("a fault of one route is met elsewhere: %d", got.status)
	}
}

func TestFaultsOfARun(t *testing.T) {
	f := Run(t, Options{Data: Small})
	const run = "/api/routines/1/run"
	tests := []struct {
		name            string
		fault           Fault
		status          int
		conflict, id    string
		has, hasNot     string
		headersExpected bool
	}{
		{"running", RunConflict(77), 409, "routine_already_running", "77", "77", "execution_id", true},
		{"running, with no id", RunConflict(-1), 409, "routine_already_running", "", "already running", "execution_id", true},
		{"queue full", QueueFull(), 409, "", "", "queue", "execution_id", false},
		{"queued", Queued(2, ""), 202, "", "", `"execution_id":null`, "request_id", false},
		{"queued with an id", Queued(1, "req-9"), 202, "", "", `"request_id":"req-9"`, "conflict", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer f.Clear()
			f.Inject(tt.fault, Scope{})
			got := ask(t, f, "POST", run, "")
			_, there := got.header["X-Resmon-Conflict"]
			if got.status != tt.status || got.header.Get("X-Resmon-Conflict") != tt.conflict || got.header.Get("X-Resmon-Execution-Id") != tt.id || there != tt.headersExpected {
				t.Errorf("%d %v", got.status, got.header)
			}
			if !bytes.Contains(got.body, []byte(tt.has)) || bytes.Contains(got.body, []byte(tt.hasNot)) {
				t.Errorf("%s", got.body)
			}
		})
	}
}

func TestDeclinedSemanticSaysSo(t *testing.T) {
	f := Run(t, Options{Data: Small})
	f.Inject(DeclineSemantic("No model."), Scope{})
	o := must(t, f, "POST", "/api/explorer/search", `{"query":"study","sort":"similarity"}`).object(t)
	if o["sort"] != "newest" || o["similarity_unavailable"] != "No model." || o["model"] != nil || o["ranked_count"] != nil {
		t.Errorf("%v", o)
	}
	if o := must(t, f, "POST", "/api/explorer/search", `{"query":"study","sort":"newest"}`).object(t); o["similarity_unavailable"] != nil {
		t.Errorf("nobody asked for a ranking: %v", o)
	}
}

func TestEmptySimilarGivesTheReasonOrNone(t *testing.T) {
	f := Run(t, Options{Data: Small})
	for reason, want := range map[string]any{"The extension cannot be loaded.": "The extension cannot be loaded.", "": nil} {
		in := f.Inject(EmptySimilar(reason), Scope{})
		o := must(t, f, "GET", "/api/documents/1/similar", "").object(t)
		if rows, is := o["neighbours"].([]any); !is || len(rows) != 0 || o["reason"] != want {
			t.Errorf("%q: %v", reason, o)
		}
		in.Off()
	}
}
