package shape

import (
	"encoding/json"
	"strings"
	"testing"
)

// bytesCounter counts a token a byte.
type bytesCounter struct{ asked int }

func (c *bytesCounter) Count(text string) Count {
	c.asked++
	return Count{Tokens: len(text), Exact: true}
}

func TestFactsHaveEveryFieldAndNullForWhatWasNotObserved(t *testing.T) {
	got, err := json.Marshal(CallFacts{CallID: "c", Verb: "x__a", Via: ViaDirect, Backend: "x", EffectsSource: "unknown"})
	want := `{"call_id":"c","verb":"x__a","alias":null,"via":"direct","backend":"x","runtime_id":null,"profile":null,"catalog":null,` +
		`"effects":null,"effects_source":"unknown","read_only":false,"queue_ms":null,"run_ms":null,"attempt":null,"job_id":null,"tokens":null,"shaped":null,"next":[],"warnings":[]}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s\nwant %s (%v)", got, want, err)
	}
	got, _ = json.Marshal(CallFacts{Tokens: &Tokens{Bytes: 3, Encoding: Encoding, Factor: 1}, Shaped: &ShapedFacts{Steps: []string{"text"}, ResultTokens: 500},
		Next: []Next{{"a", "b"}, {"c", "d"}, {"e", "f"}, {"g", "h"}}})
	for _, part := range []string{`"tokens":{"out":null,"bytes":3,"encoding":"o200k","exact":false,"factor":1}`,
		`"shaped":{"steps":["text"],"unit":null,"kept":null,"total":null,"result_tokens":500,"handle":null,"expires_at":null,"structured":null}`, `{"name":"e","why":"f"}],`} {
		if !strings.Contains(string(got), part) {
			t.Errorf("%s is not in %s", part, got)
		}
	}
}

func TestTheEnvelopeIsOnUnlessItIsSwitchedOff(t *testing.T) {
	for setting, on := range map[string]bool{"": true, "1": true, "on": true, "yes": true, "0": false, "false": false, "off": false, " OFF\n": false, "no": true} {
		if EnvelopeOn(setting) != on {
			t.Errorf("%q: %v", setting, !on)
		}
	}
}

func TestWithoutTheEnvelopeNothingElseChanges(t *testing.T) {
	for in, want := range map[string]string{
		`{ "content":[], "_meta" : {"a":1.0} }`:                      `{ "content":[], "_meta" : {"a":1.0} }`,
		`{"_meta":{"berth/call":{"verb":"fake"}},"x":1e400}`:         `{"_meta":{},"x":1e400}`,
		`{"_meta":{ "a" : 1 , "berth\u002fcall":1, "b":2 },"x":[ ]}`: `{"_meta":{"a":1,"b":2},"x":[ ]}`,
		`{"_meta":[]}`: `{"_meta":[]}`, `[1]`: `[1]`,
	} {
		if got := WithoutCallMeta(json.RawMessage(in)); string(got) != want {
			t.Errorf("%s became %s", in, got)
		}
	}
	in := json.RawMessage(`{"content":[],"structuredContent":{ "n" : 1.0 }}`)
	with, err := WithCallMeta(in, CallFacts{})
	if without := WithoutCallMeta(with); err != nil || string(without) != `{"content":[],"structuredContent":{ "n" : 1.0 },"_meta":{}}` {
		t.Errorf("got %s, %v", without, err)
	}
}

func TestGuidanceFollowsAnError(t *testing.T) {
	call := json.RawMessage(`{ "path" : "<path>" }`)
	for _, tt := range []struct{ name, in, want string }{
		{"an error", `{"isError":true,"content":[{"type":"text","text":"no"}],"z":1.0}`, `{"isError":true,"content":[{"type":"text","text":"no"},{"type":"text","text":"[berth] A minimal valid call: x__a {\"path\":\"<path>\"}"}],"z":1.0}`},
		{"an error without words", `{"content":[ ],"isError":true}`, `{"content":[ {"type":"text","text":"[berth] A minimal valid call: x__a {\"path\":\"<path>\"}"}],"isError":true}`},
		{"no error", `{"content":[],"isError":false}`, ``},
		{"nothing said", `{"content":[]}`, ``},
		{"no content", `{"isError":true}`, ``},
		{"no result", `7`, ``},
	} {
		got, ok := WithGuidance(json.RawMessage(tt.in), "x__a", call, &bytesCounter{})
		if ok != (tt.want != "") || (ok && string(got) != tt.want) || (!ok && string(got) != tt.in) {
			t.Errorf("%s: %v, %s", tt.name, ok, got)
		}
	}
}

func TestGuidanceIsShort(t *testing.T) {
	failed := json.RawMessage(`{"isError":true,"content":[]}`)
	counter := &bytesCounter{}
	if _, ok := WithGuidance(failed, "v", json.RawMessage(`{"a":"`+strings.Repeat("x", 60)+`"}`), counter); ok || counter.asked != 1 {
		t.Errorf("ok %v, counted %d times", ok, counter.asked)
	}
	if _, ok := WithGuidance(failed, "v", json.RawMessage(`{"a":1}`), counter); !ok || counter.asked != 1 {
		t.Errorf("ok %v, counted %d times", ok, counter.asked)
	}
	for _, none := range []string{``, `{`} {
		if _, ok := WithGuidance(failed, "v", json.RawMessage(none), counter); ok {
			t.Errorf("%q was taken", none)
		}
	}
}

func TestResultBudgetsHaveAnOrder(t *testing.T) {
	for _, tt := range []struct{ call, verb, profile, want Budget }{
		{0, 0, 0, DefaultBudget}, {0, 0, 3000, 3000}, {0, 4000, 3000, 4000}, {5000, 4000, 3000, 5000},
		{1, 0, 0, MinBudget}, {1 << 30, 0, 0, MaxBudget}, {0, 0, Whole, Whole}, {0, 600, Whole, 600},
		{700, Whole, 0, Whole}, // its output schema is listed
		{Whole, 0, 0, DefaultBudget}, {700, 0, Whole, 700},
	} {
		if got := ResultBudget(tt.call, tt.verb, tt.profile); got != tt.want {
			t.Errorf("%d, %d, %d: got %d, want %d", tt.call, tt.verb, tt.profile, got, tt.want)
		}
	}
}

func TestCostsAreCountedOnceForEachDigest(t *testing.T) {
	counter := &bytesCounter{}
	c := NewCosts(counter, map[string]int{"old": 7, "gone": 9, "listed": 3})
	if c.Of("old", "ignored") != 7 || c.Of("a", "four") != 4 || c.Of("a", "four") != 4 || counter.asked != 1 {
		t.Errorf("counted %d times", counter.asked)
	}
	if left := c.Retain(map[string]bool{"listed": true}); len(left) != 3 || left["a"] != 4 || left["old"] != 7 || left["listed"] != 3 {
		t.Errorf("left %v", left)
	}
	if c.Of("gone", "new text") != 8 || c.Counted() != 2 {
		t.Error("a cost was not forgotten")
	}
	for i := range maxCosts + 10 {
		c.Of(strings.Repeat("d", i%7)+string(rune(i)), "x")
	}
	if len(c.known) > maxCosts {
		t.Errorf("%d costs are remembered", len(c.known))
	}
}
