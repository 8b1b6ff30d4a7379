package resmon

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/transport/app"
	"berth/transport/app/resmontest"
)

const foreign = "6b1f7a52-3e0c-4f4e-9d0a-0d7c3f1b2a99" // a runtime id of nobody here

func TestAMalformedExpectationIsRefusedBeforeAnythingIsRead(t *testing.T) {
	values := []string{`null`, `""`, `1`, `true`, `[]`, `"x"`, `"` + strings.ToUpper(foreign) + `"`, `"{` + foreign + `}"`, `"` + foreign + `\n"`, `"6b1f7a52-3e0c-1f4e-9d0a-0d7c3f1b2a99"`, `"6b1f7a52-3e0c-4f4e-7d0a-0d7c3f1b2a99"`}
	fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	var d dials
	// The port file is a directory: that it was looked at would show.
	env := map[string]string{"RESMON_PORT_FILE": filepath.Join(t.TempDir()), "RESMON_STATE_DIR": fake.StateDir()}
	r := reach(t, fake, app.Options{Env: env, Dial: d.dial})
	for _, tool := range []string{"health", "get_execution", "run_sweep", "list_routines"} {
		for _, v := range values {
			got := r.refused(tool, `{"expected_runtime_id":`+v+`}`)
			if got.Error != "invalid_argument" || got.Detail["argument"] != "expected_runtime_id" {
				t.Errorf("%s with %s: %+v", tool, v, got)
			}
		}
		if a := r.bound("x", tool, `{}`).refusal(t); a.Error != "invalid_argument" {
			t.Errorf("%s, carried: %+v", tool, a)
		}
		if a := r.bound(foreign, tool, `{"expected_runtime_id":"7b1f7a52-3e0c-4f4e-9d0a-0d7c3f1b2a99"}`).refusal(t); a.Error != "invalid_argument" {
			t.Errorf("%s, two that differ: %+v", tool, a)
		}
	}
	if d.count() > 0 {
		t.Errorf("%d connections", d.count())
	}
}

func TestABoundAnswerIsOfTheExpectedProcess(t *testing.T) {
	type fault = func(f *resmontest.Fake)
	inject := func(fault resmontest.Fault, s resmontest.Scope) fault {
		return func(f *resmontest.Fake) { f.Inject(fault, s) }
	}
	health, execution := resmontest.Scope{Template: "/api/health"}, resmontest.Scope{Template: "/api/executions/{exec_id}"}
	both := func(of func(resmontest.Scope) fault) fault {
		return func(f *resmontest.Fake) { of(health)(f); of(execution)(f) }
	}
	tests := []struct {
		name     string
		fault    fault
		expected string // empty: the live one
		code     string // empty: an answer
		actual   string // {live} or an id; "null"
	}{
		{"a match", nil, "", "", ""},
		{"another by 409", nil, foreign, "instance_mismatch", "{live}"},
		{"another by body", both(func(s resmontest.Scope) fault { return inject(resmontest.WrongIdentity(foreign), s) }), "", "instance_mismatch", foreign},
		{"no identity", both(func(s resmontest.Scope) fault { return inject(resmontest.MissingIdentity(), s) }), "", "identity_unavailable", ""},
		{"a 409 about something else", inject(resmontest.Plain(http.StatusConflict, "Busy."), resmontest.Scope{Template: "/api/health", Skip: 1}), "", "conflict", ""},
		{"a 404", inject(resmontest.RouteMissing(), resmontest.Scope{Template: "/api/health", Skip: 1}), "", "not_found", ""},
	}
	for name, bad := range resmontest.BadIdentities() {
		tests = append(tests, struct {
			name     string
			fault    fault
			expected string
			code     string
			actual   string
		}{"malformed: " + name, both(func(s resmontest.Scope) fault { return inject(bad, s) }), "", "identity_unavailable", ""})
	}
	for _, tt := range tests {
		for _, c := range [][2]string{{"health", `{`}, {"get_execution", `{"exec_id":5,`}} {
			for _, carried := range []bool{false, true} {
				name := tt.name + ", " + c[0]
				if carried {
					name += ", carried"
				}
				t.Run(name, func(t *testing.T) {
					r := small(t)
					if tt.fault != nil {
						tt.fault(r.fake)
					}
					expected := tt.expected
					if expected == "" {
						expected = r.fake.RuntimeID()
					}
					var a answer
					if carried {
						a = r.bound(expected, c[0], strings.TrimSuffix(c[1], ",")+"}")
						if c[1] == "{" {
							a = r.bound(expected, c[0], `{}`)
						}
					} else {
						a = r.call(c[0], c[1]+`"expected_runtime_id":"`+expected+`"}`)
					}
					if tt.code == "" {
						if a.isError || a.runtimeID != expected {
							t.Errorf("%q: %s", a.runtimeID, a.text)
						}
						return
					}
					got := a.refusal(t)
					if got.Error != tt.code {
						t.Fatalf("%+v", got)
					}
					switch tt.code {
					case "instance_mismatch":
						got.detail(t, `{"actual_runtime_id":"`+strings.ReplaceAll(tt.actual, "{live}", r.fake.RuntimeID())+`","expected_runtime_id":"`+expected+`"}`)
					case "identity_unavailable":
						got.detail(t, `{"expected_runtime_id":"`+expected+`"}`)
					}
					for _, q := range r.sent() {
						if strings.HasPrefix(q, "GET /api/executions") {
							t.Errorf("the preflight had failed, and %s was sent", q)
						}
					}
				})
			}
		}
	}
}

