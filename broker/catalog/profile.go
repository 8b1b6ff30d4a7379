package catalog

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"berth/broker"
	"berth/broker/catalog/search"
	"berth/broker/shape"
)

// PageSize is how many entries a page of a list holds at most.
const PageSize = 500

// The profiles that are built in.
const (
	Full      = "full"      // every verb that its caller may see
	Essential = "essential" // those whose record says so
)

// Profile is what one endpoint lists and resolves.
type Profile struct {
	name string
	// generation is that of the snapshot.
	generation uint64
	exact      bool
	native     bool
	surface    *Surface // of an exact profile
	class      Class
	reads      bool    // its backend may only read
	choice     *choice // how the list is chosen from what may be called; nil: all of it
	full       *Profile

	reach   []item // what may be called, by outward name
	items   []item // what is listed, by outward name
	skipped []Skipped
	byName  map[string]*Verb
	aliases map[string]*Verb // not in an exact profile

	prefixes []string // not in an exact profile; nil: those that are built in

	pending []string // of which nothing is known and that the list may hold
	unseen  []string // of which nothing is known
	stale   []string // listed, but not in this broker's life
	server  *broker.ServerInfo

	costs           *shape.Costs
	answers         Answers
	instructionsCap int // 0: the default
	lines           []operatorLine

	pages        func() []json.RawMessage
	taskPages    func() []json.RawMessage
	digest       func() string
	codes        func() codes
	words        func() []candidate
	index        func() *search.Index
	instructions func() string
	views        *sync.Map // Class -> *Profile
}

// item is one line of a list.
type item struct {
	name string
	verb *Verb
	raw  json.RawMessage // compact
	task json.RawMessage // the same for clients of tasks; nil: the same
}

// Name is the profile's name.
func (p *Profile) Name() string { return p.name }

// Generation is that of the snapshot.
func (p *Profile) Generation() uint64 { return p.generation }

// Exact reports whether the profile holds one backend's surface and nothing
// else. Arguments are not checked there: it is transparent.
func (p *Profile) Exact() bool { return p.exact }

// Native reports whether the profile is one of the broker's own families.
func (p *Profile) Native() bool { return p.native }

// Len is the number of verbs in the list.
func (p *Profile) Len() int { return len(p.items) }

// Pending lists the backends of which nothing is known yet and whose verbs the
// list may hold.
func (p *Profile) Pending() []string { return slices.Clone(p.pending) }

// Unseen lists the backends of which nothing is known and whose verbs the profile
// would resolve.
func (p *Profile) Unseen() []string { return slices.Clone(p.unseen) }

// Unconfirmed lists the backends whose verbs the profile resolves and that have not listed in this
// broker's life: those of which nothing is known, and those whose list is an
// earlier broker's.
func (p *Profile) Unconfirmed() []string { return slices.Concat(p.unseen, p.stale) }

// MayHold lists the unconfirmed backends that an unknown name may turn out to
// belong to, so that a wait for the name is a wait for them and for no other. In
// the merged profile the name says whose it is.
func (p *Profile) MayHold(name string) []string {
	if p.Exact() {
		return p.Unconfirmed()
	}
	return slices.DeleteFunc(p.Unconfirmed(), func(backend string) bool {
		return !strings.Contains(name, backend+"__") && !strings.Contains(name, fold(backend)+"__")
	})
}

// Server is what the backend of an exact profile said of itself; it is not
// known for the merged profile, nor before the backend has listed.
func (p *Profile) Server() (broker.ServerInfo, bool) {
	if p.server == nil {
		return broker.ServerInfo{}, false
	}
	return *p.server, true
}

// Resolve finds the verb of a name. In an exact profile that is the listed
// name and nothing else. In the merged one it is the listed name or an alias,
// as given or after one harness prefix; the name as given counts first, so
// that every listed name reaches its own verb whatever it begins with. Another
// case never resolves.
func (p *Profile) Resolve(name string) (*Verb, bool) {
	if v, ok := p.lookup(name); ok || p.exact {
		return v, ok
	}
	if bare, cut := p.unprefixed(name); cut {
		return p.lookup(bare)
	}
	return nil, false
}

func (p *Profile) lookup(name string) (*Verb, bool) {
	if v, ok := p.byName[name]; ok {
		return v, true
	}
	v, ok := p.aliases[name]
	return v, ok
}
