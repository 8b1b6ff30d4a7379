// Package native joins the families of the broker's own verbs into one backend,
// so that they share its name, its queue and its life.
//
// It owns which family answers a verb. It refuses nothing itself: names and
// arguments were judged before, by the catalog that the families' sources are
// part of. Families answer for themselves and are safe for concurrent use.
package native

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"berth/broker"
	"berth/broker/catalog"
)

// Family is a family of verbs that are answered in the process.
type Family interface {
	// Source is the family as the catalog takes it.
	Source() catalog.Source
	Open(ctx context.Context, hear broker.Hear) (broker.Conn, error)
}

// Unreadable refuses what needs a journal that cannot be read, and logs why.
func Unreadable(log *slog.Logger, err error) error {
	log.Error("the journal could not be read", slog.String("cause", err.Error()))
	return broker.Refuse(broker.CodeJobJournal, "The journal could not be read; ask again.", nil)
}

// Joined is several families as one upstream.
type Joined struct {
	families []Family
	access   Access // empty: families say themselves who sees a verb
}

// Join makes one backend of families. The first speaks for all where a backend
// has one word: its name and what it says of itself.
func Join(first Family, more ...Family) *Joined {
	return &Joined{families: append([]Family{first}, more...)}
}

// For has the table of a setting decide who sees which verb.
func (j *Joined) For(a Access) *Joined {
	return &Joined{families: j.families, access: a}
}

// Source is all families as the catalog takes them.
func (j *Joined) Source() catalog.Source {
	out := j.families[0].Source()
	out.Tools = slices.Clone(out.Tools)
	for _, family := range j.families[1:] {
		s := family.Source()
		out.Tools = append(out.Tools, s.Tools...)
		out.Effects, out.Conditional, out.Facts = with(out.Effects, s.Effects), with(out.Conditional, s.Conditional), with(out.Facts, s.Facts)
		out.Aliases, out.Passes, out.Checks = with(out.Aliases, s.Aliases), with(out.Passes, s.Passes), with(out.Checks, s.Checks)
		out.Control = slices.Concat(out.Control, s.Control)
		out.Handlers, out.Held = slices.Concat(out.Handlers, s.Handlers), slices.Concat(out.Held, s.Held)
		out.Beside = slices.Concat(out.Beside, s.Beside)
		out.MergedOnly = slices.Concat(out.MergedOnly, s.MergedOnly)
		out.Rules.Long = slices.Concat(out.Rules.Long, s.Rules.Long)
		if s.Family == "" || s.Family == out.Family {
			continue
		}
		for _, t := range s.Tools { // of a joined source only Facts say whose family a verb is
			facts := out.Facts[t.Name]
			if facts.Family == "" {
				facts.Family = s.Family
			}
			out.Facts = with(out.Facts, map[string]catalog.Facts{t.Name: facts})
		}
	}
	if j.access != "" {
		out = j.access.scoped(out)
	}
	return out
}

func with[V any](a, b map[string]V) map[string]V {
	if len(b) == 0 {
		return a
	}
	out := maps.Clone(a)
	if out == nil {
		out = map[string]V{}
	}
	maps.Copy(out, b)
	return out
}

// Open opens every family.
func (j *Joined) Open(ctx context.Context, hear broker.Hear) (broker.Conn, error) {
	c := &conn{byVerb: map[string]broker.Conn{}, done: make(chan struct{})}
	for _, family := range j.families {
		one, err := family.Open(ctx, hear)
		if err != nil {
			return nil, errors.Join(err, c.Close(ctx))
		}
		c.parts = append(c.parts, one)
		for _, t := range family.Source().Tools {
			c.byVerb[t.Name] = one
		}
	}
	return c, nil
}

// conn is one life of all families.
type conn struct {
	parts  []broker.Conn
	byVerb map[string]broker.Conn
	done   chan struct{}
	once   sync.Once
}

func (c *conn) Incarnation() broker.Incarnation {
	inc := c.parts[0].Incarnation()
	inc.Done = c.done
	inc.Tools = slices.Clone(inc.Tools)
	for _, p := range c.parts[1:] {
		inc.Tools = append(inc.Tools, p.Incarnation().Tools...)
	}
	return inc
}

func (c *conn) List(ctx context.Context) (tools []broker.Tool, flags []string, err error) {
	for _, p := range c.parts {
		t, f, err := p.List(ctx)
		if err != nil {
			return nil, nil, err
		}
		tools, flags = append(tools, t...), append(flags, f...)
	}
	return tools, flags, nil
}

// Call hands a call to the family of its verb.
func (c *conn) Call(ctx context.Context, call *broker.Call, peer broker.Peer) (broker.Answer, error) {
	var params struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(call.Params, &params); err == nil {
		if p, ok := c.byVerb[params.Name]; ok {
			return p.Call(ctx, call, peer)
		}
	}
	return broker.Answer{}, &broker.Failure{Cause: "no native family has this verb", Refusal: broker.Refuse(
		broker.CodeVerbUnknown, "Tool not found: "+call.Verb, map[string]any{"name": call.Verb})}
}

func (c *conn) Close(ctx context.Context) error {
	var err error
	c.once.Do(func() {
		for _, p := range c.parts {
			err = errors.Join(err, p.Close(ctx))
		}
		close(c.done)
	})
	return err
}
