package catalog

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"berth/broker"
	"berth/broker/catalog/search"
	"berth/broker/shape"
)

// Snapshot is the catalog at one moment.
type Snapshot struct {
	generation  uint64
	verbs       []*Verb // of the full profile, by name
	every       []*Verb // those that only an exact profile has, too
	profiles    map[string]*Profile
	surfaces    map[string]bool
	backends    []string // native ones, too; in byte order
	quarantined []Quarantined
	digest      func() string
}

// Generation is the number that Build was given.
func (s *Snapshot) Generation() uint64 { return s.generation }

// Verbs lists the verbs of the full profile by name. The slice is shared.
func (s *Snapshot) Verbs() []*Verb { return s.verbs }

// Quarantined lists what Build did not serve, or served with a reservation.
func (s *Snapshot) Quarantined() []Quarantined { return slices.Clone(s.quarantined) }

// Profile finds a profile: [Full] (which "" means, too) and [Essential] are
// built in, a backend's name is its exact one, the rest is configured.
func (s *Snapshot) Profile(name string) (*Profile, bool) {
	if name == "" {
		name = Full
	}
	p, ok := s.profiles[name]
	return p, ok
}

// Profiles lists the names of the exact profiles in byte order.
func (s *Snapshot) Profiles() []string { return slices.Clone(s.backends) }

// Selections lists the names of the profiles that are not exact, in byte order.
func (s *Snapshot) Selections() []string {
	names := slices.Sorted(maps.Keys(s.profiles))
	return slices.DeleteFunc(names, func(n string) bool { return s.profiles[n].exact })
}

// HasSurface reports whether a backend has the surface of a name.
func (s *Snapshot) HasSurface(name string) bool { return s.surfaces[name] }

// Notes lists the upstream verbs that are served unchecked because their
// schema is in a dialect that is not known here.
func (s *Snapshot) Notes() []Quarantined {
	var notes []Quarantined
	for _, v := range s.every {
		if why := v.Unchecked(); why != "" {
			notes = append(notes, Quarantined{Backend: v.Backend, Verb: v.Upstream, Code: CodeSchemaInvalid,
				Reason: "The arguments of this verb are not checked: " + why + ".", Extent: Noted})
		}
	}
	return notes
}

// Build is Settings.Build without any settings.
func Build(generation uint64, sources []Source) (*Snapshot, []Quarantined) {
	return Settings{}.Build(generation, sources)
}

// Build makes a snapshot of the sources, in whatever order they come, and
// lists what is not served. It never fails: a fault of the broker's own verbs,
// or of a profile, is listed as Fatal, and its verb left out.
func (c Settings) Build(generation uint64, sources []Source) (*Snapshot, []Quarantined) {
	b := &builder{generation: generation, settings: c, byName: map[string]*Verb{}, aliases: map[string]*Verb{}, own: map[string][]*Verb{}}
	sources = b.accept(sources)
	for i := range sources {
		b.read(&sources[i])
	}
	b.name()
	b.alias(sources)
	s := &Snapshot{generation: generation, profiles: map[string]*Profile{}, surfaces: map[string]bool{}, every: b.verbs}
	for _, v := range b.verbs {
		if b.byName[v.Name] == v {
			s.verbs = append(s.verbs, v)
		}
	}
	slices.SortFunc(s.verbs, func(x, y *Verb) int { return strings.Compare(x.Name, y.Name) })
	for _, v := range b.verbs {
		slices.Sort(v.Aliases)
	}
	for i := range sources {
		exact := b.exact(&sources[i])
		s.profiles[sources[i].Backend] = exact
		if sources[i].Native {
			s.profiles[Armada] = b.armada(exact)
		}
		s.backends = append(s.backends, sources[i].Backend)
		if surface := sources[i].Surface; surface != nil {
			s.surfaces[surface.Name] = true
		}
	}
	slices.Sort(s.backends)
	b.selections(s, sources)
	slices.SortStableFunc(b.faults, func(x, y Quarantined) int {
		return cmp.Or(strings.Compare(x.Backend, y.Backend), strings.Compare(x.Verb, y.Verb), strings.Compare(x.Code, y.Code), strings.Compare(x.Subject(), y.Subject()))
	})
	s.quarantined = b.faults
	s.digest = sync.OnceValue(s.sum)
	return s, slices.Clone(b.faults)
}

