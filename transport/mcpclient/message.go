package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"berth/broker"
	"berth/transport/jsonrpc"
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
	// result nor an error, or both, or an error that is no object, or something
	// in it is no JSON.
	errNotResponse = errors.New("not a JSON-RPC response")
)

// decodeMessage makes the best of what a backend sent: the version may be
// missing, a null beside its counterpart is passed over, and of a repeated
// member the last counts. raw is kept by the message. With errNotResponse the
// message has its id.
func decodeMessage(raw []byte) (message, error) {
	e, err := jsonrpc.ReadEnvelope(raw)
	switch {
	case errors.Is(err, jsonrpc.ErrNoObject):
		return message{}, err
	case err != nil:
		// Some encoders write what is no JSON, NaN for one; and there are values
		// nested deeper than we read. Whoever waits for it waits for nothing else.
		var outline jsonrpc.Skim
		_, _ = outline.Write(raw) // it never fails
		if id, ok := outline.Broken(); ok {
			return message{id: id}, errNotResponse
		}
		return message{}, err
	}
	m := message{id: e.ID, params: e.Params, result: e.Result, err: e.Error}
	if e.Method != nil && string(e.Method) != "null" {
		var ok bool
		if m.method, ok = jsonrpc.Unquote(e.Method); !ok {
			return message{}, errNotMessage
		}
	}
	if string(m.err) == "null" {
		m.err = nil
	}
	switch {
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
	if m.hasID() && (e.Version != nil || m.result != nil) {
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
	params, err := jsonrpc.ParseObject(m.params)
	if err != nil {
		return 0, p, false
	}
	raw, _ := params.Get("progressToken")
	if token, ok = number(raw); !ok {
		return 0, p, false
	}
	params.Delete("progressToken")
	return token, broker.Progress{Params: params.Bytes()}, true
}

// requestLine is a request, or with the id zero a notification, as one line
// without its end.
func requestLine(id int64, method string, params []byte) []byte {
	line := make([]byte, 0, len(params)+len(method)+64)
	if id == 0 {
		return jsonrpc.OneLine(jsonrpc.AppendNotification(line, method, params))
	}
	var digits [20]byte
	return jsonrpc.OneLine(jsonrpc.AppendRequest(line, strconv.AppendInt(digits[:0], id, 10), method, params))
}

// withProgressToken puts token into params._meta.progressToken.
func withProgressToken(params json.RawMessage, token []byte) (json.RawMessage, error) {
	if len(bytes.TrimSpace(params)) == 0 {
		params = json.RawMessage(`{}`)
	}
	o, err := jsonrpc.ParseObject(params)
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	meta, ok := o.Get("_meta")
	if !ok || string(meta) == "null" {
		meta = json.RawMessage(`{}`)
	}
	m, err := jsonrpc.ParseObject(meta)
	if err != nil {
		return nil, fmt.Errorf("params._meta: %w", err)
	}
	m.Set("progressToken", token)
	o.Set("_meta", m.Bytes())
	return o.Bytes(), nil
}

// validText replaces invalid UTF-8, which JSON cannot carry, and says whether
// it had to.
func validText(raw []byte) ([]byte, bool) {
	if utf8.Valid(raw) {
		return raw, false
	}
	return bytes.ToValidUTF8(raw, []byte("\uFFFD")), true
}
