package mcpserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"

	"berth/transport/jsonrpc"
)

// Headers of the stateless era repeat what stands in the body, for who routes
// by them (SEP-2243). A request in which they differ is two requests, so it is
// refused.

// The header names are canonical.
const (
	headerMethod      = "Mcp-Method"
	headerName        = "Mcp-Name"
	headerParamPrefix = "Mcp-Param-"
	// headerBridged is set by our own bridge, whose clients speak stdio and so
	// send no headers that could differ. It takes Mcp-Method and Mcp-Name from
	// the body and knows no schema.
	headerBridged = "Berth-Bridged"
)

// named is the member of the params that Mcp-Name repeats.
var named = map[string]string{
	"tools/call": "name", "prompts/get": "name", "resources/read": "uri",
	"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId", "tasks/result": "taskId",
}

// checkHeaders says how Mcp-Method or Mcp-Name differ from the body, or
// nothing. A name that the body lacks is left to who reads the params.
func checkHeaders(h http.Header, method string, params *jsonrpc.Object) (problem string) {
	values := h[headerMethod]
	if len(values) == 0 {
		return headerMethod + " is missing"
	}
	if given, ok := decodeHeader(values[0]); len(values) > 1 || !ok || given != method {
		return headerMethod + " is " + clip(strings.Join(values, ", ")) + ", but the body's method is " + clip(method)
	}
	member := named[method]
	if member == "" {
		return ""
	}
	want, ok := params.Text(member)
	if !ok {
		return ""
	}
	if values = h[headerName]; len(values) == 0 {
		return headerName + " is missing; it repeats params." + member
	}
	given, ok := decodeHeader(values[0])
	if len(values) > 1 || !ok || given != want {
		return headerName + " is " + clip(strings.Join(values, ", ")) + ", but params." + member + " is " + clip(want)
	}
	return ""
}

const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// decodeHeader undoes the wrapping of values that a header cannot carry.
func decodeHeader(value string) (string, bool) {
	encoded, ok := strings.CutPrefix(value, encodedPrefix)
	if !ok {
		return value, true
	}
	if encoded, ok = strings.CutSuffix(encoded, encodedSuffix); !ok {
		return value, true
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(encoded)
	return string(decoded), err == nil
}

// checkParamHeaders compares Mcp-Param-* with the arguments that the verb's
// schema binds to them. A verb that is not known has no schema to go by.
func (s *Server) checkParamHeaders(rq *request) (problem string) {
	if rq.r.Header.Get(headerBridged) != "" {
		return ""
	}
	name, _ := rq.asker.params.Text("name")
	profile, ok := s.profile(rq)
	if !ok {
		return ""
	}
	verb, ok := profile.Resolve(name)
	if !ok || !bytes.Contains(verb.Own, []byte(`"x-mcp-header"`)) {
		return ""
	}
	arguments, _ := rq.asker.params.Get("arguments")
	for _, b := range bindings(verb.Own) {
		if problem := b.check(rq.r.Header, arguments); problem != "" {
			return problem
		}
	}
	return ""
}

// binding is an argument that travels in a header too.
type binding struct {
	path   []string
	header string // with its prefix
}

// bindings reads the annotations of a tool's input schema, at any depth of
// plain properties. What stands behind a $ref is not bound.
func bindings(tool json.RawMessage) []binding {
	var entry struct {
		Schema json.RawMessage `json:"inputSchema"`
	}
	if json.Unmarshal(tool, &entry) != nil {
		return nil
	}
	return bound(entry.Schema, nil, nil)
}

// maxBoundDepth bounds the walk into a schema; encoding/json bounds less.
const maxBoundDepth = 32

func bound(schema json.RawMessage, path []string, out []binding) []binding {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Header     json.RawMessage            `json:"x-mcp-header"`
	}
	// A schema may be true or false, and `properties` a property of that name.
	if len(path) > maxBoundDepth || json.Unmarshal(schema, &s) != nil {
		return out
	}
	var header string
	if len(path) > 0 && json.Unmarshal(s.Header, &header) == nil && header != "" {
		out = append(out, binding{path: path, header: headerParamPrefix + header})
	}
	for name, property := range s.Properties {
		out = bound(property, append(path[:len(path):len(path)], name), out)
	}
	return out
}

// check says how the header differs from the argument.
func (b binding) check(h http.Header, arguments json.RawMessage) (problem string) {
	values := h.Values(b.header)
	if len(values) > 1 {
		return b.header + " is repeated"
	}
	value := argument(arguments, b.path)
	where := "the argument " + clip(strings.Join(b.path, "."))
	if value == nil {
		if len(values) > 0 && values[0] != "" {
			return b.header + " is given, but " + where + " is not"
		}
		return ""
	}
	want, primitive := headerText(value)
	if len(values) == 0 {
		// A value that has no form as a header cannot be sent as one.
		if !primitive || want == "" {
			return ""
		}
		return b.header + " is missing, but " + where + " is given"
	}
	given, valid := decodeHeader(values[0])
	switch {
	case !valid:
		return b.header + " is not valid Base64"
	case !primitive:
		return b.header + " is given, but " + where + " has no form as a header"
	case given == want:
		return ""
	case value[0] != '"' && sameInteger(given, want):
		return ""
	}
	return b.header + " is " + clip(values[0]) + ", which is not " + where
}

// argument finds a value by its path; nil when it is absent or null.
func argument(arguments json.RawMessage, path []string) json.RawMessage {
	value := arguments
	for _, name := range path {
		o, err := jsonrpc.ParseObject(value)
		if err != nil {
			return nil
		}
		var ok bool
		if value, ok = o.Get(name); !ok {
			return nil
		}
	}
	if string(value) == "null" {
		return nil
	}
	return value
}

// headerText is a value as a header has it, before it is wrapped; false for
// one that has no such form: an object, an array, a fraction, or an integer
// that JavaScript would round.
func headerText(value json.RawMessage) (string, bool) {
	switch value[0] {
	case '"':
		var text string
		err := json.Unmarshal(value, &text)
		return text, err == nil
	case 't', 'f':
		return string(value), true
	case '{', '[':
		return "", false
	}
	_, ok := integer(string(value))
	return string(value), ok
}

func sameInteger(a, b string) bool {
	x, ok := integer(a)
	y, okay := integer(b)
	return ok && okay && x == y
}

func integer(text string) (float64, bool) {
	const safe = 1<<53 - 1
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && f == math.Trunc(f) && math.Abs(f) <= safe
}