// builder collects what Build finds.
type builder struct {
	generation uint64
	settings   Settings
	verbs      []*Verb // after name: in the order of precedence for names
	byName     map[string]*Verb
	aliases    map[string]*Verb
	own        map[string][]*Verb // by backend: its verbs, also those outside the merged profile
	beside     []*Verb
	faults     []Quarantined
}

func (b *builder) fault(q Quarantined) { b.faults = append(b.faults, q) }

// accept orders the sources, native ones first, and leaves out those whose
// backend name cannot be used.
func (b *builder) accept(sources []Source) []Source {
	sources = slices.Clone(sources)
	slices.SortStableFunc(sources, func(x, y Source) int {
		if x.Native != y.Native {
			if x.Native {
				return -1
			}
			return 1
		}
		return strings.Compare(x.Backend, y.Backend)
	})
	taken := map[string]bool{}
	return slices.DeleteFunc(sources, func(s Source) bool {
		reason := ""
		switch {
		case s.Backend == "":
			reason = "A backend needs a name."
		case taken[s.Backend]:
			reason = "Two backends have this name."
		case !s.Native && s.Backend == NativeName:
			reason = "This name is kept for the broker itself."
		case !s.Native && strings.Contains(s.Backend, "__"):
			reason = "A backend's name cannot hold two underscores in a row: they part it from its verbs."
		}
		taken[s.Backend] = true
		if reason != "" {
			b.fault(Quarantined{Backend: s.Backend, Code: CodeBackendName, Reason: reason, Extent: OutOfAll, Fatal: true})
		}
		return reason != ""
	})
}

// read makes the records of one source.
func (b *builder) read(s *Source) {
	if !s.Listed && !s.Native {
		return
	}
	for _, glob := range s.Rules.globs() {
		switch {
		case badGlob(glob):
			b.fault(Quarantined{Backend: s.Backend, Pattern: glob, Code: CodeGlobInvalid, Reason: "This pattern is malformed and selects nothing.", Extent: Noted, Fatal: s.Native})
		case glob != "" && glob != "*" && !slices.ContainsFunc(s.Tools, func(t broker.Tool) bool { return matches(glob, t.Name) }):
			b.fault(Quarantined{Backend: s.Backend, Pattern: glob, Code: CodeSelectsNothing, Reason: "This pattern selects none of the verbs that the backend lists.", Extent: Noted, Fatal: s.Native})
		}
	}
	tools := slices.Clone(s.Tools)
	slices.SortStableFunc(tools, func(x, y broker.Tool) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(string(x.Raw), string(y.Raw)))
	})
	for i, t := range tools {
		if i > 0 && t.Name == tools[i-1].Name {
			b.fault(Quarantined{Backend: s.Backend, Verb: t.Name, Code: CodeDuplicate, Reason: "The backend lists this name twice; the first in byte order is served.", Extent: OutOfAll, Fatal: s.declares()})
			continue
		}
		b.record(s, t)
	}
}

