package shape

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/broker"

	"pgregory.net/rapid"
)

type facts struct {
	CallID string `json:"call_id"`
}

func TestWithCallMetaChangesNothingElse(t *testing.T) {
	const fact = `"berth/call":{"call_id":"c1"}`
	tests := []struct{ name, in, want string }{
		{"no _meta", `{"content":[],"n":9007199254740993}`, `{"content":[],"n":9007199254740993,"_meta":{` + fact + `}}`},
		{"empty result", `{}`, `{"_meta":{` + fact + `}}`},
		{"empty result with space", ` { } `, ` { "_meta":{` + fact + `}} `},
		{"empty _meta", `{"_meta":{ },"a":1}`, `{"_meta":{ ` + fact + `},"a":1}`},
		{"other keys of _meta are kept", `{"_meta":{"x/y":1.0},"a":"\u00e9"}`, `{"_meta":{"x/y":1.0,` + fact + `},"a":"\u00e9"}`},
		{"a backend's claim is replaced in its place", `{"_meta":{"berth/call":{"verb":"fake"},"z":1}}`, `{"_meta":{` + fact + `,"z":1}}`},
		{"an escaped claim is replaced", `{"_meta":{"berth\u002fcall":1}}`, `{"_meta":{"berth\u002fcall":{"call_id":"c1"}}}`},
		{"an escaped _meta is found", `{"\u005fmeta":{}}`, `{"\u005fmeta":{` + fact + `}}`},
		{"a repeated _meta leaves no claim", `{"_meta":{"berth/call":1},"_meta":{}}`, `{"_meta":{` + fact + `},"_meta":{` + fact + `}}`},
		{"a nested _meta is not ours", `{"content":[{"_meta":{"berth/call":1}}]}`, `{"content":[{"_meta":{"berth/call":1}}],"_meta":{` + fact + `}}`},
		{"pretty printed", "{\n \"a\": 1\n}\n", "{\n \"a\": 1\n,\"_meta\":{" + fact + "}}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := json.RawMessage(tt.in)
			got, err := WithCallMeta(in, facts{"c1"})
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if string(in) != tt.in {
				t.Error("the input was changed")
			}
		})
	}
}

func TestWithCallMetaReturnsTheResultWhenItCannotRead(t *testing.T) {
	for _, in := range []string{``, `null`, `[1]`, `{"a":1`, `{"a":1} {}`, `{"_meta":null}`, `{"_meta":[]}`} {
		got, err := WithCallMeta(json.RawMessage(in), facts{"c1"})
		if err == nil || string(got) != in {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	if _, err := WithCallMeta(json.RawMessage(`{"_meta":7}`), facts{}); !errors.Is(err, ErrMetaNotObject) {
		t.Errorf("got %v, want ErrMetaNotObject", err)
	}
	if _, err := WithCallMeta(json.RawMessage(`{}`), func() {}); err == nil {
		t.Error("facts that cannot be encoded passed")
	}
}

// withoutFacts decodes result without `_meta["berth/call"]`, and without a
// `_meta` that then is empty and that original did not have.
func withoutFacts(t testing.TB, result json.RawMessage) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(result))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", result, err)
	}
	if meta, ok := v["_meta"].(map[string]any); ok {
		delete(meta, CallMetaKey)
		if len(meta) == 0 {
			delete(v, "_meta")
		}
	}
	return v
}

func checkSplice(t testing.TB, in json.RawMessage) {
	out, err := WithCallMeta(in, facts{"c1"})
	if err != nil {
		if !bytes.Equal(out, in) {
			t.Fatalf("on an error %q became %q", in, out)
		}
		return
	}
	if !json.Valid(out) {
		t.Fatalf("%q became %q", in, out)
	}
	if got, want := withoutFacts(t, out), withoutFacts(t, in); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q became %q", in, out)
	}
	var facts struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(out, &facts); err != nil || string(facts.Meta[CallMetaKey]) != `{"call_id":"c1"}` {
		t.Fatalf("%q became %q: %v", in, out, err)
	}
	before, err := Members(in)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Members(out)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range before {
		if string(m.Raw) != string(after[i].Raw) || (m.Name != "_meta" && string(m.Value) != string(after[i].Value)) {
			t.Fatalf("%q became %q: member %d", in, out, i)
		}
	}
}

