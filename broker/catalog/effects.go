package catalog

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"berth/broker"
	"berth/broker/shape"
)

// hints are the annotations of an entry that effects are read from and written
// to. A nil pointer is absent or no boolean.
type hints struct {
	present bool            // there is an annotations object
	raw     json.RawMessage // it, compact
	title   json.RawMessage

	readOnly, destructive, idempotent, openWorld *bool
}

func readHints(annotations json.RawMessage) hints {
	members, err := shape.Members(annotations)
	if err != nil {
		return hints{}
	}
	h := hints{present: true, raw: annotations}
	for _, m := range members {
		switch m.Name {
		case "title":
			if _, ok := shape.Text(m.Value); ok {
				h.title = m.Value
			}
		case "readOnlyHint":
			h.readOnly = boolean(m.Value)
		case "destructiveHint":
			h.destructive = boolean(m.Value)
		case "idempotentHint":
			h.idempotent = boolean(m.Value)
		case "openWorldHint":
			h.openWorld = boolean(m.Value)
		}
	}
	return h
}

func boolean(v json.RawMessage) *bool {
	var b bool
	switch string(v) {
	case "true":
		b = true
	case "false":
	default:
		return nil
	}
	return &b
}

// effectsOf finds an upstream verb's effects from the first source that answers.
func effectsOf(verb string, rules Rules, h hints) (broker.Effects, string) {
	for _, r := range rules.Effects {
		if matches(r.Verb, verb) {
			return r.Is, FromOperator
		}
	}
	if !rules.TrustAnnotations || !h.present {
		return broker.UnknownEffects, FromUnknown
	}
	switch {
	case h.readOnly != nil && *h.readOnly:
		return broker.Read, FromAnnotation
	case h.destructive != nil && !*h.destructive:
		return broker.Write, FromAnnotation
	}
	return broker.Write | broker.Destroy, FromAnnotation
}

// listedAnnotations are the annotations of the merged list: the backend's own
// where they are what the effects came from, else computed from the effects.
// Other hints pass only from a source that is trusted.
func listedAnnotations(h hints, effects broker.Effects, source string, trusted bool) json.RawMessage {
	if source == FromAnnotation {
		return h.raw
	}
	out := []byte{'{'}
	add := func(name string, value string) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, `"`+name+`":`+value...)
	}
	flag := func(name string, value bool) {
		if value {
			add(name, "true")
		} else {
			add(name, "false")
		}
	}
	if h.title != nil {
		add("title", string(h.title))
	}
	flag("readOnlyHint", source != FromUnknown && effects.ReadOnly())
	flag("destructiveHint", source == FromUnknown || effects&broker.Destroy != 0)
	if source == FromUnknown {
		flag("openWorldHint", true)
	} else if trusted {
		if h.idempotent != nil {
			flag("idempotentHint", *h.idempotent)
		}
		if h.openWorld != nil {
			flag("openWorldHint", *h.openWorld)
		}
	}
	return append(out, '}')
}

// matches reports whether a glob selects a verb; a broken glob selects nothing.
func matches(glob, verb string) bool {
	ok, err := path.Match(glob, verb)
	return err == nil && ok
}

// badGlob reports whether a glob is broken.
func badGlob(glob string) bool {
	_, err := path.Match(glob, "")
	return err != nil
}

// pick finds the value of the most specific glob that selects verb: the verb's
// own name, then the longest pattern, then the first in byte order, and last
// the empty one, which stands for the whole backend.
func pick[V any](table map[string]V, verb string) (value V, ok bool) {
	if v, found := table[verb]; found {
		return v, true
	}
	globs := make([]string, 0, len(table))
	for g := range table {
		if matches(g, verb) {
			globs = append(globs, g)
		}
	}
	if len(globs) == 0 {
		value, ok = table[""]
		return value, ok
	}
	best := slices.MinFunc(globs, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return table[best], true
}
