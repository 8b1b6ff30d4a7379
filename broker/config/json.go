package config

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonReader builds nodes from JSON text.
type jsonReader struct {
	data   []byte
	dec    *jsontext.Decoder
	places *places
	nodes  int
}

var errTooDeep = errors.New("objects and lists are nested too deeply")
var errTooMany = errors.New("the file has too many values")

// readJSON gives the root of a JSON file, or where and why it cannot be read.
func readJSON(data []byte) (*node, *Problem) {
	r := &jsonReader{data: data, places: newPlaces(data),
		dec: jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))}
	root, err := r.value("", 0)
	if err == nil {
		line, column := r.next()
		if _, err = r.dec.ReadToken(); errors.Is(err, io.EOF) {
			return root, nil
		}
		if err == nil {
			return nil, &Problem{Line: line, Column: column, Message: "there is more text after the end of the value"}
		}
	}
	return nil, r.problem(err)
}

func (r *jsonReader) problem(err error) *Problem {
	p := &Problem{}
	offset, why := int(r.dec.InputOffset()), err
	if errors.Is(err, errTooDeep) || errors.Is(err, errTooMany) {
		p.Line, p.Column = r.places.at(offset)
		p.Message = err.Error()
		return p
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		offset, p.Pointer, why = int(syntax.ByteOffset), string(syntax.JSONPointer), syntax.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		offset, why = len(r.data), errors.New("the file ends too early")
	}
	p.Line, p.Column = r.places.at(offset)
	p.Message = "this is not valid JSON: " + why.Error()
	return p
}

// next gives the place of the token that follows.
func (r *jsonReader) next() (line, column int) {
	i := int(r.dec.InputOffset())
	for i < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[i]) >= 0 {
		i++
	}
	return r.places.at(i)
}

func (r *jsonReader) value(pointer string, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	if r.nodes++; r.nodes > maxNodes {
		return nil, errTooMany
	}
	n := &node{pointer: pointer}
	n.line, n.column = r.next()
	token, err := r.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 'n':
		n.kind = null
	case 't', 'f', '0':
		n.kind, n.text = boolean, token.String()
		if token.Kind() == '0' {
			n.kind = number
		}
	case '"':
		n.kind, n.text = text, token.String()
	case '[':
		n.kind = list
		return n, r.list(n, depth)
	case '{':
		n.kind = object
		return n, r.object(n, depth)
	}
	return n, nil
}

func (r *jsonReader) list(n *node, depth int) error {
	for r.dec.PeekKind() != ']' {
		item, err := r.value(childIndex(n.pointer, len(n.items)), depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := r.dec.ReadToken()
	return err
}

func (r *jsonReader) object(n *node, depth int) error {
	for r.dec.PeekKind() != '}' {
		m := member{}
		m.line, m.column = r.next()
		key, err := r.dec.ReadToken()
		if err != nil {
			return err
		}
		m.key = key.String()
		if m.value, err = r.value(child(n.pointer, m.key), depth+1); err != nil {
			return err
		}
		n.members = append(n.members, m)
	}
	_, err := r.dec.ReadToken()
	return err
}
