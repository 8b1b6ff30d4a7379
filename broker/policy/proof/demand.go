package proof

import (
	"encoding/json"

	"berth/broker"
	"berth/broker/condition"
)

// Reason says why a target is unproven.
type Reason string

// The reasons.
const (
	NoMark           Reason = "no_mark"
	Expired          Reason = "expired"
	Used             Reason = "used"
	VersionChanged   Reason = "version_changed"
	WrittenSince     Reason = "written_since"
	OtherIncarnation Reason = "other_incarnation"
	Unresolvable     Reason = "unresolvable"
	NoTarget         Reason = "no_target"
)

// Unproven is a target that its caller may not change yet.
type Unproven struct {
	Target Target // without text: what stands at Pointer is no target
	// Pointer is where a target was looked for, when there is none.
	Pointer string
	Reason  Reason
}

// Demand is what a call has to prove.
type Demand struct {
	Verb    string // canonical
	Called  string // as its caller's list has it; empty: the same
	Targets []Target
	// Faults are targets that nothing can prove; with one the call is refused.
	Faults []Unproven
}

// Empty reports whether nothing has to be proven.
func (d Demand) Empty() bool { return len(d.Targets) == 0 && len(d.Faults) == 0 }

// maxTargets bounds the targets of one call.
const maxTargets = 1000

// Demand finds what a call of a verb has to prove; effects are those of this
// call. A call that changes nothing outside its session proves nothing.
func (r *Rules) Demand(verb string, effects broker.Effects, arguments json.RawMessage) Demand {
	d := Demand{Verb: verb}
	if r == nil || effects.ReadOnly() {
		return d
	}
	seen := map[string]bool{}
	for _, n := range r.needs[verb] {
		if n.broken {
			d.Faults = append(d.Faults, Unproven{Reason: Unresolvable})
			continue
		}
		version, ok := versionAt(n.version, condition.Call{Arguments: arguments})
		if !ok {
			d.Faults = append(d.Faults, Unproven{Pointer: n.version.String(), Reason: Unresolvable})
			continue
		}
		found, faults := 0, len(d.Faults)
		for _, p := range n.targets {
			for _, t := range r.targetsAt(n.kind, p, condition.Call{Arguments: arguments}, &d) {
				found++
				t.version, t.wants = version, n.version != nil
				if key := string(t.id[:]) + string(version); !seen[key] {
					seen[key] = true
					d.Targets = append(d.Targets, t)
				}
			}
		}
		if found == 0 && len(d.Faults) == faults {
			d.Faults = append(d.Faults, Unproven{Reason: NoTarget})
		}
	}
	if len(d.Targets) > maxTargets {
		d.Faults = append(d.Faults, Unproven{Reason: Unresolvable})
		d.Targets = d.Targets[:maxTargets]
	}
	return d
}

// versionAt gives the version that a pointer finds; ok is true, too, when there
// is no pointer.
func versionAt(p *condition.Pointer, call condition.Call) (version json.RawMessage, ok bool) {
	if p == nil {
		return nil, true
	}
	f := p.Find(documentOf(*p, call))
	if f.Doubtful || f.Missing > 0 || len(f.Values) != 1 || !versionLike(f.Values[0]) {
		return nil, false
	}
	return f.Values[0], true
}

func documentOf(p condition.Pointer, call condition.Call) json.RawMessage {
	if p.Origin == condition.Result {
		return call.Result
	}
	return call.Arguments
}

// maxVersion is the longest version that is remembered, in bytes.
const maxVersion = 1 << 10

func versionLike(v json.RawMessage) bool {
	return len(v) > 0 && len(v) <= maxVersion && string(v) != "null" && string(v) != `""`
}

// targetsAt gives the targets that a pointer finds; what is none becomes a
// fault of d.
func (r *Rules) targetsAt(kindName string, p condition.Pointer, call condition.Call, d *Demand) []Target {
	f := p.Find(documentOf(p, call))
	if f.Doubtful || f.Missing > 0 {
		d.Faults = append(d.Faults, Unproven{Pointer: p.String(), Reason: Unresolvable})
		return nil
	}
	var out []Target
	for _, v := range f.Values {
		t, ok := newTarget(kindName, r.kinds[kindName], v)
		if !ok {
			reason := Unresolvable
			if string(v) == `""` {
				reason = NoTarget
			}
			d.Faults = append(d.Faults, Unproven{Pointer: p.String(), Reason: reason})
			continue
		}
		out = append(out, t)
	}
	return out
}

// Grants finds the targets that an answer shows, for [Marks.Grant] of the home
// of their kind. A rule one of whose targets is none grants nothing: what was
// seen is then in doubt.
func (r *Rules) Grants(verb string, call condition.Call, isError bool) []Target {
	if r == nil {
		return nil
	}
	var out []Target
	for _, g := range r.grants[verb] {
		if g.onError != isError || !condition.All(g.when, call) {
			continue
		}
		var doubts Demand
		var shown []Target
		for _, p := range g.targets {
			shown = append(shown, r.targetsAt(g.kind, p, call, &doubts)...)
		}
		if len(doubts.Faults) > 0 || len(shown) > maxTargets {
			continue
		}
		version, ok := versionAt(g.version, call)
		if !ok {
			continue
		}
		for _, t := range shown {
			t.version = version
			out = append(out, t)
		}
	}
	return out
}
