package catalog

import (
	"slices"
	"strings"
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

// Class is all that visibility reads of a caller. The zero value is a caller
// who may see everything.
type Class struct {
	Limit
	// Role filters by the scope of each verb; empty filters nothing.
	Role broker.Role
	// Transport filters by where each verb is served; empty filters nothing.
	Transport Transport
}

// sees is what decides on lists and on calls alike (contracts/native.md section
// 1.4): whether a role's or a transport's callers may know of a verb of a
// profile.
func (c Class) sees(p *Profile, v *Verb) bool {
	if c.Transport != "" && len(v.Transports) > 0 && !slices.Contains(v.Transports, c.Transport) {
		return false
	}
	switch c.Role {
	case "":
		return true
	case broker.GlobalAdministrator, broker.TenantAdministrator, broker.User:
		return len(v.Scope) == 0 || slices.Contains(v.Scope, c.Role) || (v.OwnRecords && !(p.exact && p.native))
	}
	return false // nobody is anonymous
}

// Visibility is what a caller gets to see of a verb.
type Visibility string

// The visibilities. Of a verb that is Hidden nothing is told, as if it did not
// exist; one that is ReadOnlyDenied is refused by name and stands in no list.
const (
	Advertised     Visibility = "advertised"
	Discoverable   Visibility = "discoverable"
	Hidden         Visibility = "hidden"
	ReadOnlyDenied Visibility = "read_only"
)

// As gives the profile as callers of a class have it. It is made once for each
// class; where the class sees everything, it is the profile itself.
func (p *Profile) As(c Class) *Profile {
	if p.class != (Class{}) { // of a view: both narrow
		c.All = c.All || p.class.All
		if c.Surface == "" {
			c.Surface = p.class.Surface
		}
		if p.class.Role != "" {
			c.Role = p.class.Role
		}
		if p.class.Transport != "" {
			c.Transport = p.class.Transport
		}
	}
	if c.All {
		c.Surface = "" // every verb: its surface's, too
	}
	if c == p.class {
		return p
	}
	if made, ok := p.views.Load(c); ok {
		return made.(*Profile)
	}
	view := p
	if !p.same(c) {
		view = p.narrow(c)
	}
	made, _ := p.views.LoadOrStore(c, view)
	return made.(*Profile)
}

// Limited is As for a limit alone.
func (p *Profile) Limited(l Limit) *Profile { return p.As(Class{Limit: l}) }

// same reports whether a class has exactly what p has.
func (p *Profile) same(c Class) bool {
	if c.Limit != p.class.Limit {
		return false
	}
	for _, v := range p.byName {
		if !c.sees(p, v) {
			return false
		}
	}
	return true
}

// narrow makes the view of a class.
func (p *Profile) narrow(c Class) *Profile {
	n := *p
	n.class, n.views, n.skipped = c, &sync.Map{}, nil
	if !p.exact && p.full != p {
		n.full = p.full.As(c)
		n.borrow(n.full)
		return n.choose().finish()
	}
	n.full = &n
	n.byName, n.aliases = map[string]*Verb{}, map[string]*Verb{}
	for name, v := range p.byName {
		if c.sees(p, v) { // what is denied for reading only is refused by name, not unknown
			n.byName[name] = v
		}
	}
	for alias, v := range p.aliases {
		if c.sees(p, v) {
			n.aliases[alias] = v
		}
	}
	n.reach = slices.DeleteFunc(slices.Clone(p.reach), func(it item) bool { return !c.sees(p, it.verb) || n.Denied(it.verb) })
	n.items = n.reach
	return n.finish()
}

// borrow takes over what the names mean.
func (p *Profile) borrow(full *Profile) {
	p.reach, p.byName, p.aliases, p.prefixes = full.reach, full.byName, full.aliases, full.prefixes
}

// Class is whose view of the profile this is.
func (p *Profile) Class() Class { return p.class }

// OnlyReads reports whether nothing but reading is allowed in the profile, so
// that what nobody knows the effects of is refused.
func (p *Profile) OnlyReads() bool { return p.reads || p.class.All }

// onlyReads reports whether v may only read here.
func (p *Profile) onlyReads(v *Verb) bool { return v.ReadOnly || p.class.covers(v) }

// Denied reports whether a verb of the profile does more than its caller, or
// its backend's configuration, allows, whatever its arguments: it is in no
// list, and refused.
func (p *Profile) Denied(v *Verb) bool {
	if !p.onlyReads(v) {
		return false
	}
	always, when := v.Permits()
	return !always && len(when) == 0
}

// DeniedFor is Denied for a call whose arguments select effects.
func (p *Profile) DeniedFor(v *Verb, effects broker.Effects) bool {
	return p.onlyReads(v) && !effects.ReadOnly()
}

// Visibility judges a name of this profile: what it resolves to, if anything.
func (p *Profile) Visibility(name string) (*Verb, Visibility) {
	v, ok := p.Resolve(name)
	switch {
	case !ok:
		return nil, Hidden
	case p.Denied(v):
		return v, ReadOnlyDenied
	case p.Advertises(v):
		return v, Advertised
	}
	return v, Discoverable
}

// VisibilityOf is that of a verb which may be called here.
func (p *Profile) VisibilityOf(v *Verb) Visibility {
	if p.Advertises(v) {
		return Advertised
	}
	return Discoverable
}

// Advertises reports whether a verb is in the list.
func (p *Profile) Advertises(v *Verb) bool {
	for _, name := range []string{v.Name, v.Upstream, NativeName + "__" + v.Name, v.documented()} {
		if at, ok := slices.BinarySearchFunc(p.items, name, func(it item, n string) int { return strings.Compare(it.name, n) }); ok && p.items[at].verb == v {
			return true
		}
	}
	return false
}

// Entry is a verb under the name that it has in a profile.
type Entry struct {
	Name   string
	Verb   *Verb
	Listed bool
}

// Reach lists what may be called here, by name: what is advertised and what is
// discoverable.
func (p *Profile) Reach() []Entry {
	out := make([]Entry, 0, len(p.reach))
	listed := make(map[string]bool, len(p.items))
	for _, it := range p.items {
		listed[it.name] = true
	}
	for _, it := range p.reach {
		out = append(out, Entry{it.name, it.verb, listed[it.name]})
	}
	return out
}

// Entries lists what is advertised, by name.
func (p *Profile) Entries() []Entry {
	out := make([]Entry, 0, len(p.items))
	for _, it := range p.items {
		out = append(out, Entry{it.name, it.verb, true})
	}
	return out
}
