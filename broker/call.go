package broker

import (
	"bytes"
	"encoding/json"
	"time"
)

// Lane is the part of a backend's queue that a call waits in (DESIGN section 6).
type Lane uint8

// The lanes. Control is never queued and takes no seat.
const (
	LaneCalls Lane = iota
	LaneJobs
	LaneControl
)

// Call is one invocation of a verb on its way to a backend. It is built by a
// transport, passes policy, and is not changed afterwards.
type Call struct {
	ID        string // ours, unique in this process
	Principal Principal
	Session   string // fairness key inside the principal; empty without a session
	Backend   string
	Verb      string // canonical name, for the journal, the log and metrics
	Effects   Effects
	Lane      Lane
	Seats     int // admission cost; at least 1

	// Method and Params are what the backend receives. Params is a JSON object
	// with the backend's own verb name; a progress token and keys of `_meta`
	// that are addressed to Berth have been taken out.
	Method string
	Params json.RawMessage

	WantProgress      bool
	ExpectedRuntimeID string // checked before admission and on the answer

	Client Client
	Origin Origin

	// Trace is what the backend is told of the trace that the call is in; zero:
	// nothing. A backend's transport writes it, beside what the params say.
	Trace TraceContext

	// Share limits what the caller takes of the backend; nil: nothing does.
	Share *CallShare

	// Pinned is the entry of its verb by which the call was judged, for the actor of
	// a pinned backend: a life that lists another must not run it. nil: the backend
	// is not pinned.
	Pinned *PinnedEntry

	// Proof is what the call has to prove, for the actor of its backend: a
	// *proof.Proving; nil is nothing.
	Proof any
}

// PinnedEntry names an entry of a backend's list by the backend's own name of the
// verb, and what stands in it by a digest.
type PinnedEntry struct{ Name, Digest string }

// Origin is where a call comes from, for the broker's own verbs, whose answers
// depend on it.
type Origin struct {
	// Profile is the catalog as the caller sees it, that of the moment in which
	// the call was planned: a *catalog.Profile.
	Profile interface{ Name() string }
	// Holder names whoever was served lists: the session, or what stands for one
	// in the stateless era.
	Holder string
	// Participant is the key under which the caller takes part in the board; empty
	// without a valid one. It is what the caller says of itself and gives no right.
	Participant string
}

// Client is what a harness said of itself: at its handshake, or, in the
// stateless era, with the request.
type Client struct {
	Version      string          // of the protocol
	Stateless    bool            // 2026-07-28 and later
	Info         json.RawMessage // clientInfo; nil when unknown
	Capabilities json.RawMessage // nil when unknown, which counts as none
}

// Bytes is what the call weighs against the limit on bytes in flight.
func (c *Call) Bytes() int64 { return int64(len(c.Params)) }

// CanBeJob reports whether the call's outcome can be kept as a job's: only a
// tool's can, and no control call's.
func (c *Call) CanBeJob() bool {
	return c.Lane != LaneControl && (c.Method == "" || c.Method == "tools/call")
}

// Progress is one progress notification of a backend: the params of
// `notifications/progress` without the token of the hop that it came over.
type Progress struct {
	Params json.RawMessage
}

// RPCError is a JSON-RPC error as the backend gave it.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
	// Raw is the whole error object as it came, members included that JSON-RPC
	// does not name; nil for an error that was made from its parts.
	Raw json.RawMessage `json:"-"`
}

// MarshalJSON gives the error object as it came, or makes it from its parts.
func (e RPCError) MarshalJSON() ([]byte, error) {
	if e.Raw != nil {
		return e.Raw, nil
	}
	type parts RPCError
	return marshal(parts(e)), nil
}

// UnmarshalJSON reads the parts and keeps a copy of the whole.
func (e *RPCError) UnmarshalJSON(raw []byte) error {
	type parts RPCError
	if err := json.Unmarshal(raw, (*parts)(e)); err != nil {
		return err
	}
	e.Raw = bytes.Clone(raw)
	return nil
}

// Object is the error object as JSON.
func (e *RPCError) Object() json.RawMessage {
	raw, _ := e.MarshalJSON() // never fails
	return raw
}

// Answer is what a backend said to a call. Exactly one of Result and Error is set.
type Answer struct {
	Result    json.RawMessage // the JSON-RPC result, byte for byte
	Error     *RPCError
	RuntimeID string // incarnation that answered; empty when it has none
	// Releases is the id of the job whose result stands in the answer.
	Releases string
}

