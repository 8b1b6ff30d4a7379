package broker

// Effects is the set of things a call may do beyond logs and counters
// (contracts/catalog.md section 4). The zero value is a pure read.
type Effects uint8

// The effect classes. Read is the empty set.
const (
	Read      Effects = 0
	Session   Effects = 1 << (iota - 1) // changes only what belongs to the calling session
	Write                               // adds or changes state in a backend or in the broker
	Destroy                             // removes or overwrites with no way back
	Exec                                // starts work that acts beyond the call
	Interrupt                           // stops work in progress
)

// UnknownEffects is what a verb gets when nobody said what it does.
const UnknownEffects = Write

var effectNames = []struct {
	bit  Effects
	name string
}{{Session, "session"}, {Write, "write"}, {Destroy, "destroy"}, {Exec, "exec"}, {Interrupt, "interrupt"}}

// ReadOnly reports whether e changes nothing outside the calling session.
func (e Effects) ReadOnly() bool { return e&^Session == 0 }

// Names lists the classes in a fixed order; a pure read is ["read"].
func (e Effects) Names() []string {
	if e == Read {
		return []string{"read"}
	}
	var out []string
	for _, n := range effectNames {
		if e&n.bit != 0 {
			out = append(out, n.name)
		}
	}
	return out
}

// ParseEffects is the inverse of Names. It reports the first word that names
// no class.
func ParseEffects(names []string) (e Effects, unknown string, ok bool) {
next:
	for _, name := range names {
		if name == "read" {
			continue
		}
		for _, n := range effectNames {
			if n.name == name {
				e |= n.bit
				continue next
			}
		}
		return 0, name, false
	}
	return e, "", true
}
