package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"berth/broker"
)

// maxTold bounds the events of one list; the last of more says how many there
// were besides. A backend that lists thousands of faults must not fill the journal.
const maxTold = 50

// maxToldText is the longest name or reason in an event, in bytes: both may hold
// what a backend chose.
const maxToldText = 512

// Standing is something about a verb of a backend that stands until its list, or
// the configuration, is another, and that one event tells of.
type Standing struct {
	Key   string // the same as long as it stands, over restarts too
	Event broker.Event
}

// told is the payload of the catalog's events.
type told struct {
	Backend, Verb string
	Code          string `json:",omitempty"`
	Reason        string `json:",omitempty"`
	Extent        Extent `json:",omitempty"`
	Before        string `json:",omitempty"` // digests of the entries
	Now           string `json:",omitempty"`
	Pinned        bool
}

func (t told) event(kind, message string) broker.Event {
	t.Verb, t.Reason = clipped(t.Verb), clipped(t.Reason)
	payload, _ := json.Marshal(t) // texts and a bool
	return broker.Event{EventType: kind, EntityType: "verb", EntityID: t.Backend + "__" + t.Verb, Message: message, Payload: payload}
}

// Standing lists what stands about the verbs of a backend: those that are in no
// list or only in the backend's own, and those that a pinned backend lists
// otherwise than it was accepted.
func (s *Snapshot) Standing(backend string) []Standing {
	var out []Standing
	for _, q := range s.quarantined {
		if q.Backend != backend || q.Verb == "" || (q.Extent != OutOfAll && q.Extent != OutOfMerged) {
			continue
		}
		out = append(out, Standing{digestText(strings.Join([]string{q.Verb, q.Code, q.Reason}, "\x00"))[:16],
			told{Backend: backend, Verb: q.Verb, Code: q.Code, Reason: q.Reason, Extent: q.Extent}.
				event(broker.EventVerbQuarantined, fmt.Sprintf("%s of %s is not served as it is listed (%s): %s", clipped(q.Verb), backend, q.Code, clipped(q.Reason)))})
	}
	for _, v := range s.every {
		if v.Backend != backend || v.Changed == "" {
			continue
		}
		out = append(out, Standing{digestText(v.Upstream + "\x00" + v.Changed)[:16],
			told{Backend: backend, Verb: v.Upstream, Code: CodeVerbChanged, Before: v.OwnDigest(), Now: v.Changed, Pinned: true}.
				event(broker.EventVerbChanged, fmt.Sprintf("%s of %s is listed otherwise than it was accepted; calls of it are refused.", clipped(v.Upstream), backend))})
	}
	return out
}

// Changes are the events of verbs that a backend lists otherwise than before,
// where the change is served. A verb that is new or gone is none.
func Changes(backend string, before, now []broker.Tool) []broker.Event {
	was := make(map[string]broker.Tool, len(before))
	for _, t := range before {
		was[t.Name] = t
	}
	var out []broker.Event
	for _, t := range now {
		old, ok := was[t.Name]
		if !ok || string(old.Raw) == string(t.Raw) {
			continue
		}
		if from, to := digestOf(old.Raw), digestOf(t.Raw); from != to {
			out = append(out, told{Backend: backend, Verb: t.Name, Before: from, Now: to}.
				event(broker.EventVerbChanged, fmt.Sprintf("%s of %s is listed otherwise than before; the change is served.", clipped(t.Name), backend)))
		}
		delete(was, t.Name) // a name that is listed twice is told of once
	}
	return Told(out)
}

// Told bounds the events of one list: of more than fifty the last says how many
// are not told.
func Told(events []broker.Event) []broker.Event {
	if len(events) <= maxTold {
		return events
	}
	more := len(events) - maxTold + 1
	last := events[maxTold-1]
	last.Message = fmt.Sprintf("%s And %d more of this list, of which no event tells.", last.Message, more-1)
	return append(slices.Clone(events[:maxTold-1]), last)
}

// clipped cuts a text at a character.
func clipped(text string) string {
	if len(text) <= maxToldText {
		return text
	}
	n := maxToldText
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "..."
}
