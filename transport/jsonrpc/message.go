package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
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

// Decode reads exactly one message. Its error is always an *[Error].
func Decode(data []byte) (Message, error) {
	if !utf8.Valid(data) {
		return Message{}, &Error{Code: CodeParse, Message: "Parse error: the message is not valid UTF-8"}
	}
	found, err := ReadEnvelope(data)
	e := envelope{Envelope: found}
	switch {
	case errors.Is(err, ErrNoObject):
		e.problem = "a message is a JSON object"
		if bytes.TrimLeft(data, " \t\r\n")[0] == '[' {
			e.problem = "batches are not part of this protocol; send one message at a time"
		}
	case err != nil:
		// The text of a syntactic error quotes a few characters of the input at
		// most and names the place.
		return Message{}, &Error{Code: CodeParse, Message: "Parse error: " + err.Error()}
	case e.Repeated:
		e.problem = "a member of the message is repeated"
	}
	return e.judge()
}

// envelope is an Envelope that is being judged.
type envelope struct {
	Envelope
	msg     Message
	problem string // first fault
}

func (e *envelope) fault(problem string) {
	if e.problem == "" {
		e.problem = problem
	}
}

// judge classifies a well-formed object or says why it is no message.
func (e *envelope) judge() (Message, error) {
	m := &e.msg
	*m = Message{ID: e.ID, Params: e.Params, Result: e.Result, Error: e.Error, Extra: e.Extra}
	idProblem := checkID(m.ID)
	switch {
	case e.problem != "":
	case string(e.Version) != `"2.0"`:
		e.fault(`"jsonrpc" must be "2.0"`)
	case e.Method != nil:
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
	case e.Method[0] != '"':
		e.fault(`"method" must be a string`)
	case len(e.Method) == 2:
		e.fault(`"method" is empty`)
	case m.Result != nil || m.Error != nil:
		e.fault("a message is either a request or a response")
	case m.ID != nil && idProblem != "":
		e.fault(idProblem)
	case m.Params != nil && m.Params[0] != '{' && m.Params[0] != '[':
		e.fault(`"params" must be an object or an array`)
	}
	m.Method, _ = Unquote(e.Method)
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
