package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/broker"
	"berth/broker/catalog"
)

const nativeSchema = `{"type":"object","properties":{"jobId":{"type":"string"},"n":{"type":"integer"},"idempotencyKey":{"type":"string"}},"required":["jobId"]}`

func snapshot(t testing.TB) *catalog.Snapshot {
	t.Helper()
	entry := func(name, schema string) broker.Tool {
		return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","inputSchema":` + schema + `}`)}
	}
	s, faults := catalog.Build(1, []catalog.Source{
		{Backend: "berth", Native: true, Family: "jobs", Listed: true, Tools: []broker.Tool{entry("job_status", nativeSchema), entry("dispatch", nativeSchema)},
			Effects: map[string]broker.Effects{"job_status": broker.Read, "dispatch": broker.Exec},
			Control: []string{"job_status"}, Beside: []string{"job_status"}, Rules: catalog.Rules{Long: []string{"dispatch"}}},
		{Backend: "x", Listed: true, Tools: []broker.Tool{entry("run", `{"type":"object","properties":{"n":{"type":"integer"},"idempotencyKey":{"type":"string"}}}`), entry("slow", `{}`)},
			Rules: catalog.Rules{Long: []string{"slow"}, Effects: []catalog.EffectRule{{Verb: "run", Is: broker.Read}}}},
	})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return s
}

func input(t testing.TB, profile, name, arguments, meta string) Input {
	t.Helper()
	p, ok := snapshot(t).Profile(profile)
	if !ok {
		t.Fatalf("no profile %q", profile)
	}
	return Input{Profile: p, Principal: broker.LocalOperator, Name: name, Arguments: json.RawMessage(arguments), Meta: json.RawMessage(meta)}
}

