package catalog

import (
	"maps"
	"slices"

	"berth/broker/catalog/search"
	"berth/broker/shape"
)

// Document gives what the search index knows of a verb that is listed as name:
// its names, its description and the names of its parameters. A description that
// is no string counts as none.
func (v *Verb) Document(name string) search.Doc {
	d := search.Doc{Name: name, Bare: v.Upstream, Aliases: v.Aliases, Backend: v.Backend, Family: v.Family, Keywords: v.Keywords, Description: v.description}
	if v.Native {
		d.Backend = NativeName
	}
	d.Parameters = parameters(v.InputSchema)
	return d
}

// parameters lists the properties at the top of a schema, by name.
func parameters(schema []byte) []string {
	members, err := shape.Members(schema)
	if err != nil {
		return nil
	}
	names := map[string]bool{}
	for _, m := range members {
		if m.Name != "properties" {
			continue
		}
		properties, err := shape.Members(m.Value)
		if err != nil {
			continue
		}
		for _, p := range properties {
			names[p.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
