package app

import (
	"encoding/json"
	"slices"
	"strings"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/shape"
)

// Surface is an app's contract as data. It is not changed once a Backend was
// made of it.
type Surface struct {
	Name    string // of the surface, for serverInfo; also how sentences call the app
	Version string // of the contract

	Discovery Discovery
	Sentences Sentences
	Routes    []Endpoint // the closed table; a Route is an index
	Tools     []Tool     // in the order of tools/list
}

// Method is how a route is asked. There is none that deletes.
type Method struct{ name string }

// The methods.
var (
	Get  = Method{"GET"}
	Post = Method{"POST"}
	Put  = Method{"PUT"}
)

// String is the method's name in HTTP.
func (m Method) String() string { return m.name }

// Endpoint is one method and path of an app. A path has at most one parameter,
// in braces.
type Endpoint struct {
	Method Method
	Path   string
	// Identity is true for the routes that take expected_runtime_id and answer
	// with an identity.
	Identity bool
}

// Route names an entry of a surface's table of routes.
type Route int

// Tool is one verb of an app.
type Tool struct {
	Name   string
	About  string  // one or two sentences for a model
	Params []Param // in the order of the schema
	// Records parts a text that the tool answers into records, which a merged
	// profile never cuts; nil: it has none. Fewer says how to ask for less.
	Records func(text string) []string
	Fewer   string
	Effects broker.Effects
	Confirm bool // requires_confirmation
	Control bool // control lane: never queued, takes no seat
	Held    bool // a hold on dispatch stops it
	Seats   int  // of admission; 0 is 1
	// SelfBound is true when the tool's own request carries the expectation and
	// its answer the identity, so that no preflight is needed.
	SelfBound bool
	// Internal is true for what only the broker calls: it is in no list.
	Internal bool
	// Tells names the tool that shows whether a write took effect after all.
	Tells string

	// Example are arguments that the tool takes, where the smallest that its
	// schema admits are refused; nil: those are taken.
	Example json.RawMessage
	// First looks at the arguments as they came, before anything else does.
	First func(arguments Object) *Problem
	Run   Run
	// Tracks says how the work that the tool starts is followed; nil: it starts
	// none.
	Tracks *Tracks
}

// Run answers one call: it composes requests and projects what came back.
// Nothing is reached before its first Send, so that what it refuses before
// that is refused without a request.
type Run func(c *Call) (json.RawMessage, *Problem)

// Sentences are the texts of an app's refusals. {base} stands for the address,
// {path} for the port file and {state} for the state directory.
type Sentences struct {
	NotRunning   string // the named port does not answer
	NotNamed     string // nothing named a port
	NoPath       string // in place of {path} when there is none
	BadPort      string // the port variable is not a port
	NoToken      string // no usable token file
	TokenRefused string // the probe was answered 401
	NotThisApp   string // something else answered the probe
	Restarted    string // 401 on an attached call
	Stopped      string // a failure after the probe
	ReadOnly     string
	Unsure       string // what a write whose end is not known adds
}

// Tool finds a tool by its own name.
func (s *Surface) Tool(name string) (*Tool, bool) {
	i := slices.IndexFunc(s.Tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return nil, false
	}
	return &s.Tools[i], true
}

// Names lists the environment names that make up an instance.
func (s *Surface) Names() []string {
	d := s.Discovery
	return []string{d.Port, d.PortFile, d.Database, d.StateDir, d.ReadOnly}
}

// ReadOnly reports whether a map of environment names asks for a read-only
// surface: its variable is exactly "1".
func (s *Surface) ReadOnly(env map[string]string) bool { return env[s.Discovery.ReadOnly] == "1" }

// Server is what the surface says of itself at a handshake.
func (s *Surface) Server() broker.ServerInfo {
	return broker.ServerInfo{
		Info:         appendObject(nil, Field{"name", text(s.Name)}, Field{"version", text(s.Version)}),
		Capabilities: json.RawMessage(`{"tools":{}}`),
	}
}

// List gives the entries of tools/list in order, the reads only when asked. The
// bytes are the same at each call.
func (s *Surface) List(readOnly bool) []broker.Tool {
	out := make([]broker.Tool, 0, len(s.Tools))
	for i := range s.Tools {
		t := &s.Tools[i]
		if t.Internal || readOnly && t.Effects != broker.Read {
			continue
		}
		out = append(out, broker.Tool{Name: t.Name, Raw: t.entry()})
	}
	return out
}

// Source is the surface as the catalog takes it; the rules of an operator are
// the caller's to add.
func (s *Surface) Source(backend string, readOnly bool) catalog.Source {
	out := catalog.Source{Backend: backend, Listed: true, Server: s.Server(), Tools: s.List(readOnly),
		Effects: map[string]broker.Effects{}}
	for _, t := range s.Tools {
		if t.Internal {
			continue
		}
		out.Effects[t.Name] = t.Effects
		if t.Control {
			out.Control = append(out.Control, t.Name)
		}
	}
	return out
}

func (t *Tool) entry() json.RawMessage {
	confirm := json.RawMessage("false")
	if t.Confirm {
		confirm = json.RawMessage("true")
	}
	return appendObject(nil, Field{"name", text(t.Name)}, Field{"description", text(t.About)},
		Field{"inputSchema", t.schema()}, Field{"requires_confirmation", confirm})
}

// path is the endpoint's path with its parameter filled in.
func (e Endpoint) path(id string) string {
	from, to := strings.IndexByte(e.Path, '{'), strings.IndexByte(e.Path, '}')
	if from < 0 {
		return e.Path
	}
	return e.Path[:from] + id + e.Path[to+1:]
}

// Result is a document of the surface as a tool result.
func Result(document json.RawMessage, isError bool) json.RawMessage {
	return shape.ToolResult(document, isError)
}
