package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"

	"berth/broker"
	"berth/broker/shape"
)

// PageSize is how many entries a page of a list holds at most.
const PageSize = 500

// Profile is what one endpoint lists and resolves.
type Profile struct {
	name    string
	exact   bool
	native  bool
	surface *Surface // of an exact profile
	limit   Limit
	reads   bool   // its backend may only read
	items   []item // by outward name
	byName  map[string]*Verb
	aliases map[string]*Verb // merged only

	prefixes []string // merged only; nil: those that are built in

	pending []string
	stale   []string // listed, but not in this broker's life
	server  *broker.ServerInfo

	pages     func() []json.RawMessage
	taskPages func() []json.RawMessage
	digest    func() string
	words     func() []candidate
	limited   *sync.Map // Limit -> *Profile
}

// item is one line of a list.
type item struct {
	name string
	verb *Verb
	raw  json.RawMessage // compact
	task json.RawMessage // the same for clients of tasks; nil: the same
}

// Name is the profile's name; the merged one has none.
func (p *Profile) Name() string { return p.name }

// Exact reports whether the profile holds one backend's surface and nothing
// else. Arguments are not checked there: it is transparent.
func (p *Profile) Exact() bool { return p.exact }

// Native reports whether the profile is one of the broker's own families.
func (p *Profile) Native() bool { return p.native }

// Len is the number of verbs in the list.
func (p *Profile) Len() int { return len(p.items) }

// Pending lists the backends of this profile of which nothing is known yet.
func (p *Profile) Pending() []string { return slices.Clone(p.pending) }

// Unconfirmed lists the backends of this profile that have not listed in this
// broker's life: those of which nothing is known, and those whose list is an
// earlier broker's.
func (p *Profile) Unconfirmed() []string { return slices.Concat(p.pending, p.stale) }

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

// Page gives one page of the list, {"tools":[...],"nextCursor":"500"}, the same
// bytes at every call. A cursor is a decimal offset; empty is the beginning.
func (p *Profile) Page(cursor string) (json.RawMessage, *broker.Refusal) {
	return p.page(cursor, false)
}

// TaskPage is Page for a client of the tasks of protocol 2025-11-25: the verbs
// whose calls the broker runs as tasks say so in `execution.taskSupport`.
func (p *Profile) TaskPage(cursor string) (json.RawMessage, *broker.Refusal) {
	return p.page(cursor, p.Tasks())
}

// Tasks reports whether a verb of the profile can be called as a task of
// protocol 2025-11-25.
func (p *Profile) Tasks() bool {
	return slices.ContainsFunc(p.items, func(it item) bool { return it.verb.TakesTask() })
}

func (p *Profile) page(cursor string, tasks bool) (json.RawMessage, *broker.Refusal) {
	pages := p.pages
	if tasks {
		pages = p.taskPages
	}
	offset := 0
	if cursor != "" {
		n, ok := decimal(cursor)
		if !ok || n > len(p.items) {
			return nil, broker.Refuse(broker.CodeInvalidArguments, "The cursor is not one that this list gave.",
				map[string]any{"errors": []map[string]string{{"pointer": "/cursor", "rule": "cursor", "wanted": "the nextCursor of an earlier page, or none"}}})
		}
		offset = n
	}
	if offset%PageSize == 0 && offset/PageSize < len(pages()) {
		return pages()[offset/PageSize], nil
	}
	return p.render(offset, tasks), nil
}

// Digest names the bytes of the list: equal lists have equal digests.
func (p *Profile) Digest() string { return p.digest() }

