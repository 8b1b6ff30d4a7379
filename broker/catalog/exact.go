package catalog

import (
	"encoding/json"
	"slices"

	"berth/broker/shape"
)

// exact makes the profile of one backend: its own entries, and beside them the
// native verbs that every backend's profile has. Where the backend has a verb
// of that name, it keeps it, and the native one is berth__NAME.
func (b *builder) exact(s *Source) *Profile {
	p := &Profile{generation: b.generation, name: s.Backend, exact: true, native: s.Native, surface: s.Surface, reads: s.Rules.ReadOnly, costs: b.settings.Costs}
	p.full = p
	if s.Listed {
		server := s.Server
		p.server = &server
		if s.Stale {
			p.stale = []string{s.Backend}
		}
	} else {
		p.pending, p.unseen = []string{s.Backend}, []string{s.Backend}
	}
	var items []item
	taken := map[string]bool{}
	for _, v := range b.own[s.Backend] {
		if slices.Contains(s.MergedOnly, v.Upstream) {
			continue
		}
		raw, err := shape.Compact(v.Own)
		if err != nil {
			continue // cannot happen: the entry was read
		}
		taken[v.Upstream] = true
		items = append(items, item{name: v.Upstream, verb: v, raw: raw})
	}
	for _, v := range b.beside {
		if s.Native || s.Surface != nil {
			break // they are its own, or it is a contract to which nothing is added
		}
		it := item{name: v.Name, verb: v, raw: v.Listed}
		if taken[it.name] {
			it.name = NativeName + "__" + v.Name
			it.raw = renamed(v.Listed, it.name)
		}
		if taken[it.name] || it.raw == nil {
			b.fault(Quarantined{Backend: s.Backend, Verb: it.name, Code: CodeDuplicate, Extent: Noted,
				Reason: "The backend's own profile has no room for the native verb " + v.Name + ": both of its names are taken."})
			continue
		}
		items = append(items, it)
	}
	p.table(items)
	return p.finish()
}

// renamed gives a rendered entry another name; nil when it cannot be read.
func renamed(listed json.RawMessage, name string) json.RawMessage {
	members, err := shape.Members(listed)
	if err != nil {
		return nil
	}
	for _, m := range members {
		if m.Name == "name" {
			return slices.Concat(listed[:m.Start], []byte(`"`+name+`"`), listed[m.Start+len(m.Value):])
		}
	}
	return nil
}
