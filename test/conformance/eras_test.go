package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// era is a generation of the protocol that one side speaks.
type era int

const (
	handshake era = iota
	stateless
)

func (e era) String() string {
	if e == stateless {
		return "stateless"
	}
	return "handshake"
}

const statelessVersion = "2026-07-28"

const (
	clientInfo         = `{"name":"tester","version":"1"}`
	clientCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`
)

// eraMembers are the members of `_meta` with which a stateless client says who
// it is.
var eraMembers = []string{
	`"io.modelcontextprotocol/protocolVersion":"` + statelessVersion + `"`,
	`"io.modelcontextprotocol/clientInfo":` + clientInfo,
	`"io.modelcontextprotocol/clientCapabilities":` + clientCapabilities,
}

// pairing is who speaks what, and how the backend is reached.
type pairing struct {
	kind            kind
	client, backend era
}

func (p pairing) String() string {
	return p.client.String() + "-" + p.backend.String() + "-" + string(p.kind)
}

// eachPairing runs a test for clients and backends of both eras in every
// combination, over both transports. They run at the same time, as each waits
// for the other side more than it works.
func eachPairing(t *testing.T, test func(t *testing.T, p pairing)) { eachOf(t, pairings, test) }

func eachOf(t *testing.T, some []pairing, test func(t *testing.T, p pairing)) {
	for _, p := range some {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

var pairings = func() (all []pairing) {
	for _, client := range []era{handshake, stateless} {
		for _, backend := range []era{handshake, stateless} {
			for _, k := range kinds {
				all = append(all, pairing{k, client, backend})
			}
		}
	}
	return all
}()

// over are the pairings with a backend over one transport.
func over(k kind) []pairing {
	return slices.DeleteFunc(slices.Clone(pairings), func(p pairing) bool { return p.kind != k })
}

// pair starts a broker in front of a backend and gives a client of it.
func pair(t testing.TB, p pairing, b *backend) (*rig, *session) {
	t.Helper()
	b.era = p.backend
	r := newRig(t, p.kind, b)
	return r, r.speak(p.client)
}

// speak gives a client of an era on the backend's own endpoint.
func (r *rig) speak(e era) *session {
	r.t.Helper()
	if e == handshake {
		return r.handshake()
	}
	return &session{rig: r, path: "/mcp/b", version: statelessVersion, lastID: 1000}
}

// era is the one that the session speaks.
func (s *session) era() era {
	if s.version == statelessVersion {
		return stateless
	}
	return handshake
}

// params makes params of members as the session's era has them, with more
// members of `_meta`.
func (s *session) params(members string, meta ...string) []byte {
	if s.era() == stateless {
		meta = append(meta, eraMembers...)
	}
	if len(meta) == 0 {
		return []byte("{" + members + "}")
	}
	if members != "" {
		members += ","
	}
	return []byte("{" + members + `"_meta":{` + strings.Join(meta, ",") + "}}")
}

// repeatInHeaders sets the headers that repeat a body, as far as it can be read.
func repeatInHeaders(h http.Header, body []byte) {
	var m struct {
		Method *string `json:"method"`
		Params struct {
			Name *string `json:"name"`
			URI  *string `json:"uri"`
		} `json:"params"`
	}
	// What cannot be decoded leaves its members empty, and so the headers.
	_ = json.Unmarshal(body, &m)
	if m.Method == nil {
		return
	}
	h.Set("Mcp-Method", headerValue(*m.Method))
	name := map[string]*string{"tools/call": m.Params.Name, "prompts/get": m.Params.Name, "resources/read": m.Params.URI}[*m.Method]
	if name != nil {
		h.Set("Mcp-Name", headerValue(*name))
	}
}

// headerValue wraps what a header cannot carry.
func headerValue(text string) string {
	if strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
	}
	return text
}

// send posts a body with headers that the test has changed.
func (s *session) send(t testing.TB, body []byte, change func(http.Header)) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), s.rig.patience)
	defer cancel()
	req := s.message(ctx, body)
	if change != nil {
		change(req.Header)
	}
	a, err := s.do(req)
	must(t, err)
	return a
}

// meta gives members of `_meta` as the session's era has them.
func (s *session) meta(more ...string) []string {
	if s.era() == stateless {
		more = append(more, eraMembers...)
	}
	return more
}

// sameParams compares params as they were sent with what the backend got. Where
// the eras differ, what they alone say of the client is left out of account.
func (p pairing) sameParams(sent, got []byte) error {
	if p.client != p.backend {
		sent, got = withoutEra(sent), withoutEra(got)
	}
	return same(sent, got)
}

// withoutEra takes the members of `_meta` out that describe a stateless client,
// and `_meta` when nothing else is in it.
func withoutEra(params []byte) []byte {
	return without(params, func(name string, value []byte) ([]byte, bool) {
		if name != `"_meta"` {
			return value, true
		}
		rest := without(value, func(name string, value []byte) ([]byte, bool) {
			switch strings.Trim(name, `"`) {
			case "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/clientCapabilities":
				return nil, false
			}
			return value, true
		})
		return rest, string(rest) != "{}"
	})
}

// without gives an object with each member as keep has it, or without it.
func without(object []byte, keep func(name string, value []byte) ([]byte, bool)) []byte {
	all, err := inOrder(object)
	if err != nil {
		return object // the comparison says what is wrong with it
	}
	var members [][]byte
	for _, m := range all {
		if value, ok := keep(string(m.name), m.value); ok {
			members = append(members, append(append(m.name, ':'), value...))
		}
	}
	return append(append([]byte("{"), bytes.Join(members, []byte(","))...), '}')
}

// completed is a backend's result as the client is to get it: in the stateless
// era every one says of what kind it is and, of some methods, how long it holds.
func (p pairing) completed(method string, result []byte) []byte {
	if p.client == handshake {
		return result
	}
	all, err := inOrder(result)
	if err != nil {
		return result
	}
	out := bytes.TrimSuffix(bytes.TrimSpace(result), []byte("}"))
	add := func(name, value string) {
		for _, m := range all {
			if string(m.name) == `"`+name+`"` {
				return
			}
		}
		out = fmt.Appendf(out, `,"%s":%s`, name, value)
	}
	add("resultType", `"complete"`)
	switch method {
	case "resources/list", "resources/read":
		add("ttlMs", "0")
		add("cacheScope", `"private"`)
	}
	return append(out[:len(out):len(out)], '}')
}
