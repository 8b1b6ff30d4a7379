package parity

import (
	"fmt"
	"slices"
	"strings"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/help"
	"berth/broker/catalog/minimal"
)

// Fault is something that does not hold.
type Fault struct {
	Check   string // P1 to P10
	Backend string // with Verb, whose fault it is; else empty
	Verb    string // the backend's own name
	Native  bool   // of the broker itself: nothing can be left out to repair it
	Reason  string // one sentence
}

func (f Fault) String() string {
	if f.Verb == "" {
		return f.Check + ": " + f.Reason
	}
	return f.Check + ": " + f.Backend + " " + f.Verb + ": " + f.Reason
}

// Input is what is checked: a snapshot, and what it was built from.
type Input struct {
	Snapshot *catalog.Snapshot
	Sources  []catalog.Source
	Settings catalog.Settings
	// Thorough does what takes its time, too: every minimal call, and the cost
	// of every text.
	Thorough bool
}

// Check runs every check and lists what does not hold, in the order of the checks.
func Check(in Input) []Fault {
	c := &checker{Input: in}
	for _, check := range []func(*checker){
		(*checker).lookup, (*checker).equation, (*checker).handlers, (*checker).names, (*checker).arguments,
		(*checker).pointers, (*checker).counts, (*checker).bytes, (*checker).tiers, (*checker).profiles,
	} {
		check(c)
	}
	return c.faults
}

type checker struct {
	Input
	faults []Fault
}

// say notes a fault of a verb, or of the broker where v is nil.
func (c *checker) say(check string, v *catalog.Verb, reason string, args ...any) {
	f := Fault{Check: check, Native: true, Reason: fmt.Sprintf(reason, args...)}
	if v != nil {
		f.Backend, f.Verb, f.Native = v.Backend, v.Upstream, v.Native || v.Surface != nil
	}
	c.faults = append(c.faults, f)
}

func (c *checker) profile(name string) *catalog.Profile {
	p, _ := c.Snapshot.Profile(name)
	return p
}