// record makes one verb.
func (b *builder) record(s *Source, t broker.Tool) {
	bad := func(code, reason string) {
		b.fault(Quarantined{Backend: s.Backend, Verb: t.Name, Code: code, Reason: reason, Extent: OutOfAll, Fatal: s.declares()})
	}
	if t.Name == "" || (s.Native && (fold(t.Name) != t.Name || len(t.Name) > maxName)) {
		bad(CodeNameInvalid, "The name is empty, or no valid name of a native verb.")
		return
	}
	changed := ""
	if was, ok := s.accepted(t); ok {
		changed, t = digestOf(t.Raw), was
		b.fault(Quarantined{Backend: s.Backend, Verb: t.Name, Code: CodeVerbChanged, Reason: "The backend lists it otherwise than it was accepted; calls of it are refused.", Extent: Noted})
	}
	e, err := readEntry(t)
	if err != nil {
		bad(CodeSchemaInvalid, "The entry cannot be read: "+err.Error()+".")
		return
	}
	v := &Verb{Name: t.Name, Upstream: t.Name, Backend: s.Backend, Native: s.Native, Surface: s.Surface, Seats: 1, ReadOnly: s.Rules.ReadOnly,
		HasOutputSchema: e.output, InputSchema: e.input, Own: t.Raw, description: e.description, Summary: search.Summary(e.description), Family: s.Family}
	if v.Family == "" && !s.Native {
		v.Family = s.Backend
	}
	if !s.Native && s.Surface == nil && s.Server.ProtocolVersion <= lastCoreTasks && tasksOf(s.Server.Capabilities) {
		v.OwnTask = e.task
	}
	if !s.Native {
		v.Name = outward(s.Backend + "__" + t.Name)
	}
	if s.declares() {
		effects, declared := s.Effects[t.Name]
		if !declared {
			bad(CodeNoEffects, "A verb of the broker's own, or of a local app, must declare its effects.")
			return
		}
		v.Effects, v.EffectsSource, v.Conditional = effects, FromNative, s.Conditional[t.Name]
		v.Held, v.check = slices.Contains(s.Held, t.Name), s.Checks[t.Name]
		if s.Surface != nil {
			v.EffectsSource, v.Held, v.Follow = FromSurface, slices.Contains(s.Surface.Held, t.Name), s.Surface.Follows[t.Name]
		}
		v.Control, v.Pass = slices.Contains(s.Control, t.Name), s.Passes[t.Name]
	} else {
		v.Effects, v.EffectsSource, v.Conditional = effectsOf(t.Name, s.Rules, e.hints)
	}
	if code, reason := v.checkEffects(); code != "" {
		bad(code, reason)
		return
	}
	if v.unfit = v.readSchema(b.settings.Schemas); v.unfit != "" && s.Native {
		bad(CodeSchemaInvalid, v.unfit)
		return
	}
	v.minimal = v.lazilyMinimal()
	if s.Native && slices.Contains(s.Beside, t.Name) {
		b.beside = append(b.beside, v)
	}
	s.Rules.apply(v)
	v.Held = v.Held || b.settings.holds(v)
	v.describe(s.Facts[t.Name])
	if v.Family == "" {
		bad(CodeNoFamily, "A native verb must name its family.")
		return
	}
	if why := b.settings.held(s.Backend, t.Name); why != "" {
		bad(CodeParity, why)
		return
	}
	v.Listed = e.render(v.Name, v.ResultTokens == shape.Whole, listedAnnotations(e.hints, v.Effects, v.EffectsSource, s.declares() || s.Rules.TrustAnnotations))
	v.digest = sync.OnceValue(func() string { return digestOf(v.Listed) })
	v.Changed = changed
	if s.Rules.Pin && !s.declares() {
		v.pinned = sync.OnceValue(func() *broker.PinnedEntry { return &broker.PinnedEntry{Name: v.Upstream, Digest: v.OwnDigest()} })
	}
	b.verbs = append(b.verbs, v)
	b.own[s.Backend] = append(b.own[s.Backend], v)
}

// declares reports whether the source says itself what its verbs do, and no
// configuration can say otherwise.
func (s *Source) declares() bool { return s.Native || s.Surface != nil }

// apply sets what a backend's configuration says about a verb.
func (r Rules) apply(v *Verb) {
	selected := func(globs []string) bool {
		return slices.ContainsFunc(globs, func(glob string) bool { return matches(glob, v.Upstream) })
	}
	v.RequireTask, v.Essential = selected(r.RequireTask), selected(r.Essential)
	v.Keywords, _ = pick(r.Keywords, v.Upstream)
	v.Keywords = slices.Clone(v.Keywords)
	v.Rank, _ = pick(r.Ranks, v.Upstream)
	v.ResultTokens, _ = pick(r.ResultTokens, v.Upstream)
	// What a backend runs only as a task of its own takes its time.
	v.Long = selected(r.Long) || v.RequireTask || v.OwnTask == TaskRequired
	v.Tracks, _ = pick(r.Tracks, v.Upstream)
	v.Unguided = r.Unguided
	if seats, ok := pick(r.Seats, v.Upstream); ok && seats > 1 {
		v.Seats = seats
	}
	if d, ok := pick(r.PromoteAfter, v.Upstream); ok {
		v.PromoteAfter = &d
	}
	if d, ok := pick(r.CallTimeout, v.Upstream); ok {
		v.CallTimeout = &d
	}
}

// lastCoreTasks is the last version in which tasks are asked for with a call.
const lastCoreTasks = "2025-11-25"

