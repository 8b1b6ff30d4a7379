package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxIDBytes is the longest raw id of a request. An id is kept as long as its
// request runs and names it in logs, so it is bounded apart from the body.
const MaxIDBytes = 1024

// The error codes of JSON-RPC 2.0.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// Kind is what a message is.
type Kind uint8

// The kinds of messages.
const (
	Request Kind = iota + 1
	Notification
	Response
)

func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case Response:
		return "response"
	}
	return "invalid"
}

// Member is one member of an object: its decoded name and its raw value.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Message is one decoded message. Every raw value is a slice of the input.
type Message struct {
	Kind   Kind
	ID     json.RawMessage // raw text; nil for a notification, null only in a response
	Method string
	Params json.RawMessage // an object or an array, nil when absent
	Result json.RawMessage
	Error  json.RawMessage // an object
	Extra  []Member        // members that JSON-RPC does not name, in order
}

// Error is why bytes are no message: the JSON-RPC error that answers them.
type Error struct {
	Code    int
	Message string
	// ID is the id of the refused message when it could be read, else nil.
	// A response that answers it says null then.
	ID json.RawMessage
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// scanner holds a decoder between uses: a decoder is large and every message
// needs one.
type scanner struct {
	dec jsontext.Decoder
	buf bytes.Buffer
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// Repeated names are looked for where they matter (the envelope), and UTF-8 is
// checked over the whole input at once; so that an escaped lone surrogate,
// which JSON allows, is passed on as it came.
var scanOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

func newScanner(data []byte) *scanner {
	s := scanners.Get().(*scanner)
	s.buf = *bytes.NewBuffer(data)
	s.dec.Reset(&s.buf, scanOptions...)
	return s
}

// free lets go of the input before the scanner is kept for its next user.
func (s *scanner) free() {
	s.buf = bytes.Buffer{}
	s.dec.Reset(&s.buf)
	scanners.Put(s)
}

// end fails unless only white space follows.
func (s *scanner) end() error {
	_, err := s.dec.ReadToken()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		return errors.New("something follows the value")
	}
	return err
}

// members calls each for every member of the object that the scanner stands
// before. The key is raw text with its quotes.
func (s *scanner) members(each func(key, value []byte) error) error {
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	for s.dec.PeekKind() == '"' {
		key, err := s.dec.ReadValue()
		if err != nil {
			return err
		}
		value, err := s.dec.ReadValue()
		if err != nil {
			return err
		}
		if err := each(key, value); err != nil {
			return err
		}
	}
	_, err := s.dec.ReadToken()
	return err
}

// usual are the names that nearly every message has; they cost no allocation.
var usual = func() map[string]string {
	m := map[string]string{}
	for _, n := range []string{"jsonrpc", "id", "method", "params", "result", "error", "name", "arguments", "_meta", "progressToken", "tools/call"} {
		m[n] = n
	}
	return m
}()

// name decodes a raw key.
func name(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		if known, ok := usual[string(raw[1:len(raw)-1])]; ok {
			return known
		}
		return string(raw[1 : len(raw)-1])
	}
	// The key was scanned already; only a lone surrogate can be reported, and
	// what comes back then is the text with U+FFFD in its place.
	text, _ := jsontext.AppendUnquote(nil, raw)
	return string(text)
}

// envelope is what was found before it is judged.
type envelope struct {
	msg     Message
	version json.RawMessage
	method  json.RawMessage
	problem string // first fault that does not stop reading
}

// Decode reads exactly one message. Its error is always an *[Error].
func Decode(data []byte) (Message, error) {
	if !utf8.Valid(data) {
		return Message{}, &Error{Code: CodeParse, Message: "Parse error: the message is not valid UTF-8"}
	}
	s := newScanner(data)
	defer s.free()
	var e envelope
	switch kind := s.dec.PeekKind(); kind {
	case '{':
		if err := s.members(e.add); err != nil {
			return Message{}, parseError(err)
		}
	default:
		if _, err := s.dec.ReadValue(); err != nil {
			return Message{}, parseError(err)
		}
		e.problem = "a message is a JSON object"
		if kind == '[' {
			e.problem = "batches are not part of this protocol; send one message at a time"
		}
	}
	if err := s.end(); err != nil {
		return Message{}, parseError(err)
	}
	return e.judge()
}

