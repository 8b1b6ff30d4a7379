package mcpserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/shape"
)

// surfaceSource is a local app with a form of its own for what it refuses.
func surfaceSource(name string) catalog.Source {
	return catalog.Source{Backend: name, Listed: true, Server: broker.ServerInfo{Info: json.RawMessage(`{"name":"app","version":"1.0"}`), Capabilities: json.RawMessage(`{"tools":{}}`)},
		Tools:   []broker.Tool{tool("echo", `"requires_confirmation":false,`), tool("run", `"requires_confirmation":true,`), tool("shed", ""), tool("job", ""), tool("panic", ""), tool("empty", "")},
		Effects: map[string]broker.Effects{"echo": broker.Read, "run": broker.Exec, "shed": broker.Read, "job": broker.Read, "panic": broker.Read, "empty": broker.Read},
		Surface: &catalog.Surface{Name: "app", Held: []string{"run"}, Refuse: func(verb string, r *broker.Refusal) json.RawMessage {
			out, _ := json.Marshal(map[string]any{"no": r.Code, "of": verb})
			return out
		}}}
}

// fakeBindings knows one app, which only reads where its variable says so.
type fakeBindings struct {
	snapshot *catalog.Snapshot
	ended    []string
}

func (f *fakeBindings) BoundCatalog(surface string) (*catalog.Snapshot, bool) {
	return f.snapshot, surface == "app"
}

func (f *fakeBindings) CheckBinding(b *actors.Binding) (bool, *broker.Refusal) {
	if b.Surface != "app" {
		return false, broker.Refuse(broker.CodeInvalidArguments, "There is no such app.", nil)
	}
	return b.Env["RO"] == "1", nil
}

func (f *fakeBindings) EndBinding(_ broker.Principal, b *actors.Binding) {
	f.ended = append(f.ended, b.Key)
}

// ask is one request of a client in either era, over any address.
func ask(t *testing.T, f *front, path, remote string, stateless bool, header http.Header, method, params string) (status int, body string) {
	t.Helper()
	if stateless {
		params = strings.TrimSuffix(params, "}")
		if params != "{" {
			params += ","
		}
		params += `"_meta":{"` + metaVersion + `":"2026-07-28","` + metaCapabilities + `":{}}}`
	}
	req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:7420"+path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	req.RemoteAddr = remote
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if stateless {
		req.Header.Set(headerVersion, "2026-07-28")
		req.Header.Set(headerMethod, method)
		req.Header.Set(headerBridged, "1")
		var p struct{ Name string }
		if _ = json.Unmarshal([]byte(params), &p); p.Name != "" {
			req.Header.Set(headerName, encodeHeader(p.Name))
		}
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

func TestASurfaceWritesEveryRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t, surfaceSource("app")), nil)
		defer f.stop()
		for _, tt := range []struct{ name, path, params, want string }{
			{"an unknown name", "/mcp/app", `{"name":"nothing"}`, `{"no":"verb_unknown","of":"nothing"}`},
			{"a name of the broker's", "/mcp/app", `{"name":"job_status"}`, `{"no":"verb_unknown","of":"job_status"}`},
			{"arguments that are none", "/mcp/app", `{"name":"echo","arguments":"x"}`, `{"no":"invalid_arguments","of":"echo"}`},
			{"an unknown name with them", "/mcp/app", `{"name":"nothing","arguments":7}`, `{"no":"verb_unknown","of":"nothing"}`},
			{"too much at once", "/mcp/app", `{"name":"shed"}`, `{"no":"overloaded","of":"shed"}`},
			{"no answer", "/mcp/app", `{"name":"empty"}`, `{"no":"internal","of":"empty"}`},
			{"a failure of ours", "/mcp/app", `{"name":"panic"}`, `{"no":"internal","of":"panic"}`},
			{"in the merged profile", "/mcp", `{"name":"app__shed"}`, `{"no":"overloaded","of":"shed"}`},
			{"there, with arguments that are none", "/mcp", `{"name":"app__echo","arguments":"x"}`, `{"no":"invalid_arguments","of":"echo"}`},
		} {
			for _, stateless := range []bool{false, true} {
				status, body := ask(t, f, tt.path, "127.0.0.1:1", stateless, nil, "tools/call", tt.params)
				want := string(shape.ToolResult(json.RawMessage(tt.want), true))
				want = want[:len(want)-1]
				nobodys := strings.Contains(body, `"verb":null,"alias":null,"via":"direct","backend":null,`)
				if !strings.Contains(body, `"berth/call":{"call_id":`) || nobodys != strings.Contains(tt.want, "verb_unknown") {
					t.Errorf("%s (stateless %v): the facts of a call: %s", tt.name, stateless, body)
				}
				if status != http.StatusOK || !strings.Contains(body, want) {
					t.Errorf("%s (stateless %v): %d %s\nwant %s", tt.name, stateless, status, body, want)
				}
			}
		}
		if status, body := ask(t, f, "/mcp", "127.0.0.1:1", false, nil, "tools/call", `{"name":"app__nothing"}`); status != http.StatusOK || !strings.Contains(body, `"code":-32602`) {
			t.Errorf("an unknown name in the merged profile: %d %s", status, body)
		}
	})
}

