package resmon

import (
	"encoding/base64"
	"strings"
	"testing"

	"berth/transport/app"
	"berth/transport/app/resmontest"
)

// TestNothingSecretLeavesTheAdapter plants secrets in every place that the
// adapter reads, makes every tool meet every fault, and looks at every byte that
// comes out: results, errors and the log.
func TestNothingSecretLeavesTheAdapter(t *testing.T) {
	const marker = "hunter2-secret-marker"
	faults := []struct {
		name  string
		fault resmontest.Fault
		scope resmontest.Scope
	}{
		{name: "none"},
		{"the token in a 400", resmontest.Echo(400), resmontest.Scope{Skip: 1}},
		{"the token in a 500", resmontest.Echo(500), resmontest.Scope{Skip: 1}},
		{"the token in a 200", resmontest.Echo(200), resmontest.Scope{Skip: 1}},
		{"the token in the health answer", resmontest.Echo(503), resmontest.Scope{Template: "/api/health"}},
		{"a validation error that echoes", resmontest.List422(marker), resmontest.Scope{Skip: 1}},
		{"a body that is cut", resmontest.CutBody(), resmontest.Scope{Skip: 1}},
		{"keys in a sentence", resmontest.Plain(409, "Rejected: api_key="+marker+" Authorization: Bearer "+marker), resmontest.Scope{Skip: 1}},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, MaxRuns: 20})
			r := reach(t, fake, app.Options{Env: fake.Env()})
			if f.name != "none" {
				fake.Inject(f.fault, f.scope)
			}
			for _, c := range every {
				r.call(c[0], c[1])
				r.bound(fake.RuntimeID(), c[0], c[1])
			}
			for _, arguments := range []string{
				`{"group":"ai","settings":{"api_key":"` + marker + `"}}`, `{"group":"ai","settings":{"ai_cli_path":"` + marker + `"}}`,
				`{"group":"ai","settings":{"nonsense":"` + marker + `"}}`, `{"group":"` + marker + `","settings":{"x":1}}`, `{"group":"notifications","settings":{"notify_manual":"` + marker + `"}}`,
			} {
				r.call("update_settings", arguments)
			}
			for _, name := range []string{"get_routine", "explain_match", "export_references", "run_sweep"} {
				r.call(name, `{"routine_id":"`+marker+`","doc_id":"`+marker+`","exec_id":"`+marker+`","query":{"x":"`+marker+`"},"sources":"`+marker+`"}`)
			}
			if err := fake.Restart(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				r.call("list_routines", `{}`) // with tokens of both lives known
			}
			r.mu.Lock()
			out := r.out.String()
			r.mu.Unlock()
			if len(out) < 1000 {
				t.Fatalf("only %d bytes came out", len(out))
			}
			secrets := append(fake.Secrets(), marker)
			if f.name == "the token in a 200" {
				secrets = secrets[1:] // beside it the fake says where it was read, in an answer that is whole
			}
			for _, secret := range secrets {
				for _, form := range []string{secret, base64.RawStdEncoding.EncodeToString([]byte(secret))} {
					if i := strings.Index(out, form); i >= 0 {
						t.Errorf("%q came out: ...%s...", form, out[max(0, i-200):min(len(out), i+100)])
					}
				}
			}
			for _, q := range fake.Requests() {
				if q.Exposed {
					t.Errorf("a token stood outside its header: %s %s", q.Method, q.Path)
				}
			}
		})
	}
}

func TestATokenInEscapesIsFound(t *testing.T) {
	r := small(t)
	token := r.fake.Token()
	var escaped strings.Builder
	for _, c := range token {
		escaped.WriteString(`\u00`)
		escaped.WriteString(string("0123456789abcdef"[c>>4]))
		escaped.WriteString(string("0123456789abcdef"[c&15]))
	}
	r.fake.Inject(resmontest.Body(200, rawJSON(`{"x":"`+escaped.String()+`","`+token+`":1}`)), resmontest.Scope{Template: "/api/documents/{doc_id}/why"})
	if a := r.call("explain_match", `{"doc_id":1}`); a.text != `{"x":"[redacted]","[redacted]":1}` {
		t.Errorf("%s", a.text)
	}
}

type rawJSON string

// MarshalJSON gives the text as it is.
func (j rawJSON) MarshalJSON() ([]byte, error) { return []byte(j), nil }
