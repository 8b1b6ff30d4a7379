package jsonrpc

import (
	"bytes"
	"encoding/json"
)

// Skim goes over a message that is too large to keep, or that cannot be read,
// and remembers only what an answer to it needs. It is an io.Writer; the zero
// value is ready.
//
// It trusts the structure: for bytes that are no JSON it may find an id that
// is none of theirs, which does no harm, as the message is refused anyway.
type Skim struct {
	depth   int
	text    bool // inside a string
	escaped bool
	value   bool   // at depth 1: after the colon
	token   []byte // of the key or value at depth 1, cut at MaxIDBytes + 1
	key     string
	id      []byte
	method  bool
	version bool
	outcome bool // a result or an error
	closed  bool // the outermost object has its end
}

// Write takes the next piece of the message. It never fails.
func (s *Skim) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		p = p[s.leap(p):]
		if len(p) == 0 {
			break
		}
		s.next(p[0])
		p = p[1:]
	}
	return n, nil
}

// leap says how many bytes at the beginning of p change nothing: the inside of
// values that are not kept, up to what may end them. The most of a large message
// is that.
func (s *Skim) leap(p []byte) int {
	// The window bounds what is looked at again after each stop.
	window := p[:min(len(p), 256)]
	switch {
	case s.escaped || s.keeping() || !s.text && s.depth == 1:
		return 0
	case !s.text:
		for i, c := range window {
			switch c {
			case '"', '{', '}', '[', ']':
				return i
			}
		}
		return len(window)
	}
	end := bytes.IndexByte(window, '"')
	if end < 0 {
		end = len(window)
	}
	if escape := bytes.IndexByte(window[:end], '\\'); escape >= 0 {
		return escape
	}
	return end
}

func (s *Skim) next(c byte) {
	if s.text {
		s.keep(c)
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.text = false
		}
		return
	}
	switch c {
	case '"':
		s.text = true
		s.keep(c)
	case '{', '[':
		s.keep(c)
		s.depth++
	case '}', ']':
		if s.depth == 1 {
			s.member()
			s.closed = true
		}
		s.depth--
	case ':':
		if s.depth == 1 && !s.value {
			s.key, s.token, s.value = string(s.token), s.token[:0], true
		}
	case ',':
		if s.depth == 1 {
			s.member()
		}
	case ' ', '\t', '\r', '\n':
	default:
		s.keep(c)
	}
}

// keep collects a token of the outermost object.
func (s *Skim) keep(c byte) {
	if s.keeping() {
		s.token = append(s.token, c)
	}
}

func (s *Skim) keeping() bool { return s.depth == 1 && len(s.token) <= MaxIDBytes }

func (s *Skim) member() {
	if s.value {
		switch s.key {
		case `"id"`:
			s.id = append([]byte(nil), s.token...)
		case `"method"`:
			s.method = true
		case `"jsonrpc"`:
			s.version = true
		case `"result"`, `"error"`:
			s.outcome = true
		}
	}
	s.value, s.token = false, s.token[:0]
}

// Response gives the id of the message if it is a response. Bytes before the
// outermost object are passed over.
func (s *Skim) Response() (id json.RawMessage, ok bool) {
	if s.method || s.id == nil || !json.Valid(s.id) {
		return nil, false
	}
	return s.id, true
}

// Broken gives the id of a message that cannot be read, if it has the outline
// of a response: the members of one, and an end.
func (s *Skim) Broken() (id json.RawMessage, ok bool) {
	if !s.closed || !s.version || !s.outcome {
		return nil, false
	}
	return s.Response()
}

// Request gives the id of the message if it is a request: only those are
// answered. The id is nil when it is none that a request may have.
func (s *Skim) Request() (id json.RawMessage, ok bool) {
	if !s.method || s.id == nil {
		return nil, false
	}
	if checkID(s.id) != "" || !json.Valid(s.id) {
		return nil, true
	}
	return s.id, true
}