func parseError(err error) *Error {
	// The text of a syntactic error quotes a few characters of the input at
	// most and names the place.
	return &Error{Code: CodeParse, Message: "Parse error: " + err.Error()}
}

func (e *envelope) add(key, value []byte) error {
	var field *json.RawMessage
	switch n := name(key); n {
	case "jsonrpc":
		field = &e.version
	case "id":
		field = &e.msg.ID
	case "method":
		field = &e.method
	case "params":
		field = &e.msg.Params
	case "result":
		field = &e.msg.Result
	case "error":
		field = &e.msg.Error
	default:
		for _, x := range e.msg.Extra {
			if x.Name == n {
				e.fault("a member of the message is repeated")
				return nil
			}
		}
		e.msg.Extra = append(e.msg.Extra, Member{Name: n, Value: value})
		return nil
	}
	if *field != nil {
		e.fault("a member of the message is repeated")
		return nil
	}
	*field = value
	return nil
}

func (e *envelope) fault(problem string) {
	if e.problem == "" {
		e.problem = problem
	}
}

// judge classifies a well-formed object or says why it is no message.
func (e *envelope) judge() (Message, error) {
	m := &e.msg
	idProblem := checkID(m.ID)
	switch {
	case e.problem != "":
	case string(e.version) != `"2.0"`:
		e.fault(`"jsonrpc" must be "2.0"`)
	case e.method != nil:
		e.judgeCall(idProblem)
	default:
		e.judgeResponse(idProblem)
	}
	if e.problem == "" {
		return *m, nil
	}
	refusal := &Error{Code: CodeInvalidRequest, Message: "Invalid request: " + e.problem}
	if idProblem == "" && m.ID != nil && m.Result == nil && m.Error == nil {
		refusal.ID = m.ID
	}
	return Message{}, refusal
}

func (e *envelope) judgeCall(idProblem string) {
	m := &e.msg
	m.Kind = Request
	if m.ID == nil {
		m.Kind = Notification
	}
	switch {
	case e.method[0] != '"':
		e.fault(`"method" must be a string`)
	case len(e.method) == 2:
		e.fault(`"method" is empty`)
	case m.Result != nil || m.Error != nil:
		e.fault("a message is either a request or a response")
	case m.ID != nil && idProblem != "":
		e.fault(idProblem)
	case m.Params != nil && m.Params[0] != '{' && m.Params[0] != '[':
		e.fault(`"params" must be an object or an array`)
	}
	m.Method = ""
	if e.method[0] == '"' {
		m.Method = name(e.method)
	}
}

func (e *envelope) judgeResponse(idProblem string) {
	m := &e.msg
	m.Kind = Response
	switch {
	case m.Result == nil && m.Error == nil:
		e.fault(`"method" is missing`)
	case m.Result != nil && m.Error != nil:
		e.fault(`a response has either "result" or "error"`)
	case m.ID == nil:
		e.fault(`a response needs an "id"`)
	case string(m.ID) == "null" && m.Error != nil:
		// The answer to something whose id could not be read.
	case idProblem != "":
		e.fault(idProblem)
	case m.Error != nil && m.Error[0] != '{':
		e.fault(`"error" must be an object`)
	}
}

// checkID says what is wrong with a raw id, or nothing.
func checkID(id []byte) string {
	switch {
	case len(id) == 0:
		return `"id" is missing`
	case len(id) > MaxIDBytes:
		return fmt.Sprintf(`"id" is longer than %d bytes`, MaxIDBytes)
	case id[0] == '"':
		return ""
	case id[0] == '-' || id[0] >= '0' && id[0] <= '9':
		if bytes.ContainsAny(id, ".eE") {
			return `"id" must be a string or an integer`
		}
		return ""
	}
	return `"id" must be a string or an integer`
}
