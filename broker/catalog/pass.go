package catalog

// Pass says how a verb passes a call on to the verb that its arguments name
// (contracts/catalog.md section 3). Policy judges such a call by its target.
type Pass string

// The passes, which are the names of the verbs that have them.
const (
	NoPass    Pass = ""
	PassReads Pass = "call_read"  // calls that change nothing outside the session
	PassAll   Pass = "call_write" // every call
)

// ViaDirect is the way to a verb by its own name.
const ViaDirect = "direct"

// Via is how the caller of the profile reaches a verb: by its name where it is
// listed, else through the narrowest pass that takes all of its calls.
func (p *Profile) Via(v *Verb) string {
	switch {
	case p.Advertises(v):
		return ViaDirect
	case v.Effects.ReadOnly() || p.OnlyReads():
		return string(PassReads)
	}
	return string(PassAll)
}
