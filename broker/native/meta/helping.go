package meta

import (
	"encoding/json"
	"slices"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/help"
	"berth/broker/native"
	"berth/broker/shape"
)

// help answers from the index of all that its caller may see.
func (f *Family) help(a ask) (any, *broker.Refusal) {
	var args struct {
		Name, Mode, Intent string
		ErrorText          string `json:"error_text"`
		MaxSuggestions     int    `json:"max_suggestions"`
	}
	if refusal := decode(a.arguments, &args); refusal != nil {
		return nil, refusal
	}
	desk := help.Desk{View: &view{family: f, ask: a}, Index: a.profile.Index(), Routes: f.opts.Routes, Catalog: a.profile.Fingerprint()}
	reply, refusal := desk.Answer(help.Question{Name: args.Name, Mode: help.Mode(args.Mode), Intent: args.Intent, ErrorText: args.ErrorText, MaxSuggestions: args.MaxSuggestions})
	if refusal != nil {
		return nil, refusal
	}
	return reply, nil
}

// view is the catalog as help looks at it.
type view struct {
	family *Family
	ask    ask
	denied []*catalog.Verb // verbs by name that the caller may not call now
}

// Resolve finds the verb of a name. One that is denied because its caller only
// reads is in no index; it has a place after it.
func (w *view) Resolve(name string) (int, bool) {
	p := w.ask.profile
	v, ok := p.Resolve(name)
	if !ok {
		return 0, false
	}
	if doc, ok := p.DocOf(v); ok {
		return doc, true
	}
	at := slices.Index(w.denied, v)
	if at < 0 {
		at = len(w.denied)
		w.denied = append(w.denied, v)
	}
	return p.Reachable() + at, true
}

// Verb tells of a verb.
func (w *view) Verb(doc int) help.Verb {
	p := w.ask.profile
	var v *catalog.Verb
	name := ""
	if n := p.Reachable(); doc >= n {
		v = w.denied[doc-n]
		name = p.Outward(v)
	} else {
		e := p.At(doc)
		v, name = e.Verb, e.Name
	}
	c := w.family.card(w.ask, v)
	raw, _ := native.Encode(c) // a card is text and JSON that was read before: its encoding cannot fail
	out := help.Verb{Name: name, Via: c.Via, Card: raw, Inputs: inputs(name, v.InputSchema), Callable: c.Callable, Reason: c.Reason}
	if c.MinimalCall != nil {
		out.Minimal = c.MinimalCall
	}
	for _, n := range v.Next {
		if _, ok := p.Named(n.Name); ok {
			out.Next = append(out.Next, help.Next{Name: n.Name, Why: n.Why})
		}
	}
	return out
}

// Backend gives the state of a backend that the caller may reach a verb of.
func (w *view) Backend(name string) (string, bool) {
	if !slices.Contains(reached(w.ask.profile), name) {
		return "", false
	}
	if w.family.opts.Standing == nil {
		return "ready", true
	}
	state, _ := w.family.opts.Standing(name)
	return state, true
}

// inputs lists the required properties of a schema, with what it says of them.
func inputs(verb string, schema json.RawMessage) []help.Input {
	var s struct {
		Required   []string                   `json:"required"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	var out []help.Input
	for _, name := range s.Required {
		in := help.Input{Verb: verb, Name: name}
		members, err := shape.Members(s.Properties[name])
		if err != nil {
			members = nil
		}
		for _, m := range members {
			switch m.Name {
			case "type":
				in.Type, _ = shape.Text(m.Value)
			case "description":
				in.Description, _ = shape.Text(m.Value)
			}
		}
		out = append(out, in)
	}
	return out
}