func TestTheContentOfAnotherProcessIsDiscarded(t *testing.T) {
	r := small(t)
	r.fake.Inject(resmontest.IdentitySwap(foreign), resmontest.Scope{})
	a := r.call("get_execution", `{"exec_id":5,"expected_runtime_id":"`+r.fake.RuntimeID()+`"}`)
	got := a.refusal(t)
	if got.Error != "instance_mismatch" || strings.Contains(a.text, "execution_type") || strings.Contains(a.text, "graph") {
		t.Errorf("%s", a.text)
	}
	got.detail(t, `{"actual_runtime_id":"`+foreign+`","expected_runtime_id":"`+r.fake.RuntimeID()+`"}`)
}

// An answer that names another process ends the attachment, bound or not; who
// answered is then not claimed.
func TestAnAnswerOfAnotherProcessEndsTheAttachment(t *testing.T) {
	r := small(t)
	r.good("health", `{}`)
	checks := func() (n int) {
		for _, q := range r.fake.Requests() {
			if q.Path == "/api/health" {
				n++
			}
		}
		return n
	}
	before := checks()
	r.fake.Inject(resmontest.WrongIdentity(foreign), resmontest.Scope{Template: "/api/executions/{exec_id}", Times: 1})
	if a := r.call("get_execution", `{"exec_id":5}`); a.isError || a.runtimeID != "" || !strings.Contains(a.text, foreign) {
		t.Errorf("%q: %s", a.runtimeID, a.text)
	}
	if a := r.call("list_routines", `{}`); a.runtimeID != r.fake.RuntimeID() || checks() != before+1 {
		t.Errorf("answered by %q after %d health checks more", a.runtimeID, checks()-before)
	}
}

func TestAnIdentityInAnyAnswerIsChecked(t *testing.T) {
	r := small(t)
	said := func(id string) map[string]any {
		return map[string]any{"secret": "content", "identity": map[string]any{"contract_version": 1, "runtime_id": id, "schema_version": nil, "corpus_id": nil, "build_id": nil}}
	}
	for id, code := range map[string]string{foreign: "instance_mismatch", "nonsense": "identity_unavailable", r.fake.RuntimeID(): ""} {
		r.fake.Clear()
		r.fake.Inject(resmontest.Body(200, said(id)), resmontest.Scope{Template: "/api/documents/{doc_id}/why"})
		a := r.bound(r.fake.RuntimeID(), "explain_match", `{"doc_id":1}`)
		if code == "" {
			if a.isError {
				t.Errorf("%s", a.text)
			}
			continue
		}
		if got := a.refusal(t); got.Error != code || strings.Contains(a.text, "content") {
			t.Errorf("%s: %s", id, a.text)
		}
	}
}

func TestABoundCallOfAnAbsentRunIsNotFound(t *testing.T) {
	r := small(t)
	got := r.refused("get_execution", `{"exec_id":999,"expected_runtime_id":"`+r.fake.RuntimeID()+`"}`)
	if got.Error != "not_found" {
		t.Errorf("%+v", got)
	}
}

func TestAnUnboundCallChecksAndInventsNothing(t *testing.T) {
	r := small(t)
	r.fake.Inject(resmontest.MissingIdentity(), resmontest.Scope{})
	for _, c := range [][2]string{{"health", `{}`}, {"get_execution", `{"exec_id":5}`}} {
		a := r.call(c[0], c[1])
		if a.isError || strings.Contains(a.text, "identity") || a.runtimeID != "" {
			t.Errorf("%q: %s", a.runtimeID, a.text)
		}
	}
	r.fake.Clear()
	r.fake.Inject(resmontest.BadIdentity("contract_version", 2), resmontest.Scope{})
	if got := r.good("health", `{}`); got["identity"] == nil {
		t.Error("what came was not passed on")
	}
	r.fake.Clear()
	// An expectation is of its own call.
	r.refused("health", `{"expected_runtime_id":"`+foreign+`"}`)
	r.good("health", `{}`)
	for _, q := range r.fake.Requests()[len(r.fake.Requests())-1:] {
		if q.Query != "" {
			t.Errorf("a later call was bound: %s", q.Query)
		}
	}
	r.fake.Inject(resmontest.Body(http.StatusConflict, map[string]any{"detail": map[string]any{"code": "instance_mismatch", "message": "m"}}), resmontest.Scope{Template: "/api/executions/{exec_id}"})
	if got := r.refused("get_execution", `{"exec_id":5}`); got.Error != "conflict" {
		t.Errorf("%+v", got)
	}
}

func TestAnyToolCanBeBound(t *testing.T) {
	for _, c := range every {
		if c[0] == "health" || c[0] == "get_execution" {
			continue
		}
		t.Run(c[0]+c[1], func(t *testing.T) {
			r := small(t)
			if got := r.bound(foreign, c[0], c[1]).refusal(t); got.Error != "instance_mismatch" {
				t.Errorf("%+v", got)
			}
			if sent := r.sent(); len(sent) != 1 || !strings.HasPrefix(sent[0], "GET /api/health?expected_runtime_id="+foreign) {
				t.Errorf("sent: %q", sent)
			}
			if a := r.bound(r.fake.RuntimeID(), c[0], c[1]); a.isError {
				t.Errorf("%s", a.text)
			}
		})
	}
}

func TestTheTokenFileOfOneInstanceIsNotTakenForAnother(t *testing.T) {
	a, b := resmontest.Run(t, resmontest.Options{Data: resmontest.Small}), resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	env := a.Env()
	env["RESMON_STATE_DIR"] = b.StateDir() // the port of one, the state of the other
	if got := reach(t, a, app.Options{Env: env}).refused("health", `{}`); got.Detail["no_token"] == nil {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(a.TokenFile()); err != nil {
		t.Fatal(err)
	}
	if n := len(a.Requests()) + len(b.Requests()); n > 0 {
		t.Errorf("%d requests", n)
	}
}
