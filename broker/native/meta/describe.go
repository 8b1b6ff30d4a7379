package meta

import (
	"encoding/json"
	"slices"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/condition"
	"berth/broker/shape"
)

// card is what is told of one verb.
type card struct {
	Name         string             `json:"name"`
	Aliases      []string           `json:"aliases"`
	Backend      string             `json:"backend"`
	Family       string             `json:"family,omitempty"`
	Description  string             `json:"description"`
	Visibility   catalog.Visibility `json:"visibility"`
	Via          string             `json:"via,omitempty"`
	Availability string             `json:"availability"`
	Callable     bool               `json:"callable"`
	Reason       string             `json:"reason,omitempty"`

	Effects       []string `json:"effects"` // upper bound
	EffectsSource string   `json:"effects_source"`
	EffectsWhen   []effect `json:"effects_when,omitempty"`

	Needs        []need `json:"needs,omitempty"`
	ResultTokens any    `json:"result_tokens"` // a number, "whole", or null: as its profile says

	schemas
	OutputSchema json.RawMessage `json:"output_schema"`
	Next         []catalog.Next  `json:"next,omitempty"`
}

// effect is what a verb does under conditions.
type effect struct {
	When []condition.Condition `json:"when"`
	Is   []string              `json:"is"`
}

// need is a proof that a verb needs, and the verbs that give one.
type need struct {
	Kind      string   `json:"kind"`
	GrantedBy []string `json:"granted_by"`
}

type unknown struct {
	Name        string   `json:"name"`
	Suggestions []string `json:"suggestions"`
}

type described struct {
	Verbs   []card    `json:"verbs"`
	Unknown []unknown `json:"unknown"`
	Catalog string    `json:"catalog"`
}

// maxNames and maxEcho bound what is asked for and what is repeated of it.
const (
	maxNames       = 10
	maxEcho        = 128
	maxSuggestions = 3
)

// describe answers with all that is known of verbs.
func (f *Family) describe(a ask) (any, *broker.Refusal) {
	var args struct{ Names []string }
	if refusal := decode(a.arguments, &args); refusal != nil {
		return nil, refusal
	}
	out := described{Verbs: []card{}, Unknown: []unknown{}, Catalog: a.profile.Fingerprint()}
	for _, name := range args.Names[:min(len(args.Names), maxNames)] {
		v, ok := a.profile.Resolve(name)
		if !ok {
			u := unknown{Name: clip(name), Suggestions: []string{}}
			for _, s := range a.profile.Suggestions(name, maxSuggestions) {
				u.Suggestions = append(u.Suggestions, s.Name)
			}
			out.Unknown = append(out.Unknown, u)
			continue
		}
		if !slices.ContainsFunc(out.Verbs, func(c card) bool { return c.Name == v.Name }) {
			out.Verbs = append(out.Verbs, f.card(a, v))
		}
	}
	return out, nil
}

// card is what describe and help tell of a verb. One that is denied because its
// caller only reads has one, too, which says so.
func (f *Family) card(a ask, v *catalog.Verb) card {
	c := card{Name: v.Name, Aliases: append([]string{}, v.Aliases...), Backend: v.Backend, Family: v.Family, Description: v.Description(),
		Visibility: a.profile.VisibilityOf(v), Via: a.profile.Via(v), Availability: f.availability(v), Callable: true,
		Effects: v.Effects.Names(), EffectsSource: v.EffectsSource, ResultTokens: resultTokens(v.ResultTokens),
		schemas: f.schemas(v), OutputSchema: outputSchema(v), Next: v.Next}
	for _, r := range v.Conditional {
		c.EffectsWhen = append(c.EffectsWhen, effect{r.When, r.Is.Names()})
	}
	switch {
	case a.profile.Denied(v):
		c.Visibility, c.Via, c.Callable, c.Reason = catalog.ReadOnlyDenied, "", false, "read_only"
	case v.Changed != "":
		c.Callable, c.Reason = false, "verb_changed"
	}
	if f.opts.Proofs != nil {
		for _, n := range f.opts.Proofs().Needs(v.Name) {
			granted := []string{}
			for _, g := range n.GrantedBy {
				if by, ok := a.profile.Named(g); ok {
					granted = append(granted, by.Name)
				}
			}
			c.Needs = append(c.Needs, need{n.Kind, granted})
		}
	}
	return c
}

func resultTokens(b shape.Budget) any {
	switch {
	case b < 0:
		return "whole"
	case b > 0:
		return int(b)
	}
	return nil
}

func outputSchema(v *catalog.Verb) (out json.RawMessage) {
	members, err := shape.Members(v.Own)
	if err != nil {
		return nil
	}
	for _, m := range members {
		if m.Name == "outputSchema" {
			out = m.Value
		}
	}
	return out
}

// clip shortens what a caller wrote before it is repeated.
func clip(text string) string {
	if len(text) <= maxEcho {
		return text
	}
	n := maxEcho
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "..."
}