func (c *checker) all() []*catalog.Profile {
	var out []*catalog.Profile
	for _, name := range slices.Concat(c.Snapshot.Selections(), c.Snapshot.Profiles(), []string{catalog.Armada}) {
		if p := c.profile(name); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// lookup is P1: each name and alias resolves to one record, its own.
func (c *checker) lookup() {
	for _, p := range c.all() {
		for _, e := range p.Reach() {
			if v, ok := p.Resolve(e.Name); !ok || v != e.Verb {
				c.say("P1", e.Verb, "in the profile %s its name %s does not reach it", p.Name(), e.Name)
			}
			if p.Exact() {
				continue
			}
			for _, alias := range e.Verb.Aliases {
				if v, ok := p.Resolve(alias); !ok || v != e.Verb {
					c.say("P1", e.Verb, "in the profile %s its alias %s does not reach it", p.Name(), alias)
				}
			}
		}
	}
}

// classes are the callers that are told apart.
func classes() []catalog.Class {
	var out []catalog.Class
	for _, transport := range catalog.Transports {
		for _, role := range []broker.Role{broker.GlobalAdministrator, broker.TenantAdministrator, broker.User} {
			for _, reads := range []bool{false, true} {
				out = append(out, catalog.Class{Limit: catalog.Limit{All: reads}, Role: role, Transport: transport})
			}
		}
	}
	return out
}

// equation is P2: what may be called is what full advertises and the rest that
// can be discovered, and nothing that is denied.
func (c *checker) equation() {
	seen := map[*catalog.Profile]bool{}
	for _, name := range c.Snapshot.Selections() {
		for _, class := range classes() {
			// Who may only read in one of them is compared with who may only read in both.
			class.All = class.All || c.profile(name).OnlyReads() || c.profile(catalog.Full).OnlyReads()
			p, full := c.profile(name).As(class), c.profile(catalog.Full).As(class)
			if seen[p] {
				continue
			}
			seen[p] = true
			callable := map[string]bool{}
			for _, e := range p.Reach() {
				callable[e.Name] = true
			}
			advertised := full.Entries()
			if len(advertised) != len(callable) {
				c.say("P2", nil, "the profile %s reaches %d names and full lists %d, for %v", name, len(callable), len(advertised), class)
			}
			for _, e := range advertised {
				if !callable[e.Name] {
					c.say("P2", e.Verb, "full lists it and the profile %s does not reach it, for %v", name, class)
				}
			}
			for _, v := range c.Snapshot.Verbs() {
				_, visibility := p.Visibility(v.Name)
				may := visibility == catalog.Advertised || visibility == catalog.Discoverable
				if may != callable[v.Name] {
					c.say("P2", v, "it is %s in the profile %s and callable is %v, for %v", visibility, name, callable[v.Name], class)
				}
			}
			for _, e := range p.Entries() {
				if !callable[e.Name] {
					c.say("P2", e.Verb, "the profile %s lists it and it cannot be called, for %v", name, class)
				}
			}
		}
	}
}

// handlers is P3: the broker's own verbs are those that its code answers.
func (c *checker) handlers() {
	for i := range c.Sources {
		s := &c.Sources[i]
		if !s.Native {
			continue
		}
		var records []string
		for _, t := range s.Tools {
			records = append(records, t.Name)
			if !slices.Contains(s.Handlers, t.Name) {
				c.say("P3", nil, "%s: the verb %s of %s has no handler", catalog.CodeNotServed, t.Name, s.Backend)
			}
		}
		for _, h := range s.Handlers {
			if !slices.Contains(records, h) {
				c.say("P3", nil, "the handler %s of %s has no record", h, s.Backend)
			}
		}
	}
}

// names is P4: every name that stands anywhere resolves.
func (c *checker) names() {
	full := c.profile(catalog.Full)
	family := false
	for _, v := range c.Snapshot.Verbs() {
		family = family || v.Family == catalog.FamilyCatalog
		for _, n := range v.Next {
			if _, ok := full.Resolve(n.Name); !ok {
				c.say("P4", v, "it names %s as a follow-up, which does not exist", n.Name)
			}
		}
		for _, name := range followed(v) {
			if p := c.profile(v.Backend); p != nil {
				if _, ok := p.Resolve(name); !ok && v.Surface != nil {
					c.say("P4", v, "its work is followed with %s, which does not exist", name)
				}
			}
		}
	}
	if !family {
		return // nothing that the texts are about
	}
	for _, text := range slices.Concat(catalog.Sentences(), help.Sentences()) {
		for _, fault := range full.LintText(text) {
			c.say("P4", nil, "a sentence is wrong: %s", fault)
		}
	}
}

// followed is the verb that tells how the work of a surface's verb stands. What
// finds work in a queue is the app's own, and no verb.
func followed(v *catalog.Verb) []string {
	if v.Follow == nil {
		return nil
	}
	return []string{v.Follow.Verb}
}

// arguments is P5: a minimal call of each verb of the broker's own fits, and,
// when there is time, of every other one that has one.
func (c *checker) arguments() {
	for _, v := range c.Snapshot.Verbs() {
		if !v.Native && !c.Thorough {
			continue
		}
		s, err := v.Schema()
		if err != nil {
			continue // it is served unchecked, and Notes says so
		}
		args, err := v.Minimal()
		switch {
		case err != nil && v.Native:
			c.say("P5", v, "%s: it has %v", catalog.CodeMinimalInvalid, err)
		case err != nil:
		case minimal.Check(s, args) != nil:
			c.say("P5", v, "%s: its minimal call does not fit its schema", catalog.CodeMinimalInvalid)
		}
	}
}

// pointers is P6: rules for single arguments point into the schema and narrow.
func (c *checker) pointers() {
	for _, v := range c.Snapshot.Verbs() {
		if why := v.EffectsFault(); why != "" {
			c.say("P6", v, "%s", strings.TrimSuffix(why, "."))
		}
	}
}

// counts is P7 at run time: no text of the broker's own says how many verbs
// there are. A test reads the source.
func (c *checker) counts() {
	for _, v := range c.Snapshot.Verbs() {
		if v.Native {
			for _, counted := range catalog.CountsVerbs(v.Description()) {
				c.say("P7", v, "its description says a number of verbs: %s", counted)
			}
		}
	}
}

// bytes is P8: the list does not depend on who came first.
func (c *checker) bytes() {
	sources := slices.Clone(c.Sources)
	slices.Reverse(sources)
	for i := range sources {
		sources[i].Tools = slices.Clone(sources[i].Tools)
		slices.Reverse(sources[i].Tools)
	}
	again, _ := c.Settings.Build(c.Snapshot.Generation(), sources)
	for _, p := range c.all() {
		q, ok := again.Profile(p.Name())
		if !ok || !p.SameList(q) || (c.Thorough && q.Digest() != p.Digest()) {
			c.say("P8", nil, "the list of the profile %s depends on the order of registration", p.Name())
		}
	}
}

// tiers is P9: essential is a part of full, and a smaller one if any verb is
// not essential.
func (c *checker) tiers() {
	essential, full := c.profile(catalog.Essential), c.profile(catalog.Full)
	if essential.OnlyReads() || full.OnlyReads() {
		reads := catalog.Limit{All: true}
		essential, full = essential.Limited(reads), full.Limited(reads)
	}
	rest := 0
	for _, e := range full.Entries() {
		if listed := essential.Advertises(e.Verb); listed != e.Verb.Essential {
			c.say("P9", e.Verb, "its record says essential %v and the tier says %v", e.Verb.Essential, listed)
		}
		if !e.Verb.Essential {
			rest++
		}
	}
	if essential.Len()+rest != full.Len() {
		c.say("P9", nil, "the essential tier is no part of full")
	}
}

// profiles is P10: what is promised of lists and instructions holds when it is
// counted again.
func (c *checker) profiles() {
	for _, name := range c.Snapshot.Selections() {
		p := c.profile(name)
		if maxTools, maxTokens, ok := p.Budget(); ok {
			if maxTools > 0 && p.Len() > maxTools {
				c.say("P10", nil, "the profile %s lists %d of at most %d tools", name, p.Len(), maxTools)
			}
			if cost, counted := p.Cost(); counted && cost > maxTokens {
				c.say("P10", nil, "the list of the profile %s costs %d of at most %d tokens", name, cost, maxTokens)
			}
		}
		for _, class := range []catalog.Class{{}, {Limit: catalog.Limit{All: true}}} {
			c.instructions(p.As(class))
		}
	}
}

func (c *checker) instructions(p *catalog.Profile) {
	text := p.Instructions()
	for _, fault := range p.LintText(text) {
		c.say("P10", nil, "the instructions of the profile %s are wrong: %s", p.Name(), fault)
	}
	// Counting loads a vocabulary, which a process that needs none must not.
	// What is built in is known to fit; an operator's lines are not.
	if !c.Thorough && !p.Configured() || len(text) <= p.InstructionsCap() {
		return
	}
	if cost, counted := p.InstructionsCost(); counted && cost > p.InstructionsCap() {
		c.say("P10", nil, "%s: the instructions of the profile %s cost %d of at most %d tokens", catalog.CodeInstructionsCap, p.Name(), cost, p.InstructionsCap())
	}
}
