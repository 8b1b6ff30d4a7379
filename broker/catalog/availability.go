package catalog

// Availability is whether a verb can be called now. It never alters a list.
type Availability string

// The availabilities.
const (
	Ready    Availability = "ready" // or comes up with the call
	Starting Availability = "starting"
	Down     Availability = "down"
	Changed  Availability = "changed" // of a pinned backend, and not what was accepted
)

// Availability is that of the verb, given its backend's.
func (v *Verb) Availability(backend Availability) Availability {
	switch {
	case v.Changed != "":
		return Changed
	case v.Native, backend == "":
		return Ready
	}
	return backend
}
