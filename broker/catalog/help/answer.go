package help

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"berth/broker"
	"berth/broker/catalog/search"
)

// The bounds of a question. What goes beyond those of the texts is not looked at.
const (
	DefaultSuggestions = 3
	MaxSuggestions     = 10
	MaxErrorText       = 4 << 10
	maxNext            = 3
)

// Mode is what is asked for.
type Mode string

// The modes.
const (
	Overview Mode = "overview"
	OneVerb  Mode = "verb"
	Route    Mode = "route"
	Recovery Mode = "recovery"
)

// Question is what the caller sent. The zero value asks for the overview.
type Question struct {
	Name           string
	Mode           Mode // empty: by what else is there
	Intent         string
	ErrorText      string
	MaxSuggestions int // 0: DefaultSuggestions
}

// Next is a verb that is worth calling next.
type Next struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Input is an argument that must be given.
type Input struct {
	Verb        string `json:"verb"`
	Name        string `json:"name"`
	Type        string `json:"type,omitempty"`
	Description string `json:"description,omitempty"`
}

// Verb is what help tells of one verb, as its principal sees it.
type Verb struct {
	Name     string
	Via      string          // direct, call_read or call_write
	Card     json.RawMessage // the object that describe gives
	Inputs   []Input         // those that are required
	Minimal  json.RawMessage // arguments; nil: none is known
	Next     []Next
	Callable bool
	Reason   string // why it is not callable, or not now; a code
}

// View is the catalog as one principal sees it.
type View interface {
	// Resolve finds the verb of a name or alias, by its place in the index.
	Resolve(name string) (doc int, ok bool)
	// Verb tells of a verb of the index.
	Verb(doc int) Verb
	// Backend gives the state of a backend that the principal may see.
	Backend(name string) (state string, ok bool)
}

// OwnRoute sends an intent to a verb, in an operator's words: it counts where
// the request has every word of Intent, or a synonym.
type OwnRoute struct {
	Intent string
	Verb   string
	Reason string
}

// Desk is what an answer is made from.
type Desk struct {
	View    View
	Index   *search.Index
	Routes  []OwnRoute
	Catalog string // the fingerprint of the list
}

// Recommended is a verb with the reason why it is named.
type Recommended struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Call is a call that can be made as it stands, once its <placeholders> are filled.
type Call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Guidance is what to do.
type Guidance struct {
	Recommended    []Recommended `json:"recommended"`
	RequiredInputs []Input       `json:"required_inputs"`
	MinimalCalls   []Call        `json:"minimal_calls"`
	Rejected       []Recommended `json:"rejected"`
	Next           []Next        `json:"next"`
}

// Backend is the state of a backend.
type Backend struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Reply is the answer. Lists are empty rather than absent.
type Reply struct {
	Mode        Mode            `json:"mode"`
	Found       bool            `json:"found"`
	Text        []string        `json:"text"`
	Card        json.RawMessage `json:"card,omitempty"`
	Backend     *Backend        `json:"backend,omitempty"`
	Suggestions []Recommended   `json:"suggestions,omitempty"`
	Guidance    Guidance        `json:"guidance"`
	Catalog     string          `json:"catalog"`
}

// Answer answers a question. It refuses a mode that does not exist, and one whose
// argument is missing.
func (d Desk) Answer(q Question) (Reply, *broker.Refusal) {
	if q.Mode == "" {
		q.Mode = modeOf(q)
	}
	if q.MaxSuggestions == 0 {
		q.MaxSuggestions = DefaultSuggestions
	}
	if q.MaxSuggestions < 1 || q.MaxSuggestions > MaxSuggestions {
		return Reply{}, refuse("max_suggestions", "range", fmt.Sprintf("1 to %d", MaxSuggestions))
	}
	r := &reply{desk: d, max: q.MaxSuggestions, Reply: Reply{Mode: q.Mode, Catalog: d.Catalog, Text: []string{},
		Guidance: Guidance{Recommended: []Recommended{}, RequiredInputs: []Input{}, MinimalCalls: []Call{}, Rejected: []Recommended{}, Next: []Next{}}}}
	switch {
	case q.Mode == Overview:
		r.Found = true
		r.say(overview...)
	case q.Mode == OneVerb && q.Name == "":
		return Reply{}, refuse("name", "required", "the name of a verb or a backend")
	case q.Mode == OneVerb:
		r.verb(q.Name)
	case q.Mode == Route && strings.TrimSpace(q.Intent) == "":
		return Reply{}, refuse("intent", "required", "what is to be done, in words")
	case q.Mode == Route:
		r.route(q.Intent)
	case q.Mode == Recovery && strings.TrimSpace(q.ErrorText) == "":
		return Reply{}, refuse("error_text", "required", "the text of the error")
	case q.Mode == Recovery:
		r.recover(q.Name, q.ErrorText)
	default:
		return Reply{}, refuse("mode", "enum", "overview, verb, route or recovery")
	}
	return r.Reply, nil
}

