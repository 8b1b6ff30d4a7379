package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/schema"
	"berth/broker/native"
	"berth/broker/native/meta"
	"berth/broker/shape"
	"berth/broker/shape/o200k"
)

// setup gives a fake broker the catalog family and these sources.
func setup(t testing.TB, settings catalog.Settings, own catalog.Source, more ...catalog.Source) *fakeBroker {
	t.Helper()
	b := newMetaBroker(t)
	family := meta.New(meta.Options{Now: time.Now, Random: bytes.NewReader(make([]byte, 1<<12)), Ledger: meta.NewLedger(), Store: shape.NewStore(shape.StoreOptions{}), Counter: o200k.Counter{}})
	settings.Costs = shape.NewCosts(o200k.Counter{}, nil)
	snapshot, faults := settings.Build(1, append([]catalog.Source{native.Join(sourceOnly{source: own}, family).Source()}, more...))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.snapshot = snapshot
	return b
}

// sourceOnly is a family that is listed and never called.
type sourceOnly struct {
	native.Family
	source catalog.Source
}

func (s sourceOnly) Source() catalog.Source { return s.source }

// callAs makes a call as the holder of a token and gives the response, and its
// result by member.
func callAs(t testing.TB, f *front, token, path, method, params string) (body string, result map[string]json.RawMessage) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:7420"+path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	var m struct{ Result map[string]json.RawMessage }
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return w.Body.String(), m.Result
}

// TestAVerbDeniedByRoleChangesNoByteOfAnyAnswer: over a registry that lacks the
// verb, list, call, describe, find and help answer the same.
func TestAVerbDeniedByRoleChangesNoByteOfAnyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := func(all bool) catalog.Source {
			s := nativeSource()
			if !all {
				return s
			}
			s.Tools = append(s.Tools, broker.Tool{Name: "purge_jobs", Raw: json.RawMessage(`{"name":"purge_jobs","description":"Purges old jobs.","inputSchema":{"type":"object","properties":{"olderThan":{"type":"string"}},"required":["olderThan"]}}`)})
			s.Effects = map[string]broker.Effects{"job_status": broker.Read, "purge_jobs": broker.Destroy}
			s.Aliases = map[string]string{"jobs_purge": "purge_jobs"}
			s.Facts = map[string]catalog.Facts{"purge_jobs": {Scope: []broker.Role{broker.GlobalAdministrator}, Keywords: []string{"retention"}}}
			return s
		}
		with, without := serve(t, setup(t, catalog.Settings{}, own(true), fsSource()), nil), serve(t, setup(t, catalog.Settings{}, own(false), fsSource()), nil)
		defer with.stop()
		defer without.stop()
		asked := []struct{ method, params string }{{"tools/list", `{}`}, {"initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`}}
		for _, name := range []string{"purge_jobs", "berth__purge_jobs", "mcp__berth__purge_jobs", "jobs_purge", "purge_job", "Purge_Jobs", "purge", "retention"} {
			for _, call := range []string{`{"name":"%s","arguments":{"olderThan":7}}`, `{"name":"call_read","arguments":{"name":"%s"}}`, `{"name":"call_write","arguments":{"name":"%s","arguments":"x","options":{"no":1}}}`,
				`{"name":"describe","arguments":{"names":["%s","fs__add"]}}`, `{"name":"find","arguments":{"query":"%s","detail":"schema"}}`, `{"name":"help","arguments":{"name":"%s"}}`,
				`{"name":"help","arguments":{"intent":"%s of old jobs"}}`, `{"name":"help","arguments":{"error_text":"%s: invalid_argument"}}`, `{"name":"session_handshake","arguments":{"available_tools":["%s"]}}`} {
				asked = append(asked, struct{ method, params string }{"tools/call", fmt.Sprintf(call, name)})
			}
		}
		for _, a := range append(asked, struct{ method, params string }{"tools/call", `{"name":"find","arguments":{"query":"","k":50}}`}) {
			x, _ := callAs(t, with, "other", "/mcp", a.method, a.params)
			y, _ := callAs(t, without, "other", "/mcp", a.method, a.params)
			if x != y {
				t.Errorf("%s %s:\n%s\nwithout the verb\n%s", a.method, a.params, x, y)
			}
		}
		if body, _ := callAs(t, with, testToken, "/mcp", "tools/call", `{"name":"describe","arguments":{"names":["purge_jobs"]}}`); !strings.Contains(body, "Purges old jobs.") {
			t.Errorf("an administrator: %s", body)
		}
	})
}