func TestCheckPasses(t *testing.T) {
	tests := []struct {
		name, profile, verb, arguments, meta string
		want                                 Plan
	}{
		{"a plain call", "", "x__run", `{"n":1}`, ``, Plan{Effects: broker.Read, Lane: broker.LaneCalls, Arguments: json.RawMessage(`{"n":1}`)}},
		{"unknown effects", "", "x__slow", ``, `null`, Plan{Effects: broker.Write, Lane: broker.LaneJobs, Long: true}},
		{"an exact profile looks at no arguments", "x", "run", `{"n":"many"}`, ``, Plan{Effects: broker.Read, Arguments: json.RawMessage(`{"n":"many"}`)}},
		{"native arguments are normalised", "x", "job_status", `{"jobId":"a","n":"4"}`, ``, Plan{Lane: broker.LaneControl, Arguments: json.RawMessage(`{"jobId":"a","n":4}`)}},
		{"an expectation", "", "x__run", `{}`, `{"berth/expectedRuntimeId":"r1","other":1}`, Plan{Effects: broker.Read, ExpectedRuntimeID: "r1", Arguments: json.RawMessage(`{}`)}},
		{"a key makes a job", "", "x__run", `{}`, `{"berth/idempotencyKey":"k"}`, Plan{Effects: broker.Read, Lane: broker.LaneJobs, Long: true, IdempotencyKey: "k", Arguments: json.RawMessage(`{}`)}},
		{"a key of 128 characters", "", "x__run", ``, `{"berth/idempotencyKey":"` + strings.Repeat("é", 128) + `"}`, Plan{Effects: broker.Read, Lane: broker.LaneJobs, Long: true, IdempotencyKey: strings.Repeat("é", 128)}},
		{"a backend's own argument is no key", "", "x__run", `{"idempotencyKey":"k"}`, ``, Plan{Effects: broker.Read, Arguments: json.RawMessage(`{"idempotencyKey":"k"}`)}},
		{"the argument of a long native verb is one", "", "dispatch", `{"jobId":"a","idempotencyKey":"k"}`, ``,
			Plan{Effects: broker.Exec, Lane: broker.LaneJobs, Long: true, IdempotencyKey: "k", Arguments: json.RawMessage(`{"jobId":"a","idempotencyKey":"k"}`)}},
		{"the same key twice", "", "dispatch", `{"jobId":"a","idempotencyKey":"k"}`, `{"berth/idempotencyKey":"k"}`,
			Plan{Effects: broker.Exec, Lane: broker.LaneJobs, Long: true, IdempotencyKey: "k", Arguments: json.RawMessage(`{"jobId":"a","idempotencyKey":"k"}`)}},
		{"an empty argument is no key", "", "dispatch", `{"jobId":"a","idempotencyKey":""}`, ``,
			Plan{Effects: broker.Exec, Lane: broker.LaneJobs, Long: true, Arguments: json.RawMessage(`{"jobId":"a"}`)}},
		{"a control verb never becomes a job", "", "job_status", `{"jobId":"a"}`, `{"berth/idempotencyKey":"k"}`,
			Plan{Lane: broker.LaneControl, Arguments: json.RawMessage(`{"jobId":"a"}`)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, refusal := Check(input(t, tt.profile, tt.verb, tt.arguments, tt.meta))
			if refusal != nil {
				t.Fatal(refusal)
			}
			if got.Verb == nil || got.Effects != tt.want.Effects || got.Lane != tt.want.Lane || got.Long != tt.want.Long ||
				got.ExpectedRuntimeID != tt.want.ExpectedRuntimeID || got.IdempotencyKey != tt.want.IdempotencyKey || string(got.Arguments) != string(tt.want.Arguments) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if (got.Digest != "") != (got.IdempotencyKey != "") {
				t.Errorf("digest %q with key %q", got.Digest, got.IdempotencyKey)
			}
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	tests := []struct {
		name, profile, verb, arguments, meta string
		code                                 broker.Code
		part                                 string // of the body
	}{
		{"an unknown name, with the nearest", "", "run", ``, ``, broker.CodeVerbUnknown, `"suggestions":[{"name":"x__run","via":"direct","visibility":"advertised","why":"exact"},`},
		{"an unknown name, alone", "", "zzzzzz", ``, ``, broker.CodeVerbUnknown, `"name":"zzzzzz","suggestions":[]}`},
		{"a name of another surface", "x", "dispatch", ``, ``, broker.CodeVerbUnknown, `"suggestions":[]`},
		{"arguments that do not fit", "", "x__run", `{"n":"hunter2"}`, ``, broker.CodeInvalidArgument, `"pointer":"/n","rule":"type","wanted":"integer"`},
		{"arguments that are no object", "x", "run", `"{}"`, ``, broker.CodeInvalidArgument, `"pointer":"","rule":"type","wanted":"object"`},
		{"native arguments, in an exact profile too", "x", "job_status", ``, ``, broker.CodeMissingJobID, `jobId`},
		{"_meta that is no object", "", "x__run", ``, `[]`, broker.CodeInvalidArgument, `"pointer":"/_meta"`},
		{"an expectation that is no string", "", "x__run", ``, `{"berth/expectedRuntimeId":null}`, broker.CodeInvalidArgument, `"pointer":"/_meta/berth~1expectedRuntimeId"`},
		{"an empty expectation", "", "x__run", ``, `{"berth/expectedRuntimeId":""}`, broker.CodeInvalidArgument, `"pointer":"/_meta/berth~1expectedRuntimeId"`},
		{"a key that is no string", "", "x__run", ``, `{"berth/idempotencyKey":7}`, broker.CodeIdempotencyKey, ``},
		{"an empty key", "", "x__run", ``, `{"berth/idempotencyKey":""}`, broker.CodeIdempotencyKey, ``},
		{"a key of 129 characters", "", "x__run", ``, `{"berth/idempotencyKey":"` + strings.Repeat("k", 129) + `"}`, broker.CodeIdempotencyKey, ``},
		{"two keys", "", "dispatch", `{"jobId":"a","idempotencyKey":"k"}`, `{"berth/idempotencyKey":"l"}`, broker.CodeIdempotencyKey, ``},
		// The order: the name before the arguments, the arguments before the key.
		{"name first", "", "none", `[]`, `{"berth/idempotencyKey":7}`, broker.CodeVerbUnknown, ``},
		{"arguments before the key", "", "x__run", `{"n":""}`, `{"berth/idempotencyKey":7}`, broker.CodeInvalidArgument, `"pointer":"/n"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan, refusal := Check(input(t, tt.profile, tt.verb, tt.arguments, tt.meta))
			if refusal == nil || refusal.Code != tt.code {
				t.Fatalf("got %+v, %v; want %s", plan, refusal, tt.code)
			}
			if body := string(refusal.JSON()); !strings.Contains(body, tt.part) || strings.Contains(body, "hunter2") {
				t.Errorf("body %s", body)
			}
			if (plan.Verb == nil) != (tt.code == broker.CodeVerbUnknown) {
				t.Errorf("what was found is %+v", plan)
			}
		})
	}
}

func TestNobodyIsAnonymous(t *testing.T) {
	for _, role := range []broker.Role{"", "root"} {
		in := input(t, "", "x__run", ``, ``)
		in.Principal.Role = role
		_, refusal := Check(in)
		in.Name = "x__none"
		_, unknown := Check(in)
		if refusal == nil || refusal.Code != broker.CodeVerbUnknown || strings.ReplaceAll(string(refusal.JSON()), "x__run", "x__none") == string(refusal.JSON()) {
			t.Fatalf("role %q: %v", role, refusal)
		}
		if unknown == nil || unknown.Code != refusal.Code {
			t.Errorf("role %q: %v", role, unknown)
		}
	}
	in := input(t, "", "x__run", ``, ``)
	in.Principal.Role = broker.User
	if _, refusal := Check(in); refusal != nil {
		t.Error(refusal)
	}
}

func TestALongUnknownNameIsNotRepeatedWhole(t *testing.T) {
	_, refusal := Check(input(t, "", strings.Repeat("é", 5000), ``, ``))
	if refusal == nil || len(refusal.Message) > 200 || !json.Valid(refusal.JSON()) {
		t.Errorf("got %v", refusal)
	}
}

func TestDigestNamesTheWorkAndNotItsSpelling(t *testing.T) {
	base := Digest("v", json.RawMessage(`{"a":{"y":1,"x":"é"},"n":9007199254740993}`))
	if len(base) != 64 {
		t.Errorf("digest %q", base)
	}
	for name, tt := range map[string]struct {
		verb, args string
		same       bool
	}{
		"order, space and escapes":       {"v", ` {"n":9007199254740993, "a":{"x":"\u00e9","y":1}} `, true},
		"another verb":                   {"w", `{"a":{"y":1,"x":"é"},"n":9007199254740993}`, false},
		"another number over 2^53":       {"v", `{"a":{"y":1,"x":"é"},"n":9007199254740992}`, false},
		"the order of a list counts":     {"v", `{"a":[{"y":1,"x":"é"}],"n":9007199254740993}`, false},
		"no arguments at all":            {"v", ``, false},
		"text that only looks like them": {"v", `{"a":{"y":"1","x":"é"},"n":9007199254740993}`, false},
	} {
		if got := Digest(tt.verb, json.RawMessage(tt.args)); (got == base) != tt.same {
			t.Errorf("%s: same %v", name, got == base)
		}
	}
	if Digest("v", nil) != Digest("v", json.RawMessage(` { } `)) || Digest("v", nil) != Digest("v", json.RawMessage(`null`)) {
		t.Error("absent arguments are not the empty object")
	}
}

func TestTheKeyIsNoPartOfTheDigest(t *testing.T) {
	byArgument, _ := Check(input(t, "", "dispatch", `{"jobId":"a","idempotencyKey":"k"}`, ``))
	byMeta, _ := Check(input(t, "", "dispatch", `{"jobId":"a"}`, `{"berth/idempotencyKey":"k"}`))
	other, _ := Check(input(t, "", "dispatch", `{"jobId":"b"}`, `{"berth/idempotencyKey":"k"}`))
	if byArgument.Digest == "" || byArgument.Digest != byMeta.Digest || byArgument.Digest == other.Digest {
		t.Errorf("digests %q, %q, %q", byArgument.Digest, byMeta.Digest, other.Digest)
	}
}

// TestStepsAreNamedOnce keeps the table readable as the list of DESIGN section 4.
func TestStepsAreNamedOnce(t *testing.T) {
	want := "resolve, visible, read-only, changed, object, target, arguments, effects, read-only call, call_read, proofs, expectation, result budget, idempotency"
	var got []string
	for _, s := range steps {
		got = append(got, s.name)
	}
	if strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("x__run", `{"n":1}`, `{"berth/idempotencyKey":"k"}`)
	f.Add("dispatch", `{"jobId":"a","idempotencyKey":"k"}`, `{}`)
	f.Add("job_status", `{"n":"1","n":""}`, `{"berth/expectedRuntimeId":"\ud800"}`)
	s := snapshot(f)
	f.Fuzz(func(t *testing.T, name, arguments, meta string) {
		for _, profile := range []string{"", "x"} {
			p, _ := s.Profile(profile)
			plan, refusal := Check(Input{Profile: p, Principal: broker.LocalOperator, Name: name, Arguments: json.RawMessage(arguments), Meta: json.RawMessage(meta)})
			if refusal == nil && plan.Verb == nil {
				t.Fatalf("%+v and %v", plan, refusal)
			}
			if refusal != nil && !json.Valid(refusal.JSON()) {
				t.Fatalf("%s", refusal.JSON())
			}
		}
	})
}
