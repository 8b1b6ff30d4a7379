package shape

import (
	"encoding/json"
	"errors"
	"slices"
)

// ErrNotToolResult is a result without a list of content blocks.
var ErrNotToolResult = errors.New("the result has no content to shape")

// answer is a tool result, taken apart.
type answer struct {
	members    []Member
	blocks     []block
	structured json.RawMessage // nil: none
	// same is the block whose text is the same JSON value as structured; -1: none.
	same int
}

// block is one content block.
type block struct {
	raw json.RawMessage

	text     string // what a model reads of it; empty for media
	from, to int    // where the text stands in raw, as a JSON string; 0: it has none
	json     bool   // the text is JSON, compact

	media int    // bytes of base64; 0: none
	kind  string // the block's type
	mime  string
}

// take splits a tool result. Of a member that is repeated the last counts, as
// it does for most readers.
func take(result json.RawMessage) (answer, error) {
	members, err := Members(result)
	if err != nil {
		return answer{}, err
	}
	a := answer{members: members, same: -1}
	found := false
	for _, m := range members {
		switch m.Name {
		case "content":
			if len(m.Value) == 0 || m.Value[0] != '[' {
				return answer{}, ErrNotToolResult
			}
			found, a.blocks = true, nil
			for _, raw := range Items(m.Value) {
				a.blocks = append(a.blocks, takeBlock(raw))
			}
		case "structuredContent":
			a.structured = m.Value
			if string(m.Value) == "null" {
				a.structured = nil
			}
		}
	}
	if !found && a.structured == nil {
		return answer{}, ErrNotToolResult
	}
	if a.structured != nil {
		for i, b := range a.blocks {
			if b.kind == "text" && sameValue(b.text, a.structured) {
				a.same = i
				break
			}
		}
	}
	return a, nil
}

// takeBlock reads what shaping needs of a block; one that it does not know is
// text as it stands.
func takeBlock(raw json.RawMessage) block {
	b := block{raw: raw, text: string(raw)}
	members, err := Members(raw)
	if err != nil {
		return b
	}
	var text, data, resource *Member
	for i, m := range members {
		switch m.Name {
		case "type":
			b.kind, _ = Text(m.Value)
		case "text":
			text = &members[i]
		case "data":
			data = &members[i]
		case "mimeType":
			b.mime, _ = Text(m.Value)
		case "resource":
			resource = &members[i]
		}
	}
	switch {
	case b.kind == "text" && text != nil:
		b.holds(text.Value, text.Start)
	case (b.kind == "image" || b.kind == "audio") && data != nil:
		b.text, b.media = "", len(data.Value)-2
	case b.kind == "resource" && resource != nil:
		inner, err := Members(resource.Value)
		if err != nil {
			return b
		}
		for _, m := range inner {
			switch m.Name {
			case "text":
				b.holds(m.Value, resource.Start+m.Start)
			case "blob":
				b.text, b.media = "", len(m.Value)-2
			case "mimeType":
				b.mime, _ = Text(m.Value)
			}
		}
	}
	return b
}

// holds says that the block's text is the JSON string value at start.
func (b *block) holds(value json.RawMessage, start int) {
	if text, ok := Text(value); ok {
		b.text, b.from, b.to = text, start, start+len(value)
	}
}

// with gives the block with another text.
func (b block) with(text string) block {
	quoted := quoteText(text)
	raw := make([]byte, 0, len(b.raw)-(b.to-b.from)+len(quoted))
	raw = append(append(append(raw, b.raw[:b.from]...), quoted...), b.raw[b.to:]...)
	b.text, b.raw, b.to = text, raw, b.from+len(quoted)
	return b
}

// textBlock is a text block of the broker's own.
func textBlock(text string) block {
	raw := json.RawMessage(`{"type":"text","text":` + quoteText(text) + `}`)
	b := takeBlock(raw)
	return b
}

// counted lists the texts that count: those of the blocks, and the structured
// content unless a block has the same value.
func (a *answer) counted() []string {
	var texts []string
	for _, b := range a.blocks {
		if b.text != "" {
			texts = append(texts, b.text)
		}
	}
	if a.structured != nil && a.same < 0 {
		texts = append(texts, string(a.structured))
	}
	return texts
}

// build puts the answer together again: content and structuredContent as they
// are now, every other member as it came.
func (a *answer) build() json.RawMessage {
	content := []byte{'['}
	for i, b := range a.blocks {
		if i > 0 {
			content = append(content, ',')
		}
		content = append(content, b.raw...)
	}
	content = append(content, ']')
	last := map[string]int{}
	for i, m := range a.members {
		last[m.Name] = i
	}
	out := make([]byte, 0, len(content)+len(a.structured)+256)
	put := func(name, value []byte) {
		sep := byte(',')
		if len(out) == 0 {
			sep = '{'
		}
		out = append(append(append(append(out, sep), name...), ':'), value...)
	}
	placed := false
	for i, m := range a.members {
		switch {
		case m.Name == "content" && i == last[m.Name]:
			placed = true
			put(m.Raw, content)
		case m.Name == "structuredContent" && i == last[m.Name] && a.structured != nil:
			put(m.Raw, a.structured)
		case m.Name != "content" && m.Name != "structuredContent":
			put(m.Raw, m.Value)
		}
	}
	if !placed {
		put([]byte(`"content"`), content)
	}
	return append(out, '}')
}

// CountResult counts a tool result as the broker counts its own answers: what a
// model reads of the content blocks, and the structured content unless a text
// block is the same value. Images, audio and blobs are no tokens.
func CountResult(counter Counter, result json.RawMessage, l Limits) Count {
	a, err := take(result)
	if err != nil {
		return measure(counter, l, string(result))
	}
	return measure(counter, l, a.counted()...)
}

// repeats reports whether the structured content says nothing that a text block
// does not: servers that answer a text put it there once more, as a member.
func (a *answer) repeats() bool {
	members, err := Members(a.structured)
	if err != nil || len(members) == 0 {
		return false
	}
	return !slices.ContainsFunc(members, func(m Member) bool {
		said, isText := Text(m.Value)
		return !isText || !slices.ContainsFunc(a.blocks, func(b block) bool { return b.kind == "text" && b.text == said })
	})
}
