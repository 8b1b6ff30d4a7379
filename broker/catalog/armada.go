package catalog

import (
	"slices"
	"strings"
)

// Armada is the built-in exact profile of the broker's own verbs under their
// documented names: armada_NAME where a verb has that alias, else its own.
const Armada = "armada"

const documentedPrefix = "armada_"

// documented is the name under which a verb stands in that profile.
func (v *Verb) documented() string {
	if name := documentedPrefix + v.Name; slices.Contains(v.Aliases, name) {
		return name
	}
	return v.Name
}

// armada makes the profile of the documented names, from that of the canonical
// ones. Other aliases with the prefix are older names and stay callable.
func (b *builder) armada(own *Profile) *Profile {
	p := &Profile{generation: b.generation, name: Armada, exact: true, native: true, server: own.server, reads: own.reads, costs: b.settings.Costs, aliases: map[string]*Verb{}}
	p.full = p
	var items []item
	for _, it := range own.Reach() {
		v := it.Verb
		name := v.documented()
		raw := renamed(v.Listed, name)
		if raw == nil {
			continue // cannot happen: the entry was rendered here
		}
		items = append(items, item{name: name, verb: v, raw: raw})
		for _, alias := range v.Aliases {
			if alias != name && strings.HasPrefix(alias, documentedPrefix) {
				p.aliases[alias] = v
			}
		}
	}
	p.table(items)
	return p.finish()
}
