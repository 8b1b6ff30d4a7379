package shape

import (
	"encoding/json"
	"errors"
	"fmt"
)

// CallMetaKey is the key of `_meta` that carries the broker's facts
// (contracts/catalog.md section 9).
const CallMetaKey = "berth/call"

// ErrMetaNotObject is a result whose `_meta` is something else than an object.
var ErrMetaNotObject = errors.New("_meta is not a JSON object")

// WithCallMeta puts facts at `_meta["berth/call"]` of a result and leaves every
// other byte as it is. A fact of that name that a backend wrote is replaced:
// only the broker speaks there. On an error the result is returned as it came.
func WithCallMeta(result json.RawMessage, facts any) (json.RawMessage, error) {
	return WithMeta(result, CallMetaKey, facts)
}

// WithMeta is WithCallMeta for another key of the broker's, which needs no
// escape in JSON.
func WithMeta(result json.RawMessage, key string, facts any) (json.RawMessage, error) {
	fact, err := json.Marshal(facts)
	if err != nil {
		return result, fmt.Errorf("encode call facts: %w", err)
	}
	members, err := Members(result)
	if err != nil {
		return result, fmt.Errorf("result: %w", err)
	}
	var edits []edit
	found := false
	for _, m := range members {
		if m.Name != "_meta" {
			continue
		}
		found = true
		inner, err := metaEdits(m, key, fact)
		if err != nil {
			return result, err
		}
		edits = append(edits, inner...)
	}
	if !found {
		edits = append(edits, appendMember(result, 0, len(members) == 0, `"_meta":{"`+key+`":`+string(fact)+`}`))
	}
	return apply(result, edits), nil
}

// metaEdits are the edits inside one `_meta` member. A name that is repeated
// is replaced each time, so that no reader of the first or the last is fooled.
func metaEdits(meta Member, key string, fact json.RawMessage) ([]edit, error) {
	inner, err := Members(meta.Value)
	if err != nil {
		return nil, ErrMetaNotObject
	}
	var edits []edit
	for _, m := range inner {
		if m.Name == key {
			at := meta.Start + m.Start
			edits = append(edits, edit{at, at + len(m.Value), string(fact)})
		}
	}
	if len(edits) == 0 {
		edits = append(edits, appendMember(meta.Value, meta.Start, len(inner) == 0, `"`+key+`":`+string(fact)))
	}
	return edits, nil
}

// edit replaces the bytes from start to end.
type edit struct {
	start, end int
	text       string
}

// appendMember adds a member before the closing brace of object, which stands
// at offset in the whole text.
func appendMember(object json.RawMessage, offset int, empty bool, member string) edit {
	end := len(object) - 1
	for object[end] != '}' {
		end--
	}
	if !empty {
		member = "," + member
	}
	return edit{offset + end, offset + end, member}
}

// apply makes the edits, which are in order and do not overlap.
func apply(text json.RawMessage, edits []edit) json.RawMessage {
	grown := len(text)
	for _, e := range edits {
		grown += len(e.text)
	}
	out := make([]byte, 0, grown)
	last := 0
	for _, e := range edits {
		out = append(out, text[last:e.start]...)
		out = append(out, e.text...)
		last = e.end
	}
	return append(out, text[last:]...)
}
