package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"berth/broker"
	"berth/broker/shape"
)

// describe adds what the owner of a verb says of it. Configuration has spoken
// before: what it says of the same is kept.
func (v *Verb) describe(f Facts) {
	if f.Family != "" {
		v.Family = f.Family
	}
	if v.Rank == 0 {
		v.Rank = f.Rank
	}
	if v.ResultTokens == 0 {
		v.ResultTokens = f.ResultTokens
	}
	v.Keywords = append(v.Keywords, f.Keywords...)
	v.Essential = v.Essential || f.Essential
	v.Required, v.Scope, v.OwnRecords, v.Participants, v.Transports, v.Next = f.Required, f.Scope, f.OwnRecords, f.Participants, f.Transports, f.Next
	if len(v.Next) > maxNext {
		v.Next = v.Next[:maxNext]
	}
}

// Description is the verb's own text, whole.
func (v *Verb) Description() string { return v.description }

// Digest is SHA-256, in hexadecimal, of the canonical JSON of the verb's entry
// in a list of several backends, without canary codes.
func (v *Verb) Digest() string { return v.digest() }

// OwnDigest is the same of the backend's own entry.
func (v *Verb) OwnDigest() string { return digestOf(v.Own) }

// Pinned is the accepted entry of a pinned backend's verb; nil: it is no such verb.
func (v *Verb) Pinned() *broker.PinnedEntry {
	if v.pinned == nil {
		return nil
	}
	return v.pinned()
}

// EntryDigests are the digests of the entries of a backend's list, by the names of
// their verbs; of a name that stands twice that of the entry that is served.
func EntryDigests(tools []broker.Tool) map[string]string {
	served := make(map[string]broker.Tool, len(tools))
	for _, t := range tools {
		if first, twice := served[t.Name]; !twice || string(t.Raw) < string(first.Raw) {
			served[t.Name] = t
		}
	}
	out := make(map[string]string, len(served))
	for name, t := range served {
		out[name] = digestOf(t.Raw)
	}
	return out
}

// ChangedRefusal refuses a call of a verb that its backend lists otherwise than it
// was accepted. name is the verb's as its caller has it.
func ChangedRefusal(name, backend, accepted, listed string) *broker.Refusal {
	return broker.Refuse(broker.CodeVerbChanged, "The backend lists "+name+" otherwise than an operator accepted it; nothing was sent.",
		map[string]any{"verb": name, "backend": backend, "accepted": accepted, "listed": listed})
}

// Tokens is what that entry costs in a list, by the settings' counter; ok is
// false when nothing counts.
func (v *Verb) Tokens(costs *shape.Costs) (n int, ok bool) {
	if costs == nil {
		return 0, false
	}
	return costs.Of(v.Digest(), string(v.Listed)), true
}

// digestOf names a JSON document, whatever the order of its members.
func digestOf(raw json.RawMessage) string {
	canonical, err := shape.Canonical(raw)
	if err != nil {
		canonical = raw // deeper than the canoniser goes
	}
	return digestText(string(canonical))
}

func digestText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Digest names all records of the snapshot: name, digest, effects and aliases.
func (s *Snapshot) Digest() string { return s.digest() }

func (s *Snapshot) sum() string {
	h := sha256.New()
	for _, v := range s.verbs {
		for _, part := range slices.Concat([]string{v.Name, v.Digest(), v.EffectsSource}, v.Effects.Names(), v.Aliases) {
			h.Write([]byte(part))
			h.Write([]byte{0})
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// KeepOrder gives a backend's new list with the entries of the old one where
// both are the same JSON: reordering members alone changes no list.
func KeepOrder(old, now []broker.Tool) []broker.Tool {
	before := make(map[string]broker.Tool, len(old))
	for _, t := range old {
		before[t.Name] = t
	}
	out := slices.Clone(now)
	for i, t := range now {
		was, ok := before[t.Name]
		if ok && string(was.Raw) != string(t.Raw) && digestOf(was.Raw) == digestOf(t.Raw) {
			out[i] = was
		}
	}
	return out
}

// accepted finds what was accepted of a pinned backend's verb, when that is
// something else than what it lists now.
func (s *Source) accepted(now broker.Tool) (was broker.Tool, changed bool) {
	if !s.Rules.Pin || s.declares() {
		return broker.Tool{}, false
	}
	at := slices.IndexFunc(s.Accepted, func(t broker.Tool) bool { return t.Name == now.Name })
	if at < 0 || digestOf(s.Accepted[at].Raw) == digestOf(now.Raw) {
		return broker.Tool{}, false
	}
	return s.Accepted[at], true
}

// Accept adds to what was accepted of a pinned backend the verbs that it lists
// and that were not known before. A verb that is gone stays accepted as it was,
// so that it cannot come back as another.
func Accept(accepted, now []broker.Tool) []broker.Tool {
	out := slices.Clone(accepted)
	for _, t := range now {
		if !slices.ContainsFunc(accepted, func(a broker.Tool) bool { return a.Name == t.Name }) {
			out = append(out, t)
		}
	}
	return out
}
