package proof

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"berth/broker/catalog"
	"berth/broker/condition"
	"berth/broker/shape"
)

// DefaultTTL is how long a mark lives where its kind does not say.
const DefaultTTL = 30 * time.Minute

// Config is the section `proofs` of the configuration. Verbs are canonical
// names or globs over them (path.Match), pointers as package condition has them.
type Config struct {
	Kinds  map[string]Kind
	Grants []Grant
	Needs  []Need
}

// Kind is one kind of proof.
type Kind struct {
	Canonical string        // path, path_fold, url, json or exact
	Base      string        // what a relative path or URL is relative to
	TTL       time.Duration // zero: DefaultTTL
	Reusable  bool          // one_shot: false; a mark is not used up by the call that it allowed
	Session   bool          // bind: "session"; a mark counts in the session that it was granted in
}

// Grant says which answers show a target.
type Grant struct {
	Verb    string
	Kind    string
	Targets []string // pointers into arguments or result
	OnError bool     // on: "error"; the answer must be an error, else it must not be
	When    []condition.Condition
	Version string // a pointer to the version that was seen; empty: none
}

// Need says which calls have to be proven. Without targets every call is
// refused: the way to close a verb that writes what its caller does not name.
type Need struct {
	Verb    string
	Kind    string
	Targets []string // pointers into the arguments
	Version string   // a pointer to the argument that must be the version seen; empty: none
}

// On reports whether the gate is on: by configuration, or by the environment
// (BERTH_PROOF_GATE) set to anything but empty, 0 or false.
func On(enabled bool, setting string) bool {
	return enabled || !slices.Contains([]string{"", "0", "false"}, strings.ToLower(strings.TrimSpace(setting)))
}

// The faults of a configuration that are no refusal of the catalog.
const (
	FaultInvalid   = "proof_rule_invalid"
	FaultKindSplit = "proof_kind_split"
	FaultPointer   = catalog.CodePointer
	FaultNothing   = "proof_selects_nothing"
)

// Fault is something wrong with a configuration.
type Fault struct {
	Where  string // such as needs[2]
	Verb   string // the verb concerned; empty for the rule itself
	Code   string
	Reason string // one sentence
	// Noted faults leave the rule as it is: nothing that Pattern names is there
	// (yet). A rule that has any other refuses what it guards, and grants nothing.
	Noted   bool
	Pattern string
}

// Refuses reports whether a configuration with this fault is refused: the rules
// themselves are wrong. A pointer that names nothing in a schema is not of that
// kind, because the backend may have changed it since.
func (f Fault) Refuses() bool { return f.Code == FaultInvalid || f.Code == FaultKindSplit }

func (f Fault) String() string {
	about := "proofs: " + f.Where
	if f.Verb != "" {
		about += " (" + f.Verb + ")"
	}
	return about + ": " + f.Code + ": " + f.Reason
}

// Rules are the configuration, judged against one catalog.
type Rules struct {
	kinds   map[string]Kind
	homes   map[string]string // kind -> the backend whose actor owns its marks
	needs   map[string][]need // by verb
	grants  map[string][]grant
	repairs map[string][]repair // by kind, in order of configuration
}

type need struct {
	kind    string
	targets []condition.Pointer
	version *condition.Pointer
	broken  bool
}

type grant struct {
	kind    string
	targets []condition.Pointer
	version *condition.Pointer
	onError bool
	when    []condition.Condition
}

// repair is a way to earn a mark.
type repair struct {
	verb  *catalog.Verb
	grant grant
}

// Compile judges a configuration against the verbs of a catalog. The rules are
// usable whatever the faults: what is at fault is closed.
func Compile(c Config, verbs []*catalog.Verb) (*Rules, []Fault) {
	r := &Rules{kinds: maps.Clone(c.Kinds), homes: map[string]string{}, needs: map[string][]need{}, grants: map[string][]grant{}, repairs: map[string][]repair{}}
	j := &judge{rules: r, verbs: verbs}
	for _, name := range slices.Sorted(maps.Keys(c.Kinds)) {
		if why := c.Kinds[name].fault(); why != "" {
			j.fault("kinds."+name, "", FaultInvalid, why)
		}
	}
	for i, n := range c.Needs {
		j.need(fmt.Sprintf("needs[%d]", i), n)
	}
	for i, g := range c.Grants {
		j.grant(fmt.Sprintf("grants[%d]", i), g)
	}
	return r, j.faults
}

func (k Kind) fault() string {
	canonical, ok := canonicals[k.Canonical]
	switch {
	case !ok:
		return fmt.Sprintf("canonical is one of exact, json, path, path_fold, url, not %q", k.Canonical)
	case k.TTL < 0:
		return "ttl cannot be negative"
	case k.Base != "":
		if _, ok := canonical(json.RawMessage(quote(k.Base)), Kind{Canonical: k.Canonical}); !ok {
			return "base must be absolute"
		}
	}
	return ""
}

// judge collects what is wrong with a configuration.
type judge struct {
	rules  *Rules
	verbs  []*catalog.Verb
	faults []Fault
}

func (j *judge) fault(where, verb, code, reason string) {
	j.faults = append(j.faults, Fault{Where: where, Verb: verb, Code: code, Reason: reason})
}

