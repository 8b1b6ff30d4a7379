package catalog

import (
	"berth/broker/catalog/search"
)

// The visibilities of a verb that is not denied (contracts/catalog.md section 1).
const (
	Advertised   = "advertised"
	Discoverable = "discoverable"
)

// Visible lists the verbs that the caller of the profile may see, by outward
// name: those that it lists and those that it does not. The slice is shared.
func (p *Profile) Visible() []*Verb { return p.view().verbs }

// Lists reports whether the profile's list has the verb.
func (p *Profile) Lists(v *Verb) bool { return p.view().listed[v] }

// Outward is the name under which the profile has the verb.
func (p *Profile) Outward(v *Verb) string {
	if p.exact {
		return v.Upstream
	}
	return v.Name
}

// Visibility is Advertised or Discoverable.
func (p *Profile) Visibility(v *Verb) string {
	if p.Lists(v) {
		return Advertised
	}
	return Discoverable
}

// Index finds among the visible verbs; its documents are in their order. It is
// made at first use, once for the profile and what limits it, so that nothing in
// it tells of a verb that its caller may not see.
func (p *Profile) Index() *search.Index { return p.view().index() }

// Named gives the visible verb of a name, and whether the name is its own. A
// verb that is denied is none.
func (p *Profile) Named(name string) (*Verb, bool) {
	v, ok := p.Resolve(name)
	return v, ok && !p.Denied(v)
}

// view is what a caller may see.
type view struct {
	verbs  []*Verb
	listed map[*Verb]bool
	index  func() *search.Index
}

func (p *Profile) makeView() *view {
	v := &view{listed: make(map[*Verb]bool, len(p.items))}
	for _, it := range p.items {
		v.listed[it.verb] = true
	}
	names := make([]string, 0, len(p.callable))
	for _, it := range p.callable {
		if !p.Denied(it.verb) {
			v.verbs, names = append(v.verbs, it.verb), append(names, it.name)
		}
	}
	v.index = onceIndex(v.verbs, names)
	return v
}

func onceIndex(verbs []*Verb, names []string) func() *search.Index {
	return once(func() *search.Index {
		docs := make([]search.Doc, len(verbs))
		for i, v := range verbs {
			docs[i] = v.Document(names[i])
		}
		return search.New(docs, search.Options{})
	})
}
