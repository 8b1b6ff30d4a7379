package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"berth/broker/catalog/schema"
	"berth/broker/shape"
)

// Settings is what a configuration says of the whole catalog. The zero value
// has the built-in profiles only.
type Settings struct {
	Profiles []ProfileSpec
	// Prefixes are more harness prefixes to strip (see CheckPrefix).
	Prefixes []string
	// Costs counts the listed forms of verbs and remembers them. Profiles with a
	// list budget need it.
	Costs *shape.Costs
	// Schemas remembers compiled schemas from one build to the next; nil: nothing is.
	Schemas *schema.Cache
	// Starting makes a fault fatal that a backend's list caused: the process can
	// still be stopped and its configuration changed.
	Starting bool
	// HeldVerbs are globs over the outward names of upstream verbs that an
	// operator's stop holds, besides those of which it is known without.
	HeldVerbs []string
	// Without are verbs that the parity self-check found at fault.
	Without []Without
}

// Without is an upstream verb that is not served, and why.
type Without struct{ Backend, Verb, Reason string }

func (c Settings) held(backend, verb string) string {
	for _, w := range c.Without {
		if w.Backend == backend && w.Verb == verb {
			return w.Reason
		}
	}
	return ""
}

// holds reports whether the configuration puts a verb under the operator's
// stop. Native verbs say it themselves: a pattern must not hold the one that
// lifts the stop.
func (c Settings) holds(v *Verb) bool {
	return !v.Native && slices.ContainsFunc(c.HeldVerbs, func(glob string) bool { return matches(glob, v.Name) })
}

// The defaults of a configured profile.
const (
	DefaultMaxTokens          = 10_000
	DefaultInstructionsTokens = 800
	// EssentialWarning is the cost of an essential list, in tokens, above which
	// a start says so. It is no cut.
	EssentialWarning = 10_000
)

// ProfileSpec is a configured profile, or what configuration says of one that
// is built in (then without a selection).
type ProfileSpec struct {
	Name      string
	Preset    string // a name of Presets; empty: none
	MaxTools  int    // 0: the preset's, else none
	MaxTokens int    // 0: DefaultMaxTokens
	Required  []string
	Select    []Selector
	Exclude   []Selector
	// InstructionsTokens is the cap of the instructions; 0: the default.
	InstructionsTokens int
	// ReadOnly lets nobody do more than read there.
	ReadOnly bool
	// The rest is for shaping and envelope; the catalog keeps it.
	Answers Answers
}

// Answers is how a profile has its answers.
type Answers struct {
	ResultTokens shape.Budget // 0: unset
	TokenFactor  float64      // 0: 1
	CountAlways  bool
	NoEnvelope   bool
	NoGuidance   bool
}

// Selector is a conjunction; what is empty selects everything.
type Selector struct {
	// Verb is a glob over canonical names and, where Backend stands beside it,
	// over the backend's own.
	Verb      string
	Backend   string
	Surface   string
	Family    string
	ReadsOnly bool // verbs that never do more than read or change their session
}

func (s Selector) selects(v *Verb) bool {
	switch {
	case s.Backend != "" && v.Backend != s.Backend,
		s.Surface != "" && (v.Surface == nil || v.Surface.Name != s.Surface),
		s.Family != "" && v.Family != s.Family,
		s.ReadsOnly && !v.Effects.ReadOnly():
		return false
	}
	return s.Verb == "" || matches(s.Verb, v.Name) || (s.Backend != "" && matches(s.Verb, v.Upstream))
}

// mayHold reports whether verbs of a backend that has not listed yet may turn
// out to be selected.
func (s Selector) mayHold(backend string) bool { return s.Backend == "" || s.Backend == backend }