func FuzzWithCallMeta(f *testing.F) {
	for _, seed := range []string{`{}`, `{"_meta":{}}`, `{"_meta":{"berth/call":[]}}`, `{"a":{"_meta":{"berth/call":1}},"_meta":{"a":1e400}}`, "{\"\xff\":1}", `{"_meta":1}`, ` {"a":[ ] , "a" : 2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) { checkSplice(t, in) })
}

func TestWithCallMetaHoldsForAnyResult(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { checkSplice(t, drawObject(r, 3)) })
}

func drawObject(r *rapid.T, depth int) json.RawMessage {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{`"_meta"`, `"content"`, `"berth/call"`, `"a\u0062"`, `"é"`, `"x"`}), 0, 4, rapid.ID).Draw(r, "names")
	space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(r, "space")
	var out bytes.Buffer
	out.WriteString("{" + space)
	for i, n := range names {
		if i > 0 {
			out.WriteString("," + space)
		}
		out.WriteString(n + ":" + space)
		if depth > 0 && rapid.Bool().Draw(r, "object") {
			out.Write(drawObject(r, depth-1))
		} else {
			out.WriteString(rapid.SampledFrom([]string{`1.0`, `9007199254740993`, `"\u00e9"`, `null`, `[ 1, 2 ]`, `{}`}).Draw(r, "value"))
		}
	}
	out.WriteString(space + "}")
	return out.Bytes()
}

func TestHandleCarriesTheRecordTwiceUnlessItIsAnError(t *testing.T) {
	job := broker.Job{ID: "job_mpkd6cu0_Uuql5kDlrM4", Operation: "x__slow", Status: broker.JobAccepted, SubmittedAt: time.Date(2026, 5, 4, 9, 10, 2, 0, time.UTC)}
	type result struct {
		Content []struct {
			Type, Text string
		}
		StructuredContent json.RawMessage
		IsError           *bool
	}
	for _, tt := range []struct {
		name              string
		replayed, asError bool
		hint              string
	}{{"plain", false, false, ""}, {"replayed", true, false, ""}, {"with a hint", false, false, "Ask job_status."}, {"as an error", false, true, "Ask <job_status>."}} {
		t.Run(tt.name, func(t *testing.T) {
			var got result
			if err := json.Unmarshal(Handle(job, tt.replayed, tt.asError, tt.hint), &got); err != nil {
				t.Fatal(err)
			}
			want := string(job.Handle(tt.replayed))
			if tt.hint != "" {
				want = strings.TrimSuffix(want, "}") + `,"Hint":"` + tt.hint + `"}`
			}
			structured := want
			if tt.asError {
				structured = "" // a strict client would check it against the verb's own schema
			}
			if got.Content[0].Text != want || string(got.StructuredContent) != structured {
				t.Errorf("got %q and %s, want %s", got.Content[0].Text, got.StructuredContent, want)
			}
			if len(got.Content) != 1 {
				t.Errorf("content %v", got.Content)
			}
			if (got.IsError != nil && *got.IsError) != tt.asError {
				t.Errorf("isError %v", got.IsError)
			}
			if strings.Contains(want, "Replayed") != tt.replayed {
				t.Errorf("record %s", want)
			}
		})
	}
}

func TestToolResultIsOneTextBlock(t *testing.T) {
	if got := string(ToolResult(json.RawMessage(`{"a":"<\u00e9\n"}`), true)); got != `{"content":[{"type":"text","text":"{\"a\":\"<\\u00e9\\n\"}"}],"isError":true}` {
		t.Error(got)
	}
	if got := string(ToolResult(json.RawMessage("\"\xff\""), false)); !json.Valid([]byte(got)) || strings.Contains(got, "isError") {
		t.Error(got)
	}
}

func TestCanonicalIsOneTextForAllSpellings(t *testing.T) {
	a, errA := Canonical(json.RawMessage(`{ "b" : 1.0, "a" : {"y":"\u00e9","x":9007199254740993} }`))
	b, errB := Canonical(json.RawMessage(`{"a":{"x":9007199254740993,"y":"é"},"b":1.0}`))
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("%s (%v) and %s (%v)", a, errA, b, errB)
	}
	c, _ := Canonical(json.RawMessage(`{"a":{"x":9007199254740992,"y":"é"},"b":1.0}`))
	if string(c) == string(b) {
		t.Error("two numbers over 2^53 have one text")
	}
}
