package meta

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/help"
	"berth/broker/policy/proof"
	"berth/broker/shape"
)

// Options is what the family needs. Now, Random, Store, Counter and Ledger are
// required.
type Options struct {
	Server    broker.ServerInfo
	Version   string
	RuntimeID string // of this life of the broker
	Started   time.Time
	Now       func() time.Time
	Random    io.Reader // of handles

	// Store keeps what was cut, Counter counts parts of it, Costs the entries of
	// verbs; without Costs nothing is said of those.
	Store   *shape.Store
	Counter shape.Counter
	Costs   *shape.Costs
	Ledger  *Ledger

	// Standing says how a backend is and which life of it runs; nil: nothing is
	// said of it.
	Standing func(backend string) (availability, runtimeID string)
	// Proofs are the rules in force; nil: there are none.
	Proofs func() *proof.Rules
	// Delivered is told what was put with an answer when its last part is given
	// out; nil is not.
	Delivered func(then any)
	Routes    []help.OwnRoute
	// TierSource says where the tier of an endpoint without a profile comes from.
	Tier, TierSource string
}

// Family is the native family catalog, with health.
type Family struct {
	opts   Options
	byName map[string]record
}

// New makes the family.
func New(opts Options) *Family {
	f := &Family{opts: opts, byName: map[string]record{}}
	for _, r := range records {
		f.byName[r.name] = r
	}
	return f
}

// Source is the family as the catalog takes it.
func (f *Family) Source() catalog.Source {
	s := catalog.Source{Backend: catalog.NativeName, Native: true, Family: catalog.FamilyCatalog, Listed: true, Server: f.opts.Server,
		Effects: map[string]broker.Effects{}, Facts: map[string]catalog.Facts{}, Passes: map[string]catalog.Pass{}}
	for _, r := range records {
		s.Tools = append(s.Tools, r.tool())
		s.Effects[r.name], s.Facts[r.name] = r.effects, r.facts
		if r.pass != catalog.NoPass {
			s.Passes[r.name] = r.pass
		}
		// The verbs that pass calls on are answered by policy, which takes them apart.
		s.Handlers = append(s.Handlers, r.name)
		s.Control = append(s.Control, r.name)
		s.MergedOnly = append(s.MergedOnly, r.name)
	}
	return s
}

// Open gives a connection; it never fails.
func (f *Family) Open(context.Context, broker.Hear) (broker.Conn, error) {
	return &conn{family: f, done: make(chan struct{})}, nil
}

// conn is one life of the family.
type conn struct {
	family *Family
	done   chan struct{}
	once   sync.Once
}

// Incarnation gives the facts of this life.
func (c *conn) Incarnation() broker.Incarnation {
	o := c.family.opts
	return broker.Incarnation{RuntimeID: o.RuntimeID, Reported: o.RuntimeID != "", Server: o.Server, Tools: c.family.Source().Tools,
		Done: c.done, Cause: func() string { return "the native verbs were stopped" }}
}

// List gives the verbs, which do not change.
func (c *conn) List(context.Context) ([]broker.Tool, []string, error) {
	return c.family.Source().Tools, nil, nil
}

// Close ends the life.
func (c *conn) Close(context.Context) error {
	c.once.Do(func() { close(c.done) })
	return nil
}

// ask is one call: the arguments, and who makes it.
type ask struct {
	arguments json.RawMessage
	profile   *catalog.Profile // as its caller sees it
	who       broker.Principal
	holder    string
	now       time.Time
}

// Call answers a verb of the family at once.
func (c *conn) Call(_ context.Context, call *broker.Call, _ broker.Peer) (broker.Answer, error) {
	var params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	err := json.Unmarshal(call.Params, &params)
	r, known := c.family.byName[params.Name]
	profile, placed := call.Origin.Profile.(*catalog.Profile)
	if err != nil || !known || r.answer == nil || !placed {
		// Nothing that came through policy ends here.
		return broker.Answer{}, &broker.Failure{Cause: "the catalog family cannot answer this call", Refusal: broker.Refuse(
			broker.CodeVerbUnknown, "Tool not found: "+call.Verb, map[string]any{"name": call.Verb})}
	}
	if len(params.Arguments) == 0 || string(params.Arguments) == "null" {
		params.Arguments = json.RawMessage("{}")
	}
	answer, refusal := r.answer(c.family, ask{params.Arguments, profile, call.Principal, call.Origin.Holder, c.family.opts.Now()})
	result := json.RawMessage(nil)
	if refusal != nil {
		result = shape.Structured(refusal.NativeJSON(), true)
	} else {
		result = shape.Structured(encode(answer), false)
	}
	return broker.Answer{Result: result, RuntimeID: c.family.opts.RuntimeID}, nil
}

// encode writes a value of this package, whose encoding cannot fail. Text keeps
// its < and >: placeholders are written with them.
func encode(v any) json.RawMessage {
	if raw, ok := v.(json.RawMessage); ok {
		return raw
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage(`{"Error":"The answer could not be written.","Code":"internal"}`)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// decode reads arguments that their schema admits.
func decode(raw json.RawMessage, into any) *broker.Refusal {
	if err := json.Unmarshal(raw, into); err != nil {
		return misfit("", "type: wanted arguments that fit the schema")
	}
	return nil
}

// misfit refuses an argument in the form of native verbs.
func misfit(path, problem string) *broker.Refusal {
	return broker.Refuse(broker.CodeInvalidArguments, "The arguments do not fit this verb.",
		map[string]any{"Violations": []map[string]string{{"Path": path, "Problem": problem}}})
}

func (f *Family) availability(v *catalog.Verb) string {
	if v.Changed != "" {
		return "changed"
	}
	if f.opts.Standing == nil {
		return "ready"
	}
	availability, _ := f.opts.Standing(v.Backend)
	return availability
}