// ToolError reports whether the answer is a tool result with `isError: true`.
// A result that is no tool result is not one.
func (a Answer) ToolError() bool {
	if plainlyNoError(a.Result) {
		return false // most are none, and large ones are not read for it
	}
	var r struct {
		IsError bool `json:"isError"`
	}
	return json.Unmarshal(a.Result, &r) == nil && r.IsError
}

// plainlyNoError reports whether the text of a result shows without reading it
// that it has no `isError: true`: whatever has the name has false after it.
func plainlyNoError(result json.RawMessage) bool {
	name := []byte("isError")
	for rest := []byte(result); ; {
		i := bytes.Index(rest, name)
		if i < 0 {
			return !bytes.Contains(result, []byte(`\u`)) // the name may be written otherwise
		}
		rest = rest[i+len(name):]
		value := bytes.TrimLeft(rest, "\" \t\r\n:")
		if !bytes.HasPrefix(value, []byte("false")) {
			return false
		}
	}
}

// Failure says how far a call got when no answer came. A transport to a
// backend returns it as its error.
type Failure struct {
	// Dispatched is true when the first byte of the call may have been handed
	// over. It is false only when it certainly was not.
	Dispatched bool
	// Gone is true when the incarnation has ended, so that another may be tried.
	Gone bool
	// Abandoned is true when a cancel was sent and no answer came within the grace.
	Abandoned bool
	// Refusal, when set, is the answer whatever the flags say (for instance
	// answer_too_large).
	Refusal *Refusal
	// Cause is one sentence without credentials; Stderr the redacted tail of a child's stderr.
	Cause  string
	Stderr string
}

func (f *Failure) Error() string { return f.Cause }

// Refuse turns a failure into the answer that DESIGN section 4 "Outcome"
// prescribes: `backend_unavailable` only when nothing was dispatched or the
// verb is a read, else `outcome_unknown`.
func (f *Failure) Refuse(call *Call) *Refusal {
	if f.Refusal != nil {
		return f.Refusal
	}
	detail := map[string]any{"backend": call.Backend, "verb": call.Verb, "cause": f.Cause}
	if f.Stderr != "" {
		detail["stderr"] = f.Stderr
	}
	if f.Dispatched && call.Effects != Read {
		return Refuse(CodeOutcomeUnknown, "The call was sent to "+call.Backend+" and no answer came back; it may have taken effect. Check before repeating it.", detail)
	}
	return Refuse(CodeBackendUnavailable, "The backend "+call.Backend+" is not available; nothing was changed by this call.", detail)
}

// Timing is what was observed of one call. A zero Started means that it never ran.
type Timing struct {
	Offered time.Time
	Started time.Time
	Ended   time.Time
	Attempt int // of the run that was answered, from 1; 0: none ran
}

// Tool is one verb as a backend lists it.
type Tool struct {
	Name string
	Raw  json.RawMessage // the whole entry of tools/list, byte for byte
}

// ServerInfo is what a backend said of itself at the handshake.
type ServerInfo struct {
	ProtocolVersion string          `json:"protocolVersion"`
	Info            json.RawMessage `json:"serverInfo,omitempty"`
	Capabilities    json.RawMessage `json:"capabilities,omitempty"`
	Instructions    string          `json:"instructions,omitempty"`
}

// Incarnation is one life of a backend.
type Incarnation struct {
	// RuntimeID names this life: the id that the backend reports, else one
	// minted for a life that Berth can see, else empty (DESIGN section 7).
	RuntimeID string
	// Reported is true when the backend itself gave the id.
	Reported bool
	Server   ServerInfo
	Tools    []Tool
	// Flags are facts an operator should see, such as "tools/list repeats a cursor".
	Flags []string
	PID   int // of a child, else 0
	// PerCall is true when which process answers is found out with each call:
	// Open reached nothing, the backend itself checks an expected runtime id and
	// refuses in its own words, and a life that ends because another process
	// answers now is followed by the next at once.
	PerCall bool
	// Done is closed when the life is over; Cause then says why, in one sentence.
	Done  <-chan struct{}
	Cause func() string
}

// StoredCatalog is the last catalog that a backend gave and Berth accepted. It
// serves lists before the backend is up.
type StoredCatalog struct {
	Backend string     `json:"backend"`
	Origin  string     `json:"origin,omitempty"` // digest of the configuration that was reached
	Server  ServerInfo `json:"server"`
	Tools   []Tool     `json:"tools"`
	// Told names what of its verbs was written as an event and still stands, so
	// that a restart does not tell it again.
	Told []string `json:"told,omitempty"`
	// Costs are what texts of the catalog cost in tokens, by their digests. They
	// are of the whole catalog and stand with the broker's own part.
	Costs map[string]int `json:"costs,omitempty"`
	At    time.Time      `json:"at"` // when it was kept
}
