package config

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// kind is what a node is, the same for JSON and YAML.
type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	list
	object
)

var kindNames = [...]string{null: "nothing", boolean: "a truth value", number: "a number", text: "text", list: "a list", object: "an object"}

func (k kind) String() string { return kindNames[k] }

// node is one value of the file with its place.
type node struct {
	kind         kind
	text         string // of text; of a number or truth value as it was written
	items        []*node
	members      []member
	pointer      string
	line, column int
}

// member is one key of an object and its value.
type member struct {
	key          string
	line, column int
	value        *node
}

// Limits of what is read at all. They are far above any real configuration.
const (
	MaxFile  = 4 << 20 // bytes; a reader may stop behind them
	maxDepth = 64
	maxNodes = 200_000
)

// json appends the node as JSON; bad is a number that is none there.
func (n *node) json(out []byte) (_ []byte, bad *node) {
	quoted := func(s string) []byte {
		b, _ := json.Marshal(s) // of a string it cannot fail
		return b
	}
	switch n.kind {
	case null:
		return append(out, "null"...), nil
	case boolean:
		return append(out, strings.ToLower(n.text)...), nil
	case number:
		if !json.Valid([]byte(n.text)) {
			return nil, n
		}
		return append(out, n.text...), nil
	case text:
		return append(out, quoted(n.text)...), nil
	case list:
		sep := byte('[')
		for _, item := range n.items {
			out = append(out, sep)
			sep = ','
			if out, bad = item.json(out); bad != nil {
				return nil, bad
			}
		}
		if sep == '[' {
			out = append(out, sep)
		}
		return append(out, ']'), nil
	}
	sep := byte('{')
	for _, m := range n.members {
		out = append(append(append(out, sep), quoted(m.key)...), ':')
		sep = ','
		if out, bad = m.value.json(out); bad != nil {
			return nil, bad
		}
	}
	if sep == '{' {
		out = append(out, sep)
	}
	return append(out, '}'), nil
}

func child(pointer, key string) string {
	return pointer + "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func childIndex(pointer string, i int) string { return pointer + "/" + strconv.Itoa(i) }

// places turns byte offsets into lines and columns; offsets must not decrease
// much, since it counts on from the last one.
type places struct {
	data         []byte
	offset       int
	line, column int
}

func newPlaces(data []byte) *places { return &places{data: data, line: 1, column: 1} }

func (p *places) at(offset int) (line, column int) {
	offset = min(max(offset, 0), len(p.data))
	if offset < p.offset {
		p.offset, p.line, p.column = 0, 1, 1
	}
	passed := p.data[p.offset:offset]
	if n := bytes.Count(passed, []byte{'\n'}); n > 0 {
		p.line += n
		p.column = len(passed) - bytes.LastIndexByte(passed, '\n')
	} else {
		p.column += len(passed)
	}
	p.offset = offset
	return p.line, p.column
}
