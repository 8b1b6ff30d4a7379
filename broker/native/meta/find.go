package meta

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/search"
)

// The page of find.
const (
	defaultK = 8
	maxK     = 50
)

// match is a line of find.
type match struct {
	Name         string             `json:"name"`
	Summary      string             `json:"summary,omitempty"`
	Visibility   catalog.Visibility `json:"visibility,omitempty"`
	Via          string             `json:"via,omitempty"`
	Effects      []string           `json:"effects,omitempty"`
	Availability string             `json:"availability,omitempty"`

	*schemas
}

// schemas is what a match has besides with detail schema.
type schemas struct {
	InputSchema json.RawMessage `json:"input_schema"`
	Tokens      *int            `json:"tokens"` // null: nothing counts
	MinimalCall json.RawMessage `json:"minimal_call"`
	NoMinimal   string          `json:"no_minimal_call,omitempty"`
}

type found struct {
	Matches    []match `json:"matches"`
	Total      int     `json:"total"`
	NextCursor *string `json:"next_cursor"`
	Catalog    string  `json:"catalog"`
}

// known refuses a filter by which nothing that the caller sees can be found: an
// empty list would read as if nothing matched the request.
func known(p *catalog.Profile, backend, family string) *broker.Refusal {
	for _, filter := range []struct {
		name, value string
		of          func(*catalog.Verb) string
	}{{"backend", backend, func(v *catalog.Verb) string { return v.Backend }}, {"family", family, func(v *catalog.Verb) string { return v.Family }}} {
		if filter.value == "" {
			continue
		}
		var names []string
		for _, e := range p.Reach() {
			names = append(names, filter.of(e.Verb))
		}
		slices.Sort(names)
		if names = slices.Compact(names); !slices.Contains(names, filter.value) {
			return misfit("/"+filter.name, "enum: wanted one of "+strings.Join(names, ", "))
		}
	}
	return nil
}

// find answers with a page of the verbs that match, best first. Nothing that the
// caller may not see is in it, nor counted.
func (f *Family) find(a ask) (any, *broker.Refusal) {
	args := struct {
		Query, Detail, Backend, Family, Effects, Cursor string
		K                                               int
	}{Detail: "brief", K: defaultK}
	if refusal := decode(a.arguments, &args); refusal != nil {
		return nil, refusal
	}
	if args.K < 1 || args.K > maxK {
		args.K = defaultK
	}
	offset := 0
	if args.Cursor != "" {
		n, err := strconv.Atoi(args.Cursor)
		if err != nil || n < 0 || strconv.Itoa(n) != args.Cursor {
			return nil, misfit("/cursor", "cursor: wanted the next_cursor of an earlier page, or none")
		}
		offset = n
	}
	if refusal := known(a.profile, args.Backend, args.Family); refusal != nil {
		return nil, refusal
	}
	keep := func(doc int) bool {
		v := a.profile.At(doc).Verb
		return (args.Backend == "" || v.Backend == args.Backend) && (args.Family == "" || v.Family == args.Family) &&
			(args.Effects != "read" || v.Effects.ReadOnly())
	}
	hits, total := a.profile.Index().Find(search.Query{Text: args.Query, Keep: keep, Standing: f.standing(a), Offset: offset, Limit: args.K})
	out := found{Matches: make([]match, 0, len(hits)), Total: total, Catalog: a.profile.Fingerprint()}
	for _, h := range hits {
		out.Matches = append(out.Matches, f.match(a, a.profile.At(h.Doc), args.Detail))
	}
	if end := offset + len(hits); len(hits) > 0 && end < total {
		next := strconv.Itoa(end)
		out.NextCursor = &next
	}
	return out, nil
}

// standing orders what matches alike: ready first, then advertised.
func (f *Family) standing(a ask) func(doc int) int {
	return func(doc int) int {
		e := a.profile.At(doc)
		rank := 0
		if f.availability(e.Verb) != "ready" {
			rank += 2
		}
		if !e.Listed {
			rank++
		}
		return rank
	}
}

func (f *Family) match(a ask, e catalog.Entry, detail string) match {
	m := match{Name: e.Name}
	if detail == "name" {
		return m
	}
	v := e.Verb
	m.Summary, m.Visibility, m.Via = v.Summary, a.profile.VisibilityOf(v), a.profile.Via(v)
	m.Effects, m.Availability = v.Effects.Names(), f.availability(v)
	if detail == "schema" {
		s := f.schemas(v)
		m.schemas = &s
	}
	return m
}

func (f *Family) schemas(v *catalog.Verb) schemas {
	s := schemas{InputSchema: v.InputSchema}
	if n, ok := v.Tokens(f.opts.Costs); ok {
		s.Tokens = &n
	}
	var err error
	if s.MinimalCall, err = v.Minimal(); err != nil {
		s.MinimalCall, s.NoMinimal = nil, err.Error()
	}
	return s
}