// tasksOf reports whether a server of the protocol's 2025-11-25 form takes
// tools/call as a task.
func tasksOf(capabilities json.RawMessage) bool {
	var c struct {
		Tasks struct {
			Requests struct {
				Tools struct {
					Call *struct{} `json:"call"`
				} `json:"tools"`
			} `json:"requests"`
		} `json:"tasks"`
	}
	return json.Unmarshal(capabilities, &c) == nil && c.Tasks.Requests.Tools.Call != nil
}

// globs lists every pattern, in byte order, each once.
func (r Rules) globs() []string {
	out := slices.Concat(r.Long, r.RequireTask, r.Essential)
	for _, e := range r.Effects {
		out = append(out, e.Verb)
	}
	out = slices.AppendSeq(out, maps.Keys(r.PromoteAfter))
	out = slices.AppendSeq(out, maps.Keys(r.CallTimeout))
	out = slices.AppendSeq(out, maps.Keys(r.Seats))
	out = slices.AppendSeq(out, maps.Keys(r.Tracks))
	out = slices.AppendSeq(out, maps.Keys(r.Keywords))
	out = slices.AppendSeq(out, maps.Keys(r.Ranks))
	out = slices.AppendSeq(out, maps.Keys(r.ResultTokens))
	slices.Sort(out)
	return slices.Compact(out)
}

// name gives each outward name to one verb: native verbs first, then those
// whose name needed no change, then by backend and upstream name. The order
// does not depend on who arrived first.
func (b *builder) name() {
	slices.SortStableFunc(b.verbs, func(x, y *Verb) int {
		return cmp.Or(rank(x)-rank(y), strings.Compare(x.Backend, y.Backend), strings.Compare(x.Upstream, y.Upstream))
	})
	for _, v := range b.verbs {
		switch {
		case b.byName[v.Name] != nil:
			taken := b.byName[v.Name]
			b.fault(Quarantined{Backend: v.Backend, Verb: v.Upstream, Code: CodeDuplicate, Fatal: v.Native, Extent: OutOfMerged,
				Reason: "Its name " + v.Name + " is taken by " + taken.Upstream + " of " + taken.Backend + "."})
		case v.unfit != "":
			b.fault(Quarantined{Backend: v.Backend, Verb: v.Upstream, Code: CodeSchemaInvalid, Extent: OutOfMerged, Reason: v.unfit})
		default:
			b.byName[v.Name] = v
		}
	}
}

func rank(v *Verb) int {
	switch {
	case v.Native:
		return 0
	case v.Name == v.Backend+"__"+v.Upstream:
		return 1
	}
	return 2
}

// alias adds the other names: declared ones of native verbs, berth__NAME for
// each native verb, and the full name of an upstream verb that was changed.
func (b *builder) alias(sources []Source) {
	for i := range sources {
		s := &sources[i]
		if !s.Native {
			continue
		}
		for _, alias := range slices.Sorted(maps.Keys(s.Aliases)) {
			target := b.byName[s.Aliases[alias]]
			if target == nil || target.Backend != s.Backend {
				b.fault(Quarantined{Backend: s.Backend, Verb: alias, Code: CodeAliasOfNothing, Reason: "It points to no verb of this family.", Extent: OutOfAll, Fatal: true})
				continue
			}
			b.addAlias(alias, target)
		}
	}
	for _, v := range b.verbs {
		if b.byName[v.Name] != v {
			continue
		}
		if v.Native {
			b.addAlias(NativeName+"__"+v.Name, v)
			continue
		}
		full := v.Backend + "__" + v.Upstream
		b.addAlias(full, v)
		b.addAlias(fold(full), v)
	}
}

func (b *builder) addAlias(alias string, v *Verb) {
	if alias == v.Name || b.aliases[alias] == v {
		return
	}
	if b.byName[alias] != nil || b.aliases[alias] != nil {
		code := CodeAliasShadows
		if b.aliases[alias] != nil {
			code = CodeDuplicate
		}
		b.fault(Quarantined{Backend: v.Backend, Verb: alias, Code: code, Reason: "This alias is taken; it is dropped.", Extent: Noted, Fatal: v.Native})
		return
	}
	b.aliases[alias] = v
	v.Aliases = append(v.Aliases, alias)
}
