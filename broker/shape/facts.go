package shape

import (
	"encoding/json"
	"slices"
	"strings"
)

// CallFacts is `_meta["berth/call"]` (contracts/catalog.md section 9). Every
// number is measured, and null is what was not observed or did not happen.
type CallFacts struct {
	CallID string  `json:"call_id"`
	Verb   Known   `json:"verb"`  // canonical
	Alias  *string `json:"alias"` // the name used, if another
	Via    Via     `json:"via"`

	Backend   Known   `json:"backend"`
	RuntimeID *string `json:"runtime_id"`
	Profile   *string `json:"profile"`
	Catalog   *string `json:"catalog"` // of this session's list as it is now

	Effects       []string `json:"effects"` // as judged for these arguments; nil: they were not
	EffectsSource Known    `json:"effects_source"`
	ReadOnly      bool     `json:"read_only"` // the session's mode

	QueueMS *int64  `json:"queue_ms"`
	RunMS   *int64  `json:"run_ms"`
	Attempt *int    `json:"attempt"`
	JobID   *string `json:"job_id"`

	Tokens *Tokens      `json:"tokens"`
	Shaped *ShapedFacts `json:"shaped"`

	Next     []Next   `json:"next"` // at most MaxNext
	Warnings []string `json:"warnings"`
}

// Known is a text that is null as long as it is not known: the verb of a name that
// reaches none.
type Known string

// MarshalJSON gives null for the empty text.
func (k Known) MarshalJSON() ([]byte, error) {
	if k == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(k))
}

// Via is how a verb was reached.
type Via string

// The ways to a verb.
const (
	ViaDirect    Via = "direct"
	ViaCallRead  Via = "call_read"
	ViaCallWrite Via = "call_write"
)

// Next is a verb that may come after this one, and why.
type Next struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// MaxNext is how many follow-up verbs an answer names.
const MaxNext = 3

// The warnings, which are stable codes.
const (
	WarnJobUntracked = "job_untracked"      // the job's work cannot be followed in the backend
	WarnOverBudget   = "over_result_tokens" // the answer passes its result budget and was not cut
)

// MarshalJSON gives null for effects that were not judged, other lists that are
// never null, and no more than MaxNext verbs.
func (f CallFacts) MarshalJSON() ([]byte, error) {
	type plain CallFacts // without this method
	f.Next = append([]Next{}, f.Next[:min(len(f.Next), MaxNext)]...)
	f.Warnings = append([]string{}, f.Warnings...)
	return json.Marshal(plain(f))
}

// EnvelopeOn reads the switch of the environment (BERTH_RESPONSE_ENVELOPE): it
// is on unless it is 0, false or off.
func EnvelopeOn(setting string) bool {
	return !slices.Contains([]string{"0", "false", "off"}, strings.ToLower(strings.TrimSpace(setting)))
}

// WithoutCallMeta is a result whose envelope is switched off: only the broker
// speaks at `_meta["berth/call"]`, so what a backend wrote there is taken out.
// A result without it stays byte for byte, and so does one that cannot be read.
func WithoutCallMeta(result json.RawMessage) json.RawMessage {
	members, err := Members(result)
	if err != nil {
		return result
	}
	var edits []edit
	for _, m := range members {
		if m.Name != "_meta" {
			continue
		}
		inner, err := Members(m.Value)
		if err != nil || !slices.ContainsFunc(inner, func(m Member) bool { return m.Name == CallMetaKey }) {
			continue
		}
		out := []byte{'{'}
		for _, k := range inner {
			if k.Name == CallMetaKey {
				continue
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(append(out, k.Raw...), ':'), k.Value...)
		}
		edits = append(edits, edit{m.Start, m.Start + len(m.Value), string(append(out, '}'))})
	}
	if len(edits) == 0 {
		return result
	}
	return apply(result, edits)
}

// maxGuidance is the longest guidance block, in tokens.
const maxGuidance = 60

// WithGuidance adds to an error result of a backend one text block with a
// minimal valid call of the verb (contracts/catalog.md section 7). Every other
// byte stays. It reports false, and gives the result as it came, when that is
// no error, has no list of content, or the block would pass 60 tokens.
func WithGuidance(result json.RawMessage, verb string, minimal json.RawMessage, counter Counter) (json.RawMessage, bool) {
	if len(minimal) == 0 {
		return result, false
	}
	arguments, err := Compact(minimal)
	if err != nil {
		return result, false
	}
	text := "[berth] A minimal valid call: " + verb + " " + string(arguments)
	// A token has at least one byte and, in text like this, rarely as many as ten.
	if len(text) > 10*maxGuidance || (len(text) > maxGuidance && counter.Count(text).Tokens > maxGuidance) {
		return result, false
	}
	members, err := Members(result)
	if err != nil {
		return result, false
	}
	var content *Member
	failed := false
	for i, m := range members {
		switch m.Name {
		case "content":
			content = &members[i]
		case "isError":
			failed = string(m.Value) == "true"
		}
	}
	if !failed || content == nil || len(content.Value) == 0 || content.Value[0] != '[' {
		return result, false
	}
	return appendBlock(result, *content, text), true
}

// WithText adds one text block behind the others of a tool result. Every other
// byte stays. It reports false, and gives the result as it came, when that has no
// list of content.
func WithText(result json.RawMessage, text string) (json.RawMessage, bool) {
	members, err := Members(result)
	if err != nil {
		return result, false
	}
	var content *Member
	for i, m := range members {
		if m.Name == "content" {
			content = &members[i]
		}
	}
	if content == nil || len(content.Value) == 0 || content.Value[0] != '[' {
		return result, false
	}
	return appendBlock(result, *content, text), true
}

func appendBlock(result json.RawMessage, content Member, text string) json.RawMessage {
	block := string(textBlock(text).raw)
	if len(Items(content.Value)) > 0 {
		block = "," + block
	}
	end := content.Start + len(content.Value) - 1
	return apply(result, []edit{{end, end, block}})
}
