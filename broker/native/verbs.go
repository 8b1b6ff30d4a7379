package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/shape"
)

// Verb is one verb of a family that is written as a table.
type Verb struct {
	Name string
	// Entry is the verb as it is listed: name, title, description, inputSchema.
	Entry   string
	Aliases []string
	Effects broker.Effects // of any call; Rules narrow it for some arguments
	Rules   []catalog.EffectRule
	Facts   catalog.Facts
	Control bool // never queued and takes no seat
	Long    bool // accepted as a job at once
	Held    bool // an operator's stop refuses its calls
	// Beside puts the verb into every backend's exact profile too, MergedOnly
	// keeps it out of all of them.
	Beside, MergedOnly bool
	// Pass makes it a verb that passes calls on; policy answers it then.
	Pass catalog.Pass
	// Check judges arguments by what they say alone, before a key is looked up and
	// a hold is looked at; nil: the schema is enough. See catalog.Source.
	Check func(arguments json.RawMessage) *broker.Refusal
	// Answer answers one call. Its value becomes the result, as JSON, without an
	// escaped < or >. An error that is a *broker.Refusal is answered as one, a
	// *broker.Failure and the end of ctx end the call, and any other error is
	// logged and answered in one neutral sentence.
	Answer func(ctx context.Context, ask Ask) (any, error)
}

// Ask is one call of a verb.
type Ask struct {
	// Arguments are an object that was normalised and that its schema admits.
	Arguments json.RawMessage
	// Call is where it comes from: principal, origin, the client.
	Call *broker.Call
	Now  time.Time
	// Done is closed when this life of the family ends: a verb that waits stops
	// then and gives ErrStopped.
	Done <-chan struct{}
}

// Released is what a verb answers that gives the result of a job out.
type Released struct {
	Value any
	Job   string // its id
}

// ErrStopped ends a call whose family stopped while it waited.
var ErrStopped = &broker.Failure{Dispatched: true, Gone: true, Cause: "the native verbs were stopped"}

// Decode reads the arguments into a struct.
func (a Ask) Decode(into any) error {
	if err := json.Unmarshal(a.Arguments, into); err != nil {
		return broker.Refuse(broker.CodeInvalidArguments, "The arguments do not fit this verb.",
			map[string]any{"Violations": []map[string]string{{"Path": "", "Problem": "type: wanted arguments that fit the schema"}}})
	}
	return nil
}

// Options is what every family of this kind needs. Now is required.
type Options struct {
	// RuntimeID names this life of the broker; it becomes the incarnation's.
	RuntimeID string
	Server    broker.ServerInfo
	Now       func() time.Time
	Log       *slog.Logger // nil discards
}

// Verbs is a family that is written as a table.
type Verbs struct {
	name  string
	verbs []Verb
	opts  Options
}

// NewFamily makes a family of verbs.
func NewFamily(name string, o Options, verbs ...Verb) *Verbs {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Verbs{name: name, verbs: verbs, opts: o}
}

// Source is the family as the catalog takes it. A verb that nobody answers is
// none of its handlers, which stops the start.
func (f *Verbs) Source() catalog.Source {
	s := catalog.Source{Backend: catalog.NativeName, Native: true, Family: f.name, Listed: true, Server: f.opts.Server,
		Effects: map[string]broker.Effects{}, Conditional: map[string][]catalog.EffectRule{}, Facts: map[string]catalog.Facts{},
		Aliases: map[string]string{}, Passes: map[string]catalog.Pass{}, Checks: map[string]func(json.RawMessage) *broker.Refusal{}}
	for _, v := range f.verbs {
		s.Tools = append(s.Tools, broker.Tool{Name: v.Name, Raw: json.RawMessage(v.Entry)})
		s.Effects[v.Name], s.Facts[v.Name] = v.Effects, v.Facts
		if len(v.Rules) > 0 {
			s.Conditional[v.Name] = v.Rules
		}
		if v.Check != nil {
			s.Checks[v.Name] = v.Check
		}
		for _, alias := range v.Aliases {
			s.Aliases[alias] = v.Name
		}
		if v.Pass != catalog.NoPass {
			s.Passes[v.Name] = v.Pass
		}
		for _, list := range []struct {
			in    bool
			names *[]string
		}{{v.Answer != nil || v.Pass != catalog.NoPass, &s.Handlers}, {v.Control, &s.Control}, {v.Held, &s.Held}, {v.Long, &s.Rules.Long}, {v.Beside, &s.Beside}, {v.MergedOnly, &s.MergedOnly}} {
			if list.in {
				*list.names = append(*list.names, v.Name)
			}
		}
	}
	return s
}

