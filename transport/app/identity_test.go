package app

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

const someID = "3f1c2b5e-8a7d-4c6b-9e0f-1a2b3c4d5e6f"

func TestAnIdentityHasAllOfItsFields(t *testing.T) {
	const good = `{"identity":{"contract_version":1,"runtime_id":"` + someID + `","schema_version":18,"corpus_id":null,"build_id":null,"more":[1]},"status":"ok"}`
	set := func(name, value string) string {
		body, _ := ReadObject(json.RawMessage(good))
		identity, _ := ReadObject(body.Get("identity"))
		if value == "" {
			return string(body.Set("identity", identity.Without(name).JSON()).JSON())
		}
		return string(body.Set("identity", identity.Set(name, json.RawMessage(value)).JSON()).JSON())
	}
	tests := []struct {
		name, body  string
		came, valid bool
	}{
		{"all of them", good, true, true},
		{"no schema known", set("schema_version", "null"), true, true},
		{"none", `{"status":"ok"}`, false, false},
		{"no object", `[]`, false, false},
		{"null", `{"identity":null}`, true, false},
		{"a text", `{"identity":"` + someID + `"}`, true, false},
	}
	for _, name := range []string{"contract_version", "runtime_id", "schema_version", "corpus_id", "build_id"} {
		tests = append(tests, struct {
			name, body  string
			came, valid bool
		}{"without " + name, set(name, ""), true, false})
	}
	for name, values := range map[string][]string{
		"contract_version": {`2`, `"1"`, `true`, `null`, `1.5`},
		"runtime_id":       {`null`, `""`, `1`, `"3F1C2B5E-8A7D-4C6B-9E0F-1A2B3C4D5E6F"`, `"3f1c2b5e-8a7d-1c6b-9e0f-1a2b3c4d5e6f"`, `"3f1c2b5e-8a7d-4c6b-ce0f-1a2b3c4d5e6f"`, `"3f1c2b5e8a7d4c6b9e0f1a2b3c4d5e6f"`},
		"schema_version":   {`"18"`, `18.5`, `true`, `[]`},
		"corpus_id":        {`"x"`, `0`, `""`},
		"build_id":         {`"x"`, `false`},
	} {
		for _, v := range values {
			tests = append(tests, struct {
				name, body  string
				came, valid bool
			}{name + " " + v, set(name, v), true, false})
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := readIdentity(json.RawMessage(tt.body))
			if got.came != tt.came || got.valid != tt.valid || (got.id != "") != tt.valid {
				t.Errorf("%+v of %s", got, tt.body)
			}
		})
	}
}

// The rule for a runtime id is the one of its maker: it is version 4 and prints
// as it was written.
func TestARuntimeIDIsWhatPrintsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
			rapid.StringMatching(`[0-9a-fA-F]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`), rapid.String()).Draw(t, "id")
		u, err := uuid.Parse(s)
		want := err == nil && u.String() == s && u.Version() == 4 && u.Variant() == uuid.RFC4122
		if ValidRuntimeID(s) != want {
			t.Fatalf("%q: %v", s, !want)
		}
	})
}

// A bound answer passes only when its identity is valid and equal.
func TestNothingButTheExpectedProcessPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SampledFrom([]string{someID, "4f1c2b5e-8a7d-4c6b-9e0f-1a2b3c4d5e6f", "x", ""}).Draw(t, "id")
		fields := Object{{"contract_version", Int(rapid.IntRange(0, 2).Draw(t, "version"))}, {"runtime_id", Quote(id)}, {"schema_version", Null}, {"corpus_id", Null}, {"build_id", Null}}
		drop := rapid.SampledFrom([]string{"", "contract_version", "runtime_id", "schema_version", "corpus_id", "build_id"}).Draw(t, "drop")
		intact := fields.at(drop) < 0 && string(fields.Get("contract_version")) == "1"
		status := rapid.SampledFrom([]int{200, 201, 404, 409, 500}).Draw(t, "status")
		body := Object{{"identity", fields.Without(drop).JSON()}}.JSON()
		problem := classify(someID, &Reply{Status: status, Body: body})
		switch {
		case status/100 != 2:
			if problem != nil {
				t.Fatalf("%d was taken for %s", status, problem.Code)
			}
		case intact && id == someID:
			if problem != nil {
				t.Fatalf("%s", problem.JSON())
			}
		case intact && ValidRuntimeID(id):
			if problem == nil || problem.Code != InstanceMismatch || problem.Detail["actual_runtime_id"] != id {
				t.Fatalf("%+v", problem)
			}
		default:
			if problem == nil || problem.Code != IdentityUnavailable {
				t.Fatalf("%+v", problem)
			}
		}
	})
}

func TestA409SaysMismatchOnlyByItsCode(t *testing.T) {
	tests := []struct {
		body, actual string
		ok           bool
	}{
		{`{"detail":{"code":"instance_mismatch","actual_runtime_id":"` + someID + `"}}`, someID, true},
		{`{"detail":{"code":"instance_mismatch"}}`, "", true},
		{`{"detail":{"code":"instance_mismatch","actual_runtime_id":"a secret"}}`, "", true},
		{`{"detail":{"code":"other"}}`, "", false},
		{`{"detail":"instance_mismatch"}`, "", false},
		{`{"code":"instance_mismatch"}`, "", false},
		{`[]`, "", false},
	}
	for _, tt := range tests {
		if actual, ok := saysMismatch(json.RawMessage(tt.body)); actual != tt.actual || ok != tt.ok {
			t.Errorf("%s: %q %v", tt.body, actual, ok)
		}
	}
}

// FuzzReplies holds the reading of the app's answers that say no, and of what
// they say of the process.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{`{"detail":"x"}`, `{"detail":[{"type":"missing","loc":["body",0,"x"],"input":"SECRET"}]}`, `{"detail":{"code":"instance_mismatch"}}`, `{"identity":{"runtime_id":1}}`, `{"detail":"Not Found"}`, `[`} {
		f.Add(seed, 422, true)
		f.Add(seed, 409, false)
	}
	f.Fuzz(func(t *testing.T, body string, status int, identityRoute bool) {
		r := &Reply{Status: status, Body: json.RawMessage(body), Header: http.Header{}}
		p := refusalOf("app", r, identityRoute)
		if p == nil || p.Code == "" || p.Message == "" || !json.Valid(p.JSON()) {
			t.Fatalf("%d %q: %+v", status, body, p)
		}
		if len([]rune(p.Message)) > maxRelayed+10 {
			t.Errorf("%d characters", len(p.Message))
		}
		if fields, ok := p.Detail["fields"].([]string); ok && len(fields) > maxFields {
			t.Errorf("%d fields", len(fields))
		}
		if said := readIdentity(r.Body); said.valid && !ValidRuntimeID(said.id) {
			t.Errorf("%+v", said)
		}
		classify(someID, r)
		saysOK(r.Body)
	})
}