func (s Selector) String() string {
	var parts []string
	for _, p := range [][2]string{{"verb", s.Verb}, {"backend", s.Backend}, {"surface", s.Surface}, {"family", s.Family}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	if s.ReadsOnly {
		parts = append(parts, "effects read")
	}
	return strings.Join(parts, ", ")
}

// Preset is what a client was seen to take of a list.
type Preset struct {
	MaxTools int
	// MaxName is the longest name with what the client puts before it, in
	// characters; Prefix is the length of that.
	MaxName, Prefix int
}

// serverPrefix is "berth" and one separator: what clients put before a name
// when the server is registered as `berth install` does it.
const serverPrefix = len(NativeName) + 1

// Presets by name. Cursor passes only the first 40 of a list to the model; VS
// Code refuses a request with more than 128, its own and other servers' included.
var Presets = map[string]Preset{
	"cursor": {MaxTools: 40, MaxName: 60, Prefix: serverPrefix},
	"vscode": {MaxTools: 128, MaxName: 64, Prefix: serverPrefix},
}

func (p Preset) tooLong(name string) bool {
	return p.MaxName > 0 && len(name)+p.Prefix > p.MaxName
}

// The reasons why a selected verb is not listed.
const (
	OverTools   = "over_tools"
	OverTokens  = "over_tokens"
	NameTooLong = "name_too_long"
)

// Skipped is a selected verb that is not listed. It stays discoverable.
type Skipped struct {
	Name   string
	Reason string
	Tokens int
}

// canaryReserve is what the two codes may cost at most, in tokens: each has at
// most 36 bytes, with the member that it may need, and may break a token.
const canaryReserve = 80

// choice is how a profile's list is made of what may be called.
type choice struct {
	spec  ProfileSpec
	costs *shape.Costs
}

// choose sets the items of a profile that is not exact.
func (p *Profile) choose() *Profile {
	switch {
	case p.name == Full:
		p.items = p.reach
	case p.choice == nil:
		p.items = slices.DeleteFunc(slices.Clone(p.reach), func(it item) bool { return !it.verb.Essential })
	default:
		p.items, p.skipped = p.choice.fill(p.reach)
	}
	return p
}

// Again chooses the profile's list anew and gives it as it would be served; it
// is for measuring what that costs.
func (p *Profile) Again() *Profile {
	n := *p
	n.views = nil
	return n.choose().finish()
}

// order gives what the profile selects: the required set, then the selectors as
// they are written, inside one by rank and name; the first match counts.
func (c *choice) order(reach []item) (out []item) {
	taken := make([]bool, len(reach))
	take := func(i int) { taken[i] = true; out = append(out, reach[i]) }
	ranked := make([]int, len(reach))
	for i := range reach {
		ranked[i] = i
	}
	if slices.ContainsFunc(reach, func(it item) bool { return it.verb.Rank != 0 }) { // else they stand in order
		slices.SortStableFunc(ranked, func(a, b int) int { return reach[a].verb.Rank - reach[b].verb.Rank })
	}
	for _, i := range ranked {
		if c.required(reach[i].verb) {
			take(i)
		}
	}
	for _, s := range c.spec.Select {
		for _, i := range ranked {
			v := reach[i].verb
			if !taken[i] && s.selects(v) && !slices.ContainsFunc(c.spec.Exclude, func(x Selector) bool { return x.selects(v) }) {
				take(i)
			}
		}
	}
	return out
}

// required reports whether a verb is in the profile's required set.
func (c *choice) required(v *Verb) bool {
	return v.Family == FamilyCatalog || v.Required ||
		slices.ContainsFunc(c.spec.Required, func(name string) bool { return name == v.Name || slices.Contains(v.Aliases, name) })
}

// fill takes verbs in order as long as they fit; one that does not is skipped
// and the next is tried. The list is sorted by name.
func (c *choice) fill(reach []item) (items []item, skipped []Skipped) {
	preset := Presets[c.spec.Preset]
	tokens := 0
	for _, it := range c.order(reach) {
		cost := 0
		if c.costs != nil {
			cost = c.costs.Of(it.verb.Digest(), string(it.raw))
		}
		reason := ""
		switch {
		case preset.tooLong(it.name):
			reason = NameTooLong
		case c.maxTools() > 0 && len(items) >= c.maxTools():
			reason = OverTools
		case tokens+cost+canaryReserve > c.maxTokens():
			reason = OverTokens
		}
		if reason != "" {
			skipped = append(skipped, Skipped{it.name, reason, cost})
			continue
		}
		tokens += cost
		items = append(items, it)
	}
	slices.SortFunc(items, func(x, y item) int { return strings.Compare(x.name, y.name) })
	return items, skipped
}

// needs is the smallest list budget that holds the required set.
func (c *choice) needs(reach []item) (tools, tokens int) {
	tokens = canaryReserve
	for _, it := range reach {
		if c.required(it.verb) {
			tools++
			tokens += c.costs.Of(it.verb.Digest(), string(it.raw))
		}
	}
	return tools, tokens
}

func (c *choice) maxTools() int {
	if c.spec.MaxTools > 0 {
		return c.spec.MaxTools
	}
	return Presets[c.spec.Preset].MaxTools
}

func (c *choice) maxTokens() int {
	if c.spec.MaxTokens > 0 {
		return c.spec.MaxTokens
	}
	return DefaultMaxTokens
}

// mayHold reports whether the list may come to hold verbs of a backend that has
// not listed yet.
func (c *choice) mayHold(backend string) bool {
	return slices.ContainsFunc(c.spec.Select, func(s Selector) bool { return s.mayHold(backend) }) ||
		slices.ContainsFunc(c.spec.Required, func(name string) bool { return strings.HasPrefix(name, fold(backend)+"__") })
}

// Budget gives the list budget of a configured profile; ok is false for one
// that has none. maxTools is 0 when it is not bounded.
func (p *Profile) Budget() (maxTools, maxTokens int, ok bool) {
	if p.choice == nil {
		return 0, 0, false
	}
	return p.choice.maxTools(), p.choice.maxTokens(), true
}

// Skipped lists the verbs that were selected and did not fit, in the order in
// which they were tried.
func (p *Profile) Skipped() []Skipped { return slices.Clone(p.skipped) }

// Answers is what the configuration says of the profile's answers.
func (p *Profile) Answers() Answers { return p.answers }

// Required lists the required set as its caller has it, by name: a floor of
// what a harness must show. An exact profile has none but what it lists of
// verbs that are required everywhere.
func (p *Profile) Required() []string {
	var out []string
	for _, it := range p.items {
		if it.verb.Required || (!p.exact && p.requires(it.verb)) {
			out = append(out, it.name)
		}
	}
	return out
}

func (p *Profile) requires(v *Verb) bool {
	if p.choice != nil {
		return p.choice.required(v)
	}
	return v.Family == FamilyCatalog || v.Required
}

// Cost is what the list costs, in tokens, as it is rendered; ok is false when
// nothing counts.
func (p *Profile) Cost() (tokens int, ok bool) {
	each, total := p.EntryCosts()
	return total, each != nil
}

// EntryCosts is what each entry of the list costs, and all of them together;
// nil when nothing counts.
func (p *Profile) EntryCosts() (each []int, total int) {
	if p.costs == nil {
		return nil, 0
	}
	each = make([]int, 0, len(p.items))
	for i, it := range p.items {
		raw := p.rendered(i, false)
		digest := ""
		if len(raw) == len(it.raw) && !p.exact && it.name == it.verb.Name {
			digest = it.verb.Digest()
		} else {
			digest = digestOf(raw)
		}
		n := p.costs.Of(digest, string(raw))
		each, total = append(each, n), total+n
	}
	return each, total
}

// CheckSpec says what is wrong with a profile whatever the verbs are. backends
// are the names that are taken.
func CheckSpec(spec ProfileSpec, taken []string) error {
	selects := len(spec.Select)+len(spec.Exclude)+len(spec.Required)+spec.MaxTools+spec.MaxTokens > 0 || spec.Preset != ""
	switch {
	case (spec.Name == Full || spec.Name == Essential || slices.Contains(taken, spec.Name)) && selects:
		return fmt.Errorf("%s: a backend or a built-in profile has this name, so it selects for itself", CodeProfileNameTaken)
	case spec.Preset != "" && Presets[spec.Preset] == (Preset{}):
		return errors.New("there is no preset of this name")
	}
	for _, s := range slices.Concat(spec.Select, spec.Exclude) {
		if s == (Selector{}) {
			return errors.New("a selector names a verb, a backend, a surface, a family or effects")
		}
		if badGlob(s.Verb) {
			return errors.New("the pattern " + s.Verb + " is malformed")
		}
	}
	return nil
}