func TestASurfacesVerbIsHeldAndNeverPromoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, surfaceSource("app"))
		f := serve(t, b, nil)
		defer f.stop()
		for _, name := range []string{"run", "echo"} {
			if status, body := ask(t, f, "/mcp/app", "127.0.0.1:1", false, nil, "tools/call", `{"name":"`+name+`"}`); status != http.StatusOK || !strings.Contains(body, `"_meta":{"berth/call":{`) || !strings.Contains(body, `"runtime_id":"rt-app"`) {
				t.Errorf("%d %s", status, body)
			}
			req := b.requests[len(b.requests)-1]
			if req.Held != (name == "run") || req.PromoteAfter != 0 || req.Long || req.Tasks != nil {
				t.Errorf("%s goes on as %+v", name, req)
			}
		}
	})
}

// A keyed call becomes a job at once; its caller gets the answer that the
// record has.
func TestASurfacesKeyedCallIsAnsweredFromItsRecord(t *testing.T) {
	for _, tt := range []struct {
		name string
		job  broker.Job
		want string
	}{
		{"its own answer", broker.Job{Status: broker.JobSucceeded, Result: json.RawMessage(`{"content":[],"own":1.0}`), RuntimeID: "r1"}, `"result":{"content":[],"own":1.0,"_meta":{"berth/call":`},
		{"while the work is followed", broker.Job{ID: "job_1", Status: broker.JobRunning, RuntimeID: "r1", Tracking: &broker.Tracking{Kind: broker.TrackApp, Answer: json.RawMessage(`{"content":[]}`)}},
			`"berth/job":{"id":"job_1","runtime_id":"r1"}`},
		{"a refusal", broker.Job{Status: broker.JobFailed, Reason: broker.CodeOverloaded, FailureMessage: "Full."}, `{\"no\":\"overloaded\",\"of\":\"job\"}`},
		{"lost", broker.Job{Status: broker.JobLost, Reason: broker.CodeJobLostOnRestart, FailureMessage: "Lost."}, `{\"no\":\"job_lost_on_restart\",\"of\":\"job\"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFakeBroker(t, surfaceSource("app"))
				f := serve(t, b, nil)
				defer f.stop()
				tt.job.ID = "job_1"
				tt.job.Tenant, tt.job.User = broker.LocalOperator.Tenant, broker.LocalOperator.User
				go func() {
					<-time.After(time.Minute) // the call runs that long
					b.tasks.put(tt.job)
				}()
				b.tasks.put(broker.Job{ID: "job_1", Status: broker.JobRunning, Tenant: tt.job.Tenant, User: tt.job.User})
				began := time.Now()
				_, body := ask(t, f, "/mcp/app", "127.0.0.1:1", false, nil, "tools/call", `{"name":"job","_meta":{"berth/idempotencyKey":"k"}}`)
				if !strings.Contains(body, tt.want) || time.Since(began) != time.Minute {
					t.Errorf("after %s: %s\nwant %s", time.Since(began), body, tt.want)
				}
			})
		})
	}
}

func TestWhoMayBringAnInstance(t *testing.T) {
	key := strings.Repeat("k", 20)
	header := func(b actors.Binding) http.Header {
		return http.Header{headerInstance: {encodeInstance(&b)}}
	}
	own := actors.Binding{Key: key, Surface: "app", Env: map[string]string{"P": "1"}}
	for _, tt := range []struct {
		name, remote string
		header       http.Header
		none         bool
		status       int
		want         string
	}{
		{"over loopback", "127.0.0.1:9", header(own), false, 200, `"name":"run"`},
		{"over IPv6's", "[::1]:9", header(own), false, 200, `"name":"run"`},
		{"for reading", "127.0.0.1:9", header(actors.Binding{Key: key, Surface: "app", Env: map[string]string{"RO": "1"}}), false, 200, `"name":"shed"`},
		{"from elsewhere", "192.0.2.7:9", header(own), false, 403, "instance_forbidden"},
		{"from nowhere that is known", "pipe", header(own), false, 403, "instance_forbidden"},
		{"where none may", "127.0.0.1:9", header(own), true, 403, "instance_forbidden"},
		{"of another app", "127.0.0.1:9", header(actors.Binding{Key: key, Surface: "x"}), false, 400, "invalid_arguments"},
		{"with a key that can be guessed", "127.0.0.1:9", header(actors.Binding{Key: "1", Surface: "app"}), false, 400, "invalid_arguments"},
		{"not brought", "127.0.0.1:9", nil, false, 404, "profile_unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bound, faults := catalog.Build(1, []catalog.Source{nativeSource(), surfaceSource("app")})
				if len(faults) > 0 {
					t.Fatal(faults)
				}
				b := newFakeBroker(t)
				f := serve(t, b, func(o *Options) {
					if !tt.none {
						o.Bindings = &fakeBindings{snapshot: bound}
					}
				})
				defer f.stop()
				for _, stateless := range []bool{false, true} {
					status, body := ask(t, f, "/mcp/app", tt.remote, stateless, tt.header, "tools/list", `{}`)
					if status != tt.status || !strings.Contains(body, tt.want) {
						t.Errorf("%d %s", status, body)
					}
					if readOnly := strings.Contains(tt.name, "reading"); readOnly && strings.Contains(body, `"name":"run"`) {
						t.Errorf("a session that only reads is listed %s", body)
					}
				}
				if tt.status != http.StatusOK {
					return
				}
				ask(t, f, "/mcp/app", tt.remote, true, tt.header, "tools/call", `{"name":"echo"}`)
				if got := b.requests[len(b.requests)-1].Binding; got == nil || got.Key != key {
					t.Errorf("the call is for %+v", got)
				}
			})
		})
	}
}

func TestTheEndOfASessionEndsWhatItBrought(t *testing.T) {
	bound, _ := catalog.Build(1, []catalog.Source{nativeSource(), surfaceSource("app")})
	bindings := &fakeBindings{snapshot: bound}
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), func(o *Options) { o.Bindings = bindings })
		defer f.stop()
		req := httptest.NewRequest(http.MethodDelete, "http://127.0.0.1:7420/mcp/app", nil)
		req.RemoteAddr = "127.0.0.1:9"
		req.Header.Set("Authorization", "Bearer "+testToken)
		req.Header.Set(headerInstance, encodeInstance(&actors.Binding{Key: strings.Repeat("k", 20), Surface: "app"}))
		w := httptest.NewRecorder()
		f.ServeHTTP(w, req)
		if w.Code != http.StatusNoContent || len(bindings.ended) != 1 {
			t.Errorf("%d %v", w.Code, bindings.ended)
		}
	})
}

func TestTheBridgeRefusesCallsAsTheSurfaceDoes(t *testing.T) {
	var out bytes.Buffer
	surface := surfaceSource("app").Surface
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n" +
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","_meta":{"` + metaVersion + `":"2026-07-28"}}}` + "\n")
	b := Bridge{Profile: "app", Surface: surface, Discover: func() (string, string, error) { return "", "", io.EOF }}
	if err := b.Run(t.Context(), in, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"no\":\"backend_unavailable\",\"of\":\"echo\"}"}],"isError":true}}`,
		`{"jsonrpc":"2.0","id":2,"error":`,
		`"id":3,"result":{"content":[{"type":"text","text":"{\"no\":\"backend_unavailable\",\"of\":\"echo\"}"}],"isError":true,"resultType":"complete"}}`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("said\n%s\nwant %s", out.String(), want)
		}
	}
}

// put makes a job's record what it is given to be.
func (f *fakeTasks) put(j broker.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.jobs {
		if f.jobs[i].ID == j.ID {
			f.jobs[i] = j
			f.signal(j.ID)
			return
		}
	}
	f.jobs = append(f.jobs, j)
}

func TestAReadOnlySessionPassesNoMethodThatNobodyKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		f := serve(t, b, nil)
		defer f.stop()
		for _, tt := range []struct {
			method string
			header http.Header
			want   string
		}{
			{"own/method", nil, `"result":`},
			{"own/method", http.Header{headerReadOnly: {"1"}}, `read_only_session`},
			{"prompts/list", http.Header{headerReadOnly: {"1"}}, `"result":`},
		} {
			before := len(b.requests)
			_, body := ask(t, f, "/mcp/fs", "127.0.0.1:1", false, tt.header, tt.method, `{}`)
			if !strings.Contains(body, tt.want) || (tt.want == "read_only_session") != (len(b.requests) == before) {
				t.Errorf("%s: %s", tt.method, body)
			}
		}
	})
}