// document draws a JSON value with text, numbers of every spelling and depth.
func document(r *rand.Rand, depth int) string {
	switch n := r.IntN(8); {
	case n < 3 && depth > 0:
		var members []string
		for i := range r.IntN(6) {
			members = append(members, fmt.Sprintf(`"m%d" : %s`, i, document(r, depth-1)))
		}
		return "{" + strings.Join(members, " , ") + "}"
	case n < 5 && depth > 0:
		var items []string
		for range r.IntN(12) {
			items = append(items, document(r, depth-1))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case n == 5:
		return []string{"1.0", "12345678901234567890", "1e5", "true", "null"}[r.IntN(5)]
	}
	text, _ := json.Marshal(strings.Repeat("wörd <&> ", r.IntN(12)))
	return string(text)
}

func drawnResult(r *rand.Rand) string {
	result := `{"content":[{"type":"text","text":"t"}],"structuredContent":{"rows":` + document(r, 3) + `,"n":1.0}`
	if r.IntN(4) == 0 {
		result += `,"isError":true`
	}
	return result + "}"
}

// TestStructuredContentIsTheSameBytesWithoutTheEnvelope holds for what is cut and
// for what is not, for errors, and for the broker's own answers.
func TestStructuredContentIsTheSameBytesWithoutTheEnvelope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handles := func() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{1}) } // the same cost on both sides
		with := serve(t, newMetaBroker(t), func(o *Options) { o.Shaping.Random = handles() })
		defer with.stop()
		without := serve(t, newMetaBroker(t), func(o *Options) { o.Shaping.NoEnvelope, o.Shaping.Random = true, handles() })
		defer without.stop()
		r := rand.New(rand.NewPCG(1, 2))
		cut := 0
		for range 150 {
			params := fmt.Sprintf(`{"name":"fs__echo","arguments":{"result":%s},"_meta":{"berth/resultTokens":%d}}`, drawnResult(r), 500+r.IntN(3000))
			switch r.IntN(10) {
			case 0:
				params = `{"name":"find","arguments":{"query":"echo"}}`
			case 1:
				params = `{"name":"fs__add","arguments":{"b":1}}`
			}
			_, x := callAs(t, with, testToken, "/mcp", "tools/call", params)
			_, y := callAs(t, without, testToken, "/mcp", "tools/call", params)
			if string(x["structuredContent"]) != string(y["structuredContent"]) || string(x["isError"]) != string(y["isError"]) {
				t.Fatalf("%.300s:\n%.500s\n%.500s", params, x["structuredContent"], y["structuredContent"])
			}
			if _, there := x["_meta"]; !there || y["_meta"] != nil {
				t.Fatalf("facts: %.200s and %.200s", x["_meta"], y["_meta"])
			}
			if strings.Contains(string(x["_meta"]), `"steps"`) {
				cut++
			}
		}
		if cut < 5 || cut > 140 {
			t.Errorf("%d of the answers were cut: too few kinds", cut)
		}
	})
}