// decimal reads a short unsigned decimal number.
func decimal(s string) (int, bool) {
	if len(s) > 9 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

func (p *Profile) render(offset int, tasks bool) json.RawMessage {
	end := min(offset+PageSize, len(p.items))
	var out bytes.Buffer
	out.WriteString(`{"tools":[`)
	for i, it := range p.items[offset:end] {
		if i > 0 {
			out.WriteByte(',')
		}
		if tasks && it.task != nil {
			out.Write(it.task)
		} else {
			out.Write(it.raw)
		}
	}
	out.WriteByte(']')
	if end < len(p.items) {
		out.WriteString(`,"nextCursor":"` + strconv.Itoa(end) + `"`)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// finish sorts the items and sets up what is made at first use.
func (p *Profile) finish() *Profile {
	slices.SortFunc(p.items, func(x, y item) int { return strings.Compare(x.name, y.name) })
	p.byName = make(map[string]*Verb, len(p.items))
	for i, it := range p.items {
		p.byName[it.name] = it.verb
		if it.verb.TakesTask() {
			p.items[i].task = withTaskSupport(it.raw, it.verb)
		}
	}
	p.items = slices.DeleteFunc(p.items, func(it item) bool { return p.Denied(it.verb) })
	all := func(tasks bool) func() []json.RawMessage {
		return sync.OnceValue(func() []json.RawMessage {
			pages := []json.RawMessage{p.render(0, tasks)}
			for offset := PageSize; offset < len(p.items); offset += PageSize {
				pages = append(pages, p.render(offset, tasks))
			}
			return pages
		})
	}
	p.pages, p.taskPages = all(false), all(true)
	p.digest = sync.OnceValue(func() string {
		h := sha256.New()
		for _, page := range p.pages() {
			h.Write(page)
		}
		return hex.EncodeToString(h.Sum(nil))
	})
	p.words = sync.OnceValue(p.candidates)
	return p
}

// merged makes the profile of all backends.
func (b *builder) merged(verbs []*Verb, sources []Source) *Profile {
	p := &Profile{aliases: b.aliases, limited: &sync.Map{}}
	for _, v := range verbs {
		p.items = append(p.items, item{name: v.Name, verb: v, raw: v.Listed})
	}
	for i := range sources {
		if !sources[i].Listed && !sources[i].Native {
			p.pending = append(p.pending, sources[i].Backend)
		} else if sources[i].Stale {
			p.stale = append(p.stale, sources[i].Backend)
		}
	}
	return p.finish()
}

// exact makes the profile of one backend: its own entries, and beside them the
// native verbs that every backend's profile has. Where the backend has a verb
// of that name, it keeps it, and the native one is berth__NAME.
func (b *builder) exact(s *Source) *Profile {
	p := &Profile{name: s.Backend, exact: true, native: s.Native, surface: s.Surface, reads: s.Rules.ReadOnly, limited: &sync.Map{}}
	if s.Listed {
		server := s.Server
		p.server = &server
		if s.Stale {
			p.stale = []string{s.Backend}
		}
	} else {
		p.pending = []string{s.Backend}
	}
	taken := map[string]bool{}
	for _, v := range b.own[s.Backend] {
		raw, err := shape.Compact(v.Own)
		if err != nil {
			continue // cannot happen: the entry was read
		}
		taken[v.Upstream] = true
		p.items = append(p.items, item{name: v.Upstream, verb: v, raw: raw})
	}
	for _, v := range b.beside {
		if s.Native || s.Surface != nil {
			break // they are its own, or it is a contract to which nothing is added
		}
		it := item{name: v.Name, verb: v, raw: v.Listed}
		if taken[it.name] {
			it.name = NativeName + "__" + v.Name
			it.raw = renamed(v.Listed, it.name)
		}
		if taken[it.name] || it.raw == nil {
			b.fault(Quarantined{Backend: s.Backend, Verb: it.name, Code: CodeDuplicate, Extent: Noted,
				Reason: "The backend's own profile has no room for the native verb " + v.Name + ": both of its names are taken."})
			continue
		}
		p.items = append(p.items, it)
	}
	return p.finish()
}

// renamed gives a rendered entry another name; nil when it cannot be read.
func renamed(listed json.RawMessage, name string) json.RawMessage {
	members, err := shape.Members(listed)
	if err != nil {
		return nil
	}
	for _, m := range members {
		if m.Name == "name" {
			return slices.Concat(listed[:m.Start], []byte(`"`+name+`"`), listed[m.Start+len(m.Value):])
		}
	}
	return nil
}
