package catalog

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// selections makes the profiles that are not exact: the built-in ones and those
// of the configuration.
func (b *builder) selections(s *Snapshot, sources []Source) {
	full := &Profile{generation: b.generation, name: Full, aliases: b.aliases, prefixes: b.prefixes(), costs: b.settings.Costs, views: &sync.Map{}}
	full.full = full
	items := make([]item, 0, len(s.verbs))
	for _, v := range s.verbs {
		items = append(items, item{name: v.Name, verb: v, raw: v.Listed})
	}
	for i := range sources {
		if !sources[i].Listed && !sources[i].Native {
			full.unseen = append(full.unseen, sources[i].Backend)
		} else if sources[i].Stale {
			full.stale = append(full.stale, sources[i].Backend)
		}
	}
	full.pending, full.lines = full.unseen, operatorLines(sources)
	full.table(items)
	s.profiles[Full] = full.finish()

	essential := b.selection(full, Essential)
	for i := range sources {
		if len(sources[i].Rules.Essential) > 0 && slices.Contains(full.unseen, sources[i].Backend) {
			essential.pending = append(essential.pending, sources[i].Backend)
		}
	}
	s.profiles[Essential] = essential.choose().finish()
	for _, spec := range b.settings.Profiles {
		b.configured(s, full, spec)
	}
}

func (b *builder) selection(full *Profile, name string) *Profile {
	p := &Profile{generation: b.generation, name: name, full: full, unseen: full.unseen, stale: full.stale, costs: full.costs, lines: full.lines, views: &sync.Map{}}
	p.borrow(full)
	return p
}

// configured makes one profile of the configuration, or gives one that exists
// what is said of its answers.
func (b *builder) configured(s *Snapshot, full *Profile, spec ProfileSpec) {
	bad := func(code, reason string, fatal bool) {
		b.fault(Quarantined{Profile: spec.Name, Code: code, Reason: reason, Extent: Noted, Fatal: fatal})
	}
	if err := CheckSpec(spec, s.backends); err != nil {
		bad(CodeProfileNameTaken, "The profile cannot be served: "+err.Error()+".", true)
		return
	}
	if there, ok := s.profiles[spec.Name]; ok {
		there.answers, there.instructionsCap = spec.Answers, spec.InstructionsTokens
		if spec.ReadOnly {
			s.profiles[spec.Name] = there.Limited(Limit{All: true})
		}
		return
	}
	c := &choice{spec: spec, costs: b.settings.Costs}
	if c.costs == nil {
		bad(CodeProfileTooSmall, "The profile has a list budget and nothing counts tokens.", true)
		return
	}
	p := b.selection(full, spec.Name)
	p.choice, p.answers, p.instructionsCap = c, spec.Answers, spec.InstructionsTokens
	for _, backend := range full.unseen {
		if c.mayHold(backend) {
			p.pending = append(p.pending, backend)
		}
	}
	p.choose().finish()
	s.profiles[spec.Name] = p
	if spec.ReadOnly {
		s.profiles[spec.Name] = p.Limited(Limit{All: true})
	}
	b.judge(p, c, bad)
}

// judge finds what a profile's configuration asks for and cannot have. What a
// backend that lists later may still make good is noted only.
func (b *builder) judge(p *Profile, c *choice, bad func(code, reason string, fatal bool)) {
	for _, name := range c.spec.Required {
		if _, ok := p.Resolve(name); ok {
			continue
		}
		backend, _, _ := strings.Cut(name, "__")
		known := slices.ContainsFunc(b.verbs, func(v *Verb) bool { return fold(v.Backend) == backend }) || slices.ContainsFunc(p.unseen, func(n string) bool { return fold(n) == backend })
		bad(CodeSelectsNothing, "The required verb "+name+" does not exist.", !known)
	}
	for _, s := range slices.Concat(c.spec.Select, c.spec.Exclude) {
		if !slices.ContainsFunc(p.reach, func(it item) bool { return s.selects(it.verb) }) && !slices.ContainsFunc(p.unseen, s.mayHold) {
			bad(CodeSelectsNothing, "A selector ("+s.String()+") selects nothing.", false)
		}
	}
	for _, sk := range p.skipped {
		if v := p.byName[sk.Name]; c.required(v) {
			// What a backend lists must not end the broker: only native verbs do.
			tools, tokens := c.needs(p.reach)
			bad(CodeProfileTooSmall, fmt.Sprintf("The required set does not fit into the list budget: %s is %s; all of it needs %d tools and %d tokens.", sk.Name, sk.Reason, tools, tokens),
				v.Native || b.settings.Starting)
		}
	}
}

// prefixes are the harness prefixes, the longest first: of two that fit it is
// what the harness has put there.
func (b *builder) prefixes() []string {
	if len(b.settings.Prefixes) == 0 {
		return nil
	}
	all := slices.Clone(prefixes)
	for _, prefix := range b.settings.Prefixes {
		if err := CheckPrefix(prefix); err != nil {
			b.fault(Quarantined{Pattern: prefix, Code: CodeNameInvalid, Reason: "It is not stripped: " + err.Error() + ".", Extent: Noted, Fatal: true})
			continue
		}
		all = append(all, prefix)
	}
	slices.SortStableFunc(all, func(x, y string) int { return len(y) - len(x) })
	return all
}