// TestAListedOutputSchemaIsMet: it is listed for a verb whose answers are never
// cut, and such an answer is what the backend said, whatever its size.
func TestAListedOutputSchemaIsMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const output = `{"type":"object","properties":{"rows":{},"n":{"type":"number"}},"required":["rows","n"],"additionalProperties":false}`
		entry := func(name string) broker.Tool { return tool(name, `"outputSchema":`+output+`,`) }
		source := catalog.Source{Backend: "db", Listed: true, Tools: []broker.Tool{entry("whole"), entry("cut")}, Rules: catalog.Rules{ResultTokens: map[string]shape.Budget{"whole": shape.Whole}}}
		f := serve(t, setup(t, catalog.Settings{}, nativeSource(), source), nil)
		defer f.stop()
		met, err := schema.Compile(json.RawMessage(output))
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]int{"/mcp": 1, "/mcp/db": 2} {
			body, _ := callAs(t, f, testToken, path, "tools/list", `{}`)
			if got := strings.Count(body, `"outputSchema":`); got != want {
				t.Errorf("%s lists %d output schemas, want %d", path, got, want)
			}
		}
		r := rand.New(rand.NewPCG(3, 4))
		large := 0
		for range 100 {
			result := strings.ReplaceAll(drawnResult(r), `,"isError":true`, "")
			for _, call := range []struct{ path, name string }{{"/mcp", "db__whole"}, {"/mcp/db", "whole"}, {"/mcp/db", "cut"}} {
				_, got := callAs(t, f, testToken, call.path, "tools/call", `{"name":"`+call.name+`","arguments":{"result":`+result+`},"_meta":{"berth/resultTokens":`+map[string]string{"/mcp": "100000", "/mcp/db": "500"}[call.path]+`}}`)
				if violations, err := met.Check(got["structuredContent"]); err != nil || len(violations) > 0 || !strings.Contains(result, string(got["structuredContent"])) {
					t.Fatalf("%s of %s: %v %v in %.300s", call.name, call.path, violations, err, got["structuredContent"])
				}
			}
			if len(result) > 1000 {
				large++
			}
		}
		if large < 5 {
			t.Errorf("only %d documents were large", large)
		}
	})
}

// TestOfAJobsRecordTheResultIsCut: the record says what became of the job however
// large its result is, and the rest of the result is kept.
func TestOfAJobsRecordTheResultIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newMetaBroker(t), nil)
		defer f.stop()
		status := func(rows int) (record struct {
			JobID, Status string
			Result        struct {
				Content           []struct{ Text string }
				StructuredContent json.RawMessage
			}
		}, body string) {
			t.Helper()
			var items []string
			for i := range rows {
				items = append(items, fmt.Sprintf(`{"row":%d,"text":"some words that take room"}`, i))
			}
			inner := `{"content":[{"type":"text","text":"rows"}],"structuredContent":{"rows":[` + strings.Join(items, ",") + `]}}`
			job := broker.Job{ID: "job_1", Operation: "fs__rows", Status: broker.JobSucceeded, Result: json.RawMessage(inner)}
			body, result := callAs(t, f, testToken, "/mcp", "tools/call", `{"name":"job_status","arguments":{"jobId":"job_1","result":`+string(shape.Structured(job.StatusView(false), false))+`},"_meta":{"berth/resultTokens":1500}}`)
			if err := json.Unmarshal(result["structuredContent"], &record); err != nil {
				t.Fatalf("%v in %s", err, body)
			}
			counted := shape.CountResult(o200k.Counter{}, json.RawMessage(`{"content":`+string(result["content"])+`,"structuredContent":`+string(result["structuredContent"])+`}`), shape.Limits{})
			if counted.Tokens > 1500 {
				t.Errorf("%d rows cost %d tokens of 1500", rows, counted.Tokens)
			}
			return record, body
		}
		small, body := status(3)
		if small.Status != "Succeeded" || strings.Contains(body, `"shaped":{`) || strings.Count(string(small.Result.StructuredContent), `"row"`) != 3 {
			t.Errorf("a small result: %s", body)
		}
		large, body := status(2000)
		kept := strings.Count(string(large.Result.StructuredContent), `"row"`)
		if large.JobID != "job_1" || large.Status != "Succeeded" || kept == 0 || kept >= 2000 || !strings.Contains(body, `"shaped":{`) {
			t.Fatalf("a large result, %d rows kept: %.800s", kept, body)
		}
		last := large.Result.Content[len(large.Result.Content)-1].Text
		at := strings.Index(last, `"m_`) + 1
		if at == 0 {
			t.Fatalf("no handle in %q", last)
		}
		page, _ := callAs(t, f, testToken, "/mcp", "tools/call", `{"name":"more","arguments":{"handle":"`+last[at:at+strings.IndexByte(last[at:], '"')]+`"}}`)
		if !strings.Contains(page, fmt.Sprintf(`\"row\":%d,`, kept)) && !strings.Contains(page, fmt.Sprintf(`"row":%d,`, kept)) {
			t.Errorf("the rest does not begin with row %d: %.400s", kept, page)
		}
	})
}

