package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML is read with go.yaml.in/yaml/v3, the continuation of gopkg.in/yaml.v3
// by the YAML organisation: it gives every node its line and column, and it is
// the library whose reading of YAML most Go programs share.

// yamlReader builds nodes from YAML's own.
type yamlReader struct {
	nodes int
}

// readYAML gives the root of a YAML file, or where and why it cannot be read.
// A file without a document is nil.
func readYAML(data []byte) (*node, *Problem) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, yamlProblem(err)
	}
	if err := dec.Decode(&second); err == nil {
		return nil, &Problem{Line: second.Line, Column: second.Column, Message: "this is a second YAML document; a configuration is one"}
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlProblem(err)
	}
	r := &yamlReader{}
	if len(doc.Content) != 1 {
		return nil, nil
	}
	return r.value(doc.Content[0], "", 0)
}

var (
	yamlLine   = regexp.MustCompile(`line (\d+): `)
	yamlQuoted = regexp.MustCompile(`'[^']*'|"[^"]*"|` + "`[^`]*`")
)

// yamlProblem takes the line out of the library's text. What the text quotes
// can be a piece of a value (a password that begins with * is an alias), so it
// is left out.
func yamlProblem(err error) *Problem {
	p := &Problem{}
	why := strings.TrimPrefix(err.Error(), "yaml: ")
	if at := yamlLine.FindStringSubmatchIndex(why); at != nil {
		if line, err := strconv.Atoi(why[at[2]:at[3]]); err == nil {
			p.Line, p.Column = line, 1
		}
		why = why[:at[0]] + why[at[1]:]
	}
	p.Message = "this is not valid YAML: " + yamlQuoted.ReplaceAllString(why, "...")
	return p
}

func (r *yamlReader) fail(y *yaml.Node, pointer, message string) (*node, *Problem) {
	return nil, &Problem{Pointer: pointer, Line: y.Line, Column: y.Column, Message: message}
}

func (r *yamlReader) value(y *yaml.Node, pointer string, depth int) (*node, *Problem) {
	if depth > maxDepth {
		return r.fail(y, pointer, errTooDeep.Error())
	}
	if r.nodes++; r.nodes > maxNodes {
		return r.fail(y, pointer, errTooMany.Error())
	}
	n := &node{pointer: pointer, line: y.Line, column: y.Column}
	switch y.Kind {
	case yaml.AliasNode:
		return r.value(y.Alias, pointer, depth+1)
	case yaml.ScalarNode:
		n.text = y.Value
		switch y.ShortTag() {
		case "!!null":
			n.kind = null
		case "!!bool":
			n.kind = boolean
			if word := strings.ToLower(y.Value); word != "true" && word != "false" {
				return r.fail(y, pointer, "a truth value is true or false")
			}
		case "!!int", "!!float":
			n.kind = number
		case "!!str", "!!timestamp":
			n.kind = text
		default:
			return r.fail(y, pointer, "this YAML tag is not supported here; put text that begins with ! in quotes")
		}
	case yaml.SequenceNode:
		n.kind = list
		for i, item := range y.Content {
			c, p := r.value(item, childIndex(pointer, i), depth+1)
			if p != nil {
				return nil, p
			}
			n.items = append(n.items, c)
		}
	case yaml.MappingNode:
		n.kind = object
		for i := 0; i+1 < len(y.Content); i += 2 {
			m, p := r.member(y.Content[i], y.Content[i+1], pointer, depth)
			if p != nil {
				return nil, p
			}
			n.members = append(n.members, m)
		}
	default:
		return r.fail(y, pointer, "this YAML is not supported here")
	}
	return n, nil
}

func (r *yamlReader) member(key, value *yaml.Node, pointer string, depth int) (member, *Problem) {
	place := key
	if key.Kind == yaml.AliasNode {
		key = key.Alias
	}
	if key.Kind != yaml.ScalarNode {
		_, p := r.fail(place, pointer, "a key must be text")
		return member{}, p
	}
	if key.ShortTag() == "!!merge" {
		_, p := r.fail(place, pointer, "merging with << is not supported; write the keys out")
		return member{}, p
	}
	m := member{key: key.Value, line: place.Line, column: place.Column}
	var p *Problem
	m.value, p = r.value(value, child(pointer, m.key), depth+1)
	return m, p
}
