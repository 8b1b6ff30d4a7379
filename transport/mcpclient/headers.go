package mcpclient

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"berth/broker"
	"berth/transport/jsonrpc"

	"github.com/mark3labs/mcp-go/mcp"
)

// binding is an argument of a tool that the backend wants to see in a header
// too (`x-mcp-header`).
type binding struct {
	path   []string // of names, from the arguments down
	header string   // without its prefix
}

// headers are those that a request of the stateless era needs besides the
// ones that all share. They repeat what the body says, so that what stands
// before the backend need not read that.
func (c *httpConn) headers(method string, params json.RawMessage) http.Header {
	if !c.stateless.Load() && method != string(mcp.MethodServerDiscover) {
		return nil
	}
	h := http.Header{}
	h.Set(mcp.HeaderProtocolVersion, statelessVersion)
	setHeader(h, mcp.HeaderMethod, method)
	key := nameMember(method)
	if key == "" {
		return h
	}
	name, ok := text(params, key)
	if !ok {
		return h // the backend says what is wrong with it
	}
	setHeader(h, mcp.HeaderName, name)
	if bound := c.bound.Load(); bound != nil && method == string(mcp.MethodToolsCall) {
		for _, b := range (*bound)[name] {
			if value, ok := argument(params, b.path); ok {
				setHeader(h, mcp.HeaderParamPrefix+b.header, value)
			}
		}
	}
	return h
}

// nameMember is the member of the params that a method's Mcp-Name repeats.
func nameMember(method string) string {
	switch method {
	case string(mcp.MethodToolsCall), string(mcp.MethodPromptsGet):
		return "name"
	case string(mcp.MethodResourcesRead):
		return "uri"
	}
	if strings.HasPrefix(method, "tasks/") {
		return "taskId"
	}
	return ""
}

// setHeader sets a value, wrapped where a header cannot carry it as it is.
func setHeader(h http.Header, name, value string) {
	if encoded, ok := mcp.EncodeHeaderValue(value); ok {
		h.Set(name, encoded)
	}
}

// argument gives the value at path as a header shows it. Only strings, truth
// values and integers that every reader takes for the same are shown.
func argument(params json.RawMessage, path []string) (string, bool) {
	raw, ok := get(params, "arguments")
	for _, name := range path {
		raw, ok = get(raw, name)
	}
	if !ok {
		return "", false
	}
	switch raw[0] {
	case '"':
		return jsonrpc.Unquote(raw)
	case 't', 'f':
		return string(raw), true
	case 'n', '{', '[':
		return "", false
	}
	const exact = 1<<53 - 1
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > exact {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}

// bind finds the arguments that tools want in headers. A tool whose wishes
// contradict each other, or cannot be met, gets none.
func (c *httpConn) bind(tools []broker.Tool) {
	bound := map[string][]binding{}
	for _, t := range tools {
		if b := bindings(t.Raw); len(b) > 0 {
			bound[t.Name] = b
		}
	}
	c.bound.Store(&bound)
}

// maxDepth limits how deep in a schema headers are looked for.
const maxDepth = 32

func bindings(tool json.RawMessage) []binding {
	if !bytes.Contains(tool, []byte("x-mcp-header")) {
		return nil
	}
	var t struct {
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	if json.Unmarshal(tool, &t) != nil {
		return nil
	}
	found, ok := schemaBindings(t.InputSchema, nil, nil)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for _, b := range found {
		name := strings.ToLower(b.header)
		if seen[name] || !isToken(b.header) {
			return nil
		}
		seen[name] = true
	}
	return found
}

// schemaBindings walks over the properties of a schema. It reports false for
// a header that is wanted of what is no plain value.
func schemaBindings(schema json.RawMessage, path []string, found []binding) ([]binding, bool) {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	// A schema may also be true or false; then it has no properties.
	if json.Unmarshal(schema, &s) != nil || len(path) > maxDepth {
		return found, true
	}
	for name, property := range s.Properties {
		at := append(slices.Clone(path), name)
		var p struct {
			Type   json.RawMessage `json:"type"`
			Header json.RawMessage `json:"x-mcp-header"`
		}
		if json.Unmarshal(property, &p) != nil {
			continue
		}
		if p.Header != nil {
			var header string
			if json.Unmarshal(p.Header, &header) != nil || !plain(p.Type) {
				return nil, false
			}
			found = append(found, binding{path: at, header: header})
		}
		var ok bool
		if found, ok = schemaBindings(property, at, found); !ok {
			return nil, false
		}
	}
	return found, true
}

// isToken reports whether s can be part of a header's name (RFC 9110).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// plain reports whether a schema's type allows only what a header can show.
// Servers exist that ask for numbers; those that are integers are shown.
func plain(kind json.RawMessage) bool {
	var names []string
	var one string
	if json.Unmarshal(kind, &one) == nil {
		names = []string{one}
	} else if json.Unmarshal(kind, &names) != nil {
		return false
	}
	for _, n := range names {
		switch n {
		case "string", "integer", "boolean", "number", "null":
		default:
			return false
		}
	}
	return len(names) > 0
}