// TestATasksResultIsCutAsItsCallsAnswer, in both forms of the protocol.
func TestATasksResultIsCutAsItsCallsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, setup(t, catalog.Settings{}, nativeSource(), longSource()), nil)
		defer f.stop()
		var items []string
		for i := range 9000 {
			items = append(items, fmt.Sprintf(`{"row":%d}`, i))
		}
		result := json.RawMessage(`{"content":[{"type":"text","text":"rows"}],"structuredContent":{"rows":[` + strings.Join(items, ",") + `]}}`)
		at := time.Now()
		job := broker.Job{ID: "job_1", Operation: "lb__long_ok", Status: broker.JobSucceeded, SubmittedAt: at, StartedAt: &at, CompletedAt: &at, Backend: "lb",
			Tenant: broker.LocalOperator.Tenant, User: broker.LocalOperator.User, Result: result}
		f.broker.tasks.jobs = append(f.broker.tasks.jobs, job)
		for path, whole := range map[string]bool{"/mcp": false, "/mcp/lb": true} {
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:7420"+path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"taskId":"job_1"}}`))
			r.Header.Set("Authorization", "Bearer "+testToken)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(headerVersion, "2025-11-25")
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			rows := strings.Count(w.Body.String(), `"row":`)
			if (rows == 9000) != whole || rows == 0 || strings.Contains(w.Body.String(), "more {") == whole || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: %d rows: %.300s", path, rows, w.Body)
			}
		}
	})
}

// TestGuidanceFollowsABackendsErrorUnlessItIsSwitchedOff by the backend or by the
// profile; the broker's own answers and exact profiles never have it.
func TestGuidanceFollowsABackendsErrorUnlessItIsSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := func(name string, unguided bool) catalog.Source {
			return catalog.Source{Backend: name, Listed: true, Rules: catalog.Rules{Unguided: unguided},
				Tools: []broker.Tool{{Name: "fail", Raw: json.RawMessage(`{"name":"fail","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}`)}}}
		}
		settings := catalog.Settings{Profiles: []catalog.ProfileSpec{{Name: "quiet", Select: []catalog.Selector{{Backend: "a"}}, Answers: catalog.Answers{NoGuidance: true}}}}
		f := serve(t, setup(t, settings, nativeSource(), source("a", false), source("b", true)), nil)
		defer f.stop()
		failing := `{"content":[{"type":"text","text":"no"}],"isError":true}`
		for _, tt := range []struct {
			name, path, verb, result string
			guided                   bool
		}{
			{"an error", "/mcp", "a__fail", failing, true},
			{"a success", "/mcp", "a__fail", `{"content":[]}`, false},
			{"of a backend without", "/mcp", "b__fail", failing, false},
			{"in a profile without", "/mcp/quiet", "a__fail", failing, false},
			{"in an exact profile", "/mcp/a", "fail", failing, false},
			{"of the broker's own", "/mcp", "job_status", failing, false},
		} {
			body, _ := callAs(t, f, testToken, tt.path, "tools/call", `{"name":"`+tt.verb+`","arguments":{"path":"p","jobId":"j","result":`+tt.result+`}}`)
			if got := strings.Contains(body, `[berth] A minimal valid call: a__fail {\"path\":\"<path>\"}`); got != tt.guided || strings.Contains(body, "A minimal valid call") != tt.guided {
				t.Errorf("%s: %s", tt.name, body)
			}
		}
	})
}
