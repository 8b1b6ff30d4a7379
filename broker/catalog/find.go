package catalog

import (
	"slices"
	"strings"

	"berth/broker/catalog/search"
)

// Index finds among all that may be called here, whatever the list shows; its
// documents are in the order of Reach. It is made at first use, once for each
// class of caller, so that nothing in it tells of a verb that its caller may not
// see.
func (p *Profile) Index() *search.Index {
	if p.full != nil && p.full != p {
		return p.full.Index() // what may be called is the same
	}
	return p.index()
}

func (p *Profile) makeIndex() *search.Index {
	docs := make([]search.Doc, len(p.reach))
	for i, it := range p.reach {
		docs[i] = it.verb.Document(it.name)
	}
	return search.New(docs, search.Options{})
}

// At is a document of the index: the verb under its name here.
func (p *Profile) At(doc int) Entry {
	it := p.reach[doc]
	return Entry{Name: it.name, Verb: it.verb, Listed: p.Advertises(it.verb)}
}

// Reachable is how many verbs may be called here.
func (p *Profile) Reachable() int { return len(p.reach) }

// Outward is the name under which the profile has a verb.
func (p *Profile) Outward(v *Verb) string {
	if !p.exact {
		return v.Name
	}
	for _, name := range []string{v.Upstream, v.Name, NativeName + "__" + v.Name, v.documented()} {
		if p.byName[name] == v {
			return name
		}
	}
	return v.Name
}

// Named gives the verb of a name that may be called here; one that is denied is
// none.
func (p *Profile) Named(name string) (*Verb, bool) {
	v, ok := p.Resolve(name)
	return v, ok && !p.Denied(v)
}

// DocOf is the document of a verb that may be called here.
func (p *Profile) DocOf(v *Verb) (int, bool) {
	at, ok := slices.BinarySearchFunc(p.reach, p.Outward(v), func(it item, name string) int { return strings.Compare(it.name, name) })
	return at, ok && p.reach[at].verb == v
}
