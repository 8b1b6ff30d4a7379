package broker

import (
	"strings"
	"testing"
)

func TestParseTraceTakesWhatTheStandardAllows(t *testing.T) {
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	good := "00-" + trace + "-" + span + "-01"
	tests := []struct {
		name, parent, state string
		want                TraceContext
	}{
		{"version 00", good, "", TraceContext{Parent: good}},
		{"with a state", good, "a=1,b=2", TraceContext{Parent: good, State: "a=1,b=2"}},
		{"a later version is spoken to as 00", "cc-" + trace + "-" + span + "-01-what-comes", "", TraceContext{Parent: good}},
		{"version 00 with more", good + "-more", "", TraceContext{}},
		{"a later version with more and no dash", "cc-" + trace + "-" + span + "-01.more", "", TraceContext{}},
		{"the forbidden version", "ff" + good[2:], "", TraceContext{}},
		{"upper case", strings.ToUpper(good), "", TraceContext{}},
		{"no trace id", "00-" + strings.Repeat("0", 32) + "-" + span + "-01", "", TraceContext{}},
		{"no span id", "00-" + trace + "-" + strings.Repeat("0", 16) + "-01", "", TraceContext{}},
		{"too short", good[:54], "", TraceContext{}},
		{"a line break", good[:54] + "\n", "", TraceContext{}},
		{"nothing", "", "a=1", TraceContext{}},
		{"a malformed parent takes its state with it", "x", "a=1", TraceContext{}},
		{"a state with a line break", good, "a=1\r\nX-Evil: 1", TraceContext{Parent: good}},
		{"a state that is not ASCII", good, "a=\u202e", TraceContext{Parent: good}},
		{"a state that is too long", good, "a=" + strings.Repeat("1", maxTraceState), TraceContext{Parent: good}},
		{"an empty state", good, "  ", TraceContext{Parent: good}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ParseTrace(tt.parent, tt.state); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	if id := ParseTrace(good, "").TraceID(); id != trace {
		t.Errorf("trace id %q, want %q", id, trace)
	}
}

// FuzzParseTrace: whatever comes, what is passed on can stand in a header and
// reads as itself.
func FuzzParseTrace(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=1")
	f.Add("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x", "a=\n")
	f.Fuzz(func(t *testing.T, parent, state string) {
		got := ParseTrace(parent, state)
		if strings.ContainsFunc(got.Parent+got.State, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%+v cannot stand in a header", got)
		}
		if again := ParseTrace(got.Parent, got.State); again != got {
			t.Fatalf("%+v reads as %+v", got, again)
		}
		if !got.Known() && got.State != "" {
			t.Fatalf("a state without a parent: %+v", got)
		}
	})
}
