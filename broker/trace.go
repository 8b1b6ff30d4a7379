package broker

import "strings"

// TraceContext is the place of a call in a distributed trace, in the two values
// of W3C Trace Context. The zero value is none: the call is part of no trace
// that we know of.
type TraceContext struct {
	// Parent is a `traceparent` that was checked, in the form of version 00.
	Parent string
	// State is the `tracestate` beside it, as it came; empty when there is none
	// or when it cannot be one.
	State string
}

// The keys of a trace context in `_meta` (SEP-414), which are also the names of
// its HTTP headers.
const (
	TraceParentKey = "traceparent"
	TraceStateKey  = "tracestate"
)

const (
	traceParentLen = 55      // of version 00: version, trace, span, flags
	maxTraceState  = 2 << 10 // four times what W3C asks everybody to pass on
)

// ParseTrace reads a trace context as its sender wrote it. A malformed parent
// is none, and then its state means nothing; a state that cannot be one is
// left out, as the standard asks.
func ParseTrace(parent, state string) TraceContext {
	if len(parent) < traceParentLen || !validTraceParent(parent[:traceParentLen]) {
		return TraceContext{}
	}
	switch version := parent[:2]; {
	case version == "ff":
		return TraceContext{}
	case len(parent) == traceParentLen:
	case version == "00" || parent[traceParentLen] != '-':
		return TraceContext{} // only later versions have more, behind a dash
	}
	t := TraceContext{Parent: "00" + parent[2:traceParentLen], State: state}
	if len(state) > maxTraceState || strings.TrimSpace(state) == "" ||
		strings.ContainsFunc(state, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.State = ""
	}
	return t
}

// Known reports whether there is a trace at all.
func (t TraceContext) Known() bool { return t.Parent != "" }

// TraceID is the id of the trace, 32 hexadecimal digits; empty for none.
func (t TraceContext) TraceID() string {
	if !t.Known() {
		return ""
	}
	return t.Parent[3:35]
}

// validTraceParent checks the four fields that every version begins with.
func validTraceParent(s string) bool {
	for i := range len(s) {
		switch i {
		case 2, 35, 52:
			if s[i] != '-' {
				return false
			}
		default:
			if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
				return false
			}
		}
	}
	return strings.Trim(s[3:35], "0") != "" && strings.Trim(s[36:52], "0") != ""
}