// Open gives a connection; it never fails.
func (f *Verbs) Open(context.Context, broker.Hear) (broker.Conn, error) {
	return &verbsConn{family: f, done: make(chan struct{})}, nil
}

// verbsConn is one life of a family.
type verbsConn struct {
	family *Verbs
	done   chan struct{}
	once   sync.Once
}

// Incarnation gives the facts of this life.
func (c *verbsConn) Incarnation() broker.Incarnation {
	o := c.family.opts
	return broker.Incarnation{RuntimeID: o.RuntimeID, Reported: o.RuntimeID != "", Server: o.Server, Tools: c.family.Source().Tools,
		Done: c.done, Cause: func() string { return "the native verbs were stopped" }}
}

// List gives the verbs, which do not change.
func (c *verbsConn) List(context.Context) ([]broker.Tool, []string, error) {
	return c.family.Source().Tools, nil, nil
}

// Close ends the life; what waits in it ends with it.
func (c *verbsConn) Close(context.Context) error {
	c.once.Do(func() { close(c.done) })
	return nil
}

// Call answers a verb of the family.
func (c *verbsConn) Call(ctx context.Context, call *broker.Call, _ broker.Peer) (broker.Answer, error) {
	var params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	err := json.Unmarshal(call.Params, &params)
	verb := slices.IndexFunc(c.family.verbs, func(v Verb) bool { return v.Name == params.Name && v.Answer != nil })
	if err != nil || verb < 0 { // nothing that came through policy ends here
		return broker.Answer{}, &broker.Failure{Cause: "the native family " + c.family.name + " has no such verb", Refusal: broker.Refuse(
			broker.CodeVerbUnknown, "Tool not found: "+call.Verb, map[string]any{"name": call.Verb})}
	}
	if len(params.Arguments) == 0 || string(params.Arguments) == "null" {
		params.Arguments = json.RawMessage("{}")
	}
	value, err := c.family.verbs[verb].Answer(ctx, Ask{params.Arguments, call, c.family.opts.Now(), c.done})
	released, _ := value.(Released)
	if released.Job != "" {
		value = released.Value
	}
	result, err := c.result(ctx, call, value, err)
	if err != nil {
		return broker.Answer{}, err
	}
	return broker.Answer{Result: result, RuntimeID: c.family.opts.RuntimeID, Releases: released.Job}, nil
}

// result is the protocol's form of what a verb answered.
func (c *verbsConn) result(ctx context.Context, call *broker.Call, value any, err error) (json.RawMessage, error) {
	var refusal *broker.Refusal
	var failure *broker.Failure
	switch {
	case err == nil:
		explicit, said := value.(Explicit)
		if said {
			value = explicit.Value
		}
		raw, wrong := Encode(value)
		if err = wrong; wrong == nil {
			return shape.Structured(raw, explicit.IsError || (!said && saysError(raw))), nil
		}
	case errors.As(err, &refusal):
		return shape.Structured(refusal.NativeJSON(), true), nil
	case errors.As(err, &failure):
		return nil, err
	case ctx.Err() != nil:
		return nil, &broker.Failure{Dispatched: true, Cause: "the call ended while the broker worked on it"}
	}
	c.family.opts.Log.Error("a verb of the broker failed", slog.String("verb", call.Verb), slog.String("call", call.ID), slog.String("cause", err.Error()))
	return shape.Structured(broker.AsRefusal(err).NativeJSON(), true), nil
}

// Explicit is a result that says itself whether it is an error, whatever stands
// in it.
type Explicit struct {
	Value   any
	IsError bool
}

// saysError reports whether a result is an error by its content: a member Error
// of its own, in any letter case, that is a text and not blank
// (contracts/native.md section 1.8).
func saysError(result json.RawMessage) bool {
	members, err := shape.Members(result)
	if err != nil {
		return false
	}
	for _, m := range members {
		if !strings.EqualFold(m.Name, "error") {
			continue
		}
		if text, ok := shape.Text(m.Value); ok && strings.TrimSpace(text) != "" {
			return true
		}
	}
	return false
}

// Encode is the JSON of a value as verbs answer it: < and > are not escaped.
func Encode(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
