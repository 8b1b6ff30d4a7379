package catalog

import (
	"slices"
	"sync"

	"berth/broker"
)

// Limit says which verbs of a profile may do nothing but read. The zero value
// limits none.
type Limit struct {
	All     bool   // every verb
	Surface string // those of this surface
}

// covers reports whether the limit is one on v.
func (l Limit) covers(v *Verb) bool {
	return l.All || (l.Surface != "" && v.Surface != nil && v.Surface.Name == l.Surface)
}

// Limited gives the profile as a caller sees it who may only read: its list
// lacks the verbs that do more, and they are refused by name. It is made once
// for each limit.
func (p *Profile) Limited(l Limit) *Profile {
	if l == (Limit{}) || p.limit.All {
		return p
	}
	if made, ok := p.limited.Load(l); ok {
		return made.(*Profile)
	}
	narrow := &Profile{name: p.name, exact: p.exact, native: p.native, surface: p.surface, reads: p.reads, aliases: p.aliases,
		pending: p.pending, stale: p.stale, server: p.server, prefixes: p.prefixes, limit: l, limited: &sync.Map{}}
	narrow.items = slices.Clone(p.items)
	narrow.finish()
	narrow.byName = p.byName // a name that is not listed is refused, not unknown
	made, _ := p.limited.LoadOrStore(l, narrow)
	return made.(*Profile)
}

// OnlyReads reports whether nothing but reading is allowed in the profile, so
// that what nobody knows the effects of is refused.
func (p *Profile) OnlyReads() bool { return p.reads || p.limit.All }

// Denied reports whether every call of a verb of the profile does more than its
// caller, or its backend's configuration, allows: it is in no list, and refused.
func (p *Profile) Denied(v *Verb) bool {
	always, when := v.Permits()
	return !always && len(when) == 0 && p.reading(v)
}

// DeniedCall reports whether a call of a verb, with these effects, does more
// than is allowed.
func (p *Profile) DeniedCall(v *Verb, effects broker.Effects) bool {
	return !effects.ReadOnly() && p.reading(v)
}

// reading reports whether only reading is allowed of a verb.
func (p *Profile) reading(v *Verb) bool { return v.ReadOnly || p.limit.covers(v) }