// selected lists the verbs of a name or glob.
func (j *judge) selected(where, glob string) []*catalog.Verb {
	if _, err := path.Match(glob, ""); err != nil || glob == "" {
		j.fault(where, "", FaultInvalid, "verb must be a name or a pattern")
		return nil
	}
	var out []*catalog.Verb
	for _, v := range j.verbs {
		if ok, _ := path.Match(glob, v.Name); ok || v.Name == glob {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		j.faults = append(j.faults, Fault{Where: where, Code: FaultNothing, Reason: fmt.Sprintf("%q selects no verb of the catalog", glob), Noted: true, Pattern: glob})
	}
	return out
}

func (j *judge) kind(where, name string) bool {
	k, ok := j.rules.kinds[name]
	if !ok {
		j.fault(where, "", FaultInvalid, fmt.Sprintf("there is no kind %q", name))
		return false
	}
	return k.fault() == ""
}

// pointers reads pointers; ok is false when one cannot be read.
func (j *judge) pointers(where string, texts []string) (out []condition.Pointer, ok bool) {
	ok = true
	for _, text := range texts {
		p, err := condition.ParsePointer(text)
		if err != nil {
			j.fault(where, "", FaultInvalid, err.Error())
			ok = false
			continue
		}
		out = append(out, p)
	}
	return out, ok
}

// resolves reports whether a verb's schemas have what the pointer names.
func resolves(p condition.Pointer, v *catalog.Verb) bool {
	if p.Origin == condition.Result {
		return p.InResult(outputSchema(v))
	}
	return p.InSchema(v.InputSchema)
}

func outputSchema(v *catalog.Verb) (schema json.RawMessage) {
	members, err := shape.Members(v.Own)
	if err != nil {
		return nil
	}
	for _, m := range members {
		if m.Name == "outputSchema" {
			schema = m.Value
		}
	}
	return schema
}

func (j *judge) need(where string, n Need) {
	sound := j.kind(where, n.Kind)
	targets, ok := j.pointers(where, n.Targets)
	compiled := need{kind: n.Kind, targets: targets, broken: !ok || !sound}
	all := targets
	if n.Version != "" {
		versions, ok := j.pointers(where, []string{n.Version})
		if compiled.broken = compiled.broken || !ok; ok {
			compiled.version = &versions[0]
			all = append(slices.Clone(all), versions[0])
		}
	}
	for _, p := range all {
		if p.Origin != condition.Arguments {
			j.fault(where, "", FaultInvalid, p.String()+" is judged before there is a result; a need looks at args:")
			compiled.broken = true
		}
	}
	for _, v := range j.selected(where, n.Verb) {
		mine := compiled
		for _, p := range all {
			if !mine.broken && !resolves(p, v) {
				j.fault(where, v.Name, FaultPointer, p.String()+" names nothing in the input schema")
				mine.broken = true
			}
		}
		if home, ok := j.rules.homes[n.Kind]; ok && home != v.Backend {
			j.fault(where, v.Name, FaultKindSplit, fmt.Sprintf("the needs of the kind %q belong to the backends %s and %s; the marks of a kind have one home", n.Kind, home, v.Backend))
			mine.broken = true
		} else {
			j.rules.homes[n.Kind] = v.Backend
		}
		j.rules.needs[v.Name] = append(j.rules.needs[v.Name], mine)
	}
}

func (j *judge) grant(where string, g Grant) {
	sound := j.kind(where, g.Kind)
	targets, ok := j.pointers(where, g.Targets)
	compiled := grant{kind: g.Kind, targets: targets, onError: g.OnError, when: g.When}
	all := targets
	if g.Version != "" {
		versions, okVersion := j.pointers(where, []string{g.Version})
		if ok = ok && okVersion; okVersion {
			compiled.version = &versions[0]
			all = append(slices.Clone(all), versions[0])
		}
	}
	if len(g.Targets) == 0 {
		j.fault(where, "", FaultInvalid, "a grant without targets grants nothing")
		ok = false
	}
	for _, c := range g.When {
		all = append(slices.Clone(all), c.At)
	}
	for _, v := range j.selected(where, g.Verb) {
		fits := ok && sound
		for _, p := range all {
			if !resolves(p, v) {
				j.fault(where, v.Name, FaultPointer, p.String()+" names nothing in the schema or in a result")
				fits = false
			}
		}
		if fits {
			j.rules.grants[v.Name] = append(j.rules.grants[v.Name], compiled)
			j.rules.repairs[g.Kind] = append(j.rules.repairs[g.Kind], repair{v, compiled})
		}
	}
}

// Home is the backend whose actor owns the marks of a kind; empty when no
// served verb needs one.
func (r *Rules) Home(kind string) string { return r.homes[kind] }

// Kinds gives the kinds, for a store of marks.
func (r *Rules) Kinds() map[string]Kind { return maps.Clone(r.kinds) }

func quote(s string) string {
	b, _ := json.Marshal(s) // of a string it cannot fail
	return string(b)
}

// Needed is a kind of proof that a verb needs, and the verbs that give one.
type Needed struct {
	Kind      string
	GrantedBy []string // canonical names, in order of configuration; empty: it is closed
}

// Needs lists what a verb needs, for those who describe it.
func (r *Rules) Needs(verb string) (out []Needed) {
	if r == nil {
		return nil
	}
	for _, n := range r.needs[verb] {
		if slices.ContainsFunc(out, func(have Needed) bool { return have.Kind == n.kind }) {
			continue
		}
		needed := Needed{Kind: n.kind}
		for _, g := range r.repairs[n.kind] {
			if !slices.Contains(needed.GrantedBy, g.verb.Name) && !r.closed(verb, n.kind) {
				needed.GrantedBy = append(needed.GrantedBy, g.verb.Name)
			}
		}
		out = append(out, needed)
	}
	return out
}

// closed reports whether nothing that is shown lets a verb run.
func (r *Rules) closed(verb, kind string) bool {
	return slices.ContainsFunc(r.needs[verb], func(n need) bool { return n.kind == kind && (n.broken || len(n.targets) == 0) })
}
