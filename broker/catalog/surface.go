package catalog

import (
	"encoding/json"

	"berth/broker"
)

// Surface is the contract of a local app's verbs, where it differs from a
// backend that is passed through: the app's side declares what its verbs do,
// checks its own arguments and identities, and writes every refusal in its own
// form, the broker's included. It is fixed when the process is built.
type Surface struct {
	// Name is the contract's, whatever a backend that has it is called.
	Name string
	// Refuse writes a refusal as the JSON document of a tool result. verb is
	// the app's own name, or the name that was called when it is none. It
	// reaches nothing, does not wait and is safe for concurrent use.
	Refuse func(verb string, r *broker.Refusal) json.RawMessage
	// Records parts the text that a verb answers into records, none of which is
	// cut when an answer is; by the app's own name of the verb. Fewer says how to
	// ask for less at once.
	Records map[string]Records
	// Held are the verbs that a hold stops, by the app's own name.
	Held []string
	// Follows says how the work is followed that a verb starts, by the app's own
	// name of the verb.
	Follows map[string]*broker.Follow
	// Examples are the arguments of a minimal call, by the app's own name of the
	// verb, where the smallest that the schema admits are not enough for the app.
	Examples map[string]json.RawMessage
}

// SurfaceOf gives the surface that refusals of a call in p are written by: the
// verb's, else that of an exact profile, where every name is the surface's to
// judge.
func (p *Profile) SurfaceOf(v *Verb) *Surface {
	if v != nil {
		return v.Surface
	}
	return p.surface
}

// Surface is the contract that an exact profile holds; nil for any other
// profile.
func (p *Profile) Surface() *Surface { return p.surface }

// Records is how the text of a verb's answer is parted.
type Records struct {
	Split func(text string) []string
	Fewer string // a sentence
}
