package condition

import (
	"encoding/json"
	"strings"
)

// maxReferences bounds how many local references one step may follow.
const maxReferences = 16

// InSchema reports whether the pointer names something that a JSON schema
// declares: a property, an item of an array, or a value of a map that has a
// schema. Branches of allOf, anyOf and oneOf count, and so do references inside
// the document. An open object declares nothing: a pointer into it is a guess.
func (p Pointer) InSchema(schema json.RawMessage) bool {
	var root any
	if json.Unmarshal(schema, &root) != nil {
		return false
	}
	nodes := expand(root, []any{root})
	for _, token := range p.Tokens {
		var next []any
		for _, node := range nodes {
			next = append(next, step(node, token)...)
		}
		if nodes = expand(root, next); len(nodes) == 0 {
			return false
		}
	}
	return true
}

// step gives the schemas that node has for one token.
func step(node any, token string) []any {
	object, ok := node.(map[string]any)
	if !ok {
		return nil
	}
	var out []any
	if _, numeric := index(token); numeric || token == Each {
		for _, keyword := range []string{"items", "additionalItems"} {
			switch items := object[keyword].(type) {
			case map[string]any:
				out = append(out, items)
			case []any:
				out = append(out, items...)
			}
		}
		if prefix, ok := object["prefixItems"].([]any); ok {
			out = append(out, prefix...)
		}
	}
	if token == Each {
		return out
	}
	if properties, ok := object["properties"].(map[string]any); ok {
		if property, ok := properties[token]; ok && property != false {
			return append(out, property)
		}
	}
	for _, keyword := range []string{"patternProperties", "additionalProperties"} {
		switch more := object[keyword].(type) {
		case map[string]any:
			if keyword == "additionalProperties" {
				out = append(out, more)
				continue
			}
			for _, s := range more {
				out = append(out, s)
			}
		}
	}
	return out
}

// expand adds to nodes the branches and the local references that they stand for.
func expand(root any, nodes []any) []any {
	out := append([]any(nil), nodes...)
	for i, followed := 0, 0; i < len(out) && i < 1000; i++ {
		object, ok := out[i].(map[string]any)
		if !ok {
			continue
		}
		for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
			if branches, ok := object[keyword].([]any); ok {
				out = append(out, branches...)
			}
		}
		if ref, ok := object["$ref"].(string); ok && followed < maxReferences {
			followed++
			if target, ok := local(root, ref); ok {
				out = append(out, target)
			}
		}
	}
	return out
}

// local follows a reference into the same document.
func local(root any, ref string) (any, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	if path == "" {
		return root, true
	}
	p, err := ParsePointer("args:" + path)
	if err != nil {
		return nil, false
	}
	node := root
	for _, token := range p.Tokens {
		switch v := node.(type) {
		case map[string]any:
			if node, ok = v[token]; !ok {
				return nil, false
			}
		case []any:
			i, isIndex := index(token)
			if !isIndex || i >= len(v) {
				return nil, false
			}
			node = v[i]
		default:
			return nil, false
		}
	}
	return node, true
}

// InResult reports whether a result pointer can name something of a tool
// result whose structured content has this schema; nil is no schema.
func (p Pointer) InResult(output json.RawMessage) bool {
	if len(p.Tokens) == 0 {
		return false
	}
	switch p.Tokens[0] {
	case "structuredContent":
		return len(output) == 0 || Pointer{Tokens: p.Tokens[1:]}.InSchema(output)
	case "content":
		if len(p.Tokens) == 1 {
			return true
		}
		_, numeric := index(p.Tokens[1])
		return numeric || p.Tokens[1] == Each
	case "isError":
		return len(p.Tokens) == 1
	}
	return p.Tokens[0] == "_meta"
}