func modeOf(q Question) Mode {
	switch {
	case q.ErrorText != "":
		return Recovery // the name, if any, is the verb that failed
	case q.Name != "":
		return OneVerb
	case q.Intent != "":
		return Route
	}
	return Overview
}

func refuse(argument, rule, wanted string) *broker.Refusal {
	return broker.Refuse(broker.CodeInvalidArguments, "The arguments do not fit this question.",
		map[string]any{"errors": []map[string]string{{"pointer": "/" + argument, "rule": rule, "wanted": wanted}}})
}

// reply is an answer in the making.
type reply struct {
	Reply
	desk Desk
	max  int
}

// say adds sentences, without those that name a verb which is not there.
func (r *reply) say(sentences ...string) {
	for _, s := range sentences {
		missing := slices.ContainsFunc(Named(s), func(name string) bool {
			_, ok := r.desk.View.Resolve(name)
			return !ok
		})
		if !missing && !slices.Contains(r.Text, s) {
			r.Text = append(r.Text, s)
		}
	}
}

// verb answers for one name: a verb, a backend, or what may have been meant.
func (r *reply) verb(name string) {
	if doc, ok := r.desk.View.Resolve(name); ok {
		r.Found = true
		r.Card = r.desk.View.Verb(doc).Card
		r.recommend(doc, "It is the verb of this name.")
		return
	}
	if state, ok := r.desk.View.Backend(name); ok {
		r.Found = true
		r.Backend = &Backend{name, state}
	}
	r.suggest(name)
	if !r.Found && len(r.Suggestions) == 0 {
		r.say(nothing...)
	}
}

// suggest lists what a name that resolves to nothing may have meant.
func (r *reply) suggest(name string) {
	for _, s := range r.desk.Index.Suggest(name, r.max, nil) {
		v := r.desk.View.Verb(s.Doc)
		if !slices.ContainsFunc(r.Suggestions, func(have Recommended) bool { return have.Name == v.Name }) && len(r.Suggestions) < r.max {
			r.Suggestions = append(r.Suggestions, Recommended{v.Name, Reason(s.Why)})
		}
	}
}

// route answers an intent: an operator's routes first, then what is found.
func (r *reply) route(intent string) {
	for _, own := range r.desk.Routes {
		if doc, ok := r.desk.View.Resolve(own.Verb); ok && r.desk.Index.Covers(own.Intent, intent) {
			r.recommend(doc, own.Reason)
		}
	}
	hits, _ := r.desk.Index.Find(search.Query{Text: intent})
	for _, h := range hits {
		if h.Class == search.Listed || len(r.Guidance.Recommended) >= r.max {
			break
		}
		r.recommend(h.Doc, Reason(h.Class))
	}
	r.Found = len(r.Guidance.Recommended) > 0
	if !r.Found {
		r.say(nothing...)
	}
}

// recommend names a verb, with what its call needs; one that cannot be called is
// named as rejected. A verb is named once.
func (r *reply) recommend(doc int, reason string) {
	g := &r.Guidance
	v := r.desk.View.Verb(doc)
	same := func(have Recommended) bool { return have.Name == v.Name }
	if slices.ContainsFunc(g.Recommended, same) || slices.ContainsFunc(g.Rejected, same) {
		return
	}
	if !v.Callable {
		if len(g.Rejected) < r.max {
			g.Rejected = append(g.Rejected, Recommended{v.Name, v.Reason})
		}
		return
	}
	if len(g.Recommended) >= r.max {
		return
	}
	g.Recommended = append(g.Recommended, Recommended{v.Name, reason})
	g.RequiredInputs = append(g.RequiredInputs, v.Inputs...)
	if v.Minimal != nil {
		g.MinimalCalls = append(g.MinimalCalls, through(v))
	}
	for _, n := range v.Next {
		if _, ok := r.desk.View.Resolve(n.Name); ok && len(g.Next) < maxNext {
			g.Next = append(g.Next, n)
		}
	}
}

// through is the call of a verb in the way in which the caller reaches it.
func through(v Verb) Call {
	if v.Via == "" || v.Via == "direct" {
		return Call{v.Name, v.Minimal}
	}
	name, err := json.Marshal(v.Name)
	if err != nil {
		return Call{v.Name, v.Minimal} // a name is a string
	}
	// Put together by hand, because json.Marshal would write <path> as \u003cpath\u003e.
	return Call{v.Via, slices.Concat([]byte(`{"name":`), name, []byte(`,"arguments":`), v.Minimal, []byte(`}`))}
}
