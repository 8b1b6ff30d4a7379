package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"berth/broker"
)

// message is one JSON-RPC message of a backend. The raw parts alias the bytes
// that it was decoded from; a part that is absent is nil.
type message struct {
	id     json.RawMessage
	method string
	params json.RawMessage
	result json.RawMessage
	err    json.RawMessage
}

var (
	errNotMessage = errors.New("not a JSON-RPC message")
	// errNotResponse is a response in all but its content: it has neither a
	// result nor an error, or both, or an error that is no object.
	errNotResponse = errors.New("not a JSON-RPC response")
)

// decodeMessage reads the envelope in one pass. raw is kept by the message.
// With errNotResponse the message has its id.
func decodeMessage(raw []byte) (message, error) {
	var m message
	isRPC := false
	err := eachMember(raw, func(name []byte, at member) error {
		value := json.RawMessage(raw[at.valueStart:at.valueEnd:at.valueEnd])
		switch string(name) {
		case "id":
			m.id = value
		case "method":
			return json.Unmarshal(value, &m.method)
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			if string(value) != "null" {
				m.err = value
			}
		case "jsonrpc":
			isRPC = true
		}
		return nil
	})
	switch {
	case err != nil:
		return message{}, err
	case m.method != "":
		return m, nil
	case m.err != nil && string(m.result) == "null":
		m.result = nil
	}
	if (m.err == nil) != (m.result == nil) && (m.err == nil || m.err[0] == '{') {
		return m, nil
	}
	// A line of a log may have an id and an error too, but neither the version
	// nor a result.
	if m.hasID() && (isRPC || m.result != nil) {
		return message{id: m.id}, errNotResponse
	}
	return message{}, errNotMessage
}

// hasID reports whether the message has an id that can be answered.
func (m *message) hasID() bool { return len(m.id) > 0 && string(m.id) != "null" }

func (m *message) isRequest() bool      { return m.method != "" && m.hasID() }
func (m *message) isNotification() bool { return m.method != "" && !m.hasID() }

// number gives the id as one of ours. The ids that we send are integers, so
// anything else is not an answer to us.
func number(raw []byte) (int64, bool) {
	if len(raw) == 0 || len(raw) > 19 || raw[0] < '1' || raw[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

// notAResponse is the answer to a call whose backend sent errNotResponse.
func notAResponse() *broker.Failure {
	return &broker.Failure{Dispatched: true, Cause: "the backend answered with something that is no JSON-RPC response"}
}

// answer turns a response into what the broker hands on.
func (m *message) answer(runtimeID string) (broker.Answer, error) {
	if m.err == nil {
		return broker.Answer{Result: m.result, RuntimeID: runtimeID}, nil
	}
	e, err := decodeError(m.err)
	if err != nil {
		return broker.Answer{}, err
	}
	return broker.Answer{Error: e, RuntimeID: runtimeID}, nil
}

func decodeError(raw []byte) (*broker.RPCError, error) {
	var e broker.RPCError
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	return &e, nil
}

// progress splits the params of a progress notification into our token and the
// rest.
func (m *message) progress() (token int64, p broker.Progress, ok bool) {
	raw, _, found, err := get(m.params, "progressToken")
	if err != nil || !found {
		return 0, p, false
	}
	if token, ok = number(raw); !ok {
		return 0, p, false
	}
	rest, err := without(m.params, "progressToken")
	if err != nil {
		return 0, p, false
	}
	return token, broker.Progress{Params: rest}, true
}

// appendRequest writes a request as one line without its end. id zero makes a
// notification. White space that would break a line becomes blanks.
func appendRequest(dst []byte, id int64, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	if id != 0 {
		dst = append(dst, `"id":`...)
		dst = strconv.AppendInt(dst, id, 10)
		dst = append(dst, ',')
	}
	dst = append(dst, `"method":`...)
	dst = appendString(dst, method)
	if len(params) > 0 {
		dst = append(dst, `,"params":`...)
		from := len(dst)
		dst = append(dst, params...)
		flatten(dst[from:])
	}
	return append(dst, '}')
}

// flatten replaces line ends in place: in JSON they only ever stand between
// tokens, so no value changes.
func flatten(b []byte) {
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
}

func appendString(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(s) // a string always encodes
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// validText replaces invalid UTF-8, which JSON cannot carry, and says whether
// it had to.
func validText(raw []byte) ([]byte, bool) {
	if utf8.Valid(raw) {
		return raw, false
	}
	return bytes.ToValidUTF8(raw, []byte("\uFFFD")), true
}
