package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
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
// combination, over both transports.
func eachPairing(t *testing.T, test func(t *testing.T, p pairing)) {
	for _, p := range pairings {
		t.Run(p.String(), func(t *testing.T) { test(t, p) })
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
		Method string `json:"method"`
		Params struct {
			Name string `json:"name"`
			URI  string `json:"uri"`
		} `json:"params"`
	}
	// What cannot be decoded leaves its members empty, and so the headers.
	_ = json.Unmarshal(body, &m)
	name := map[string]string{"tools/call": m.Params.Name, "prompts/get": m.Params.Name, "resources/read": m.Params.URI}[m.Method]
	for header, value := range map[string]string{"Mcp-Method": m.Method, "Mcp-Name": name} {
		if value != "" {
			h.Set(header, headerValue(value))
		}
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

// asSent takes out of a result what the front adds for a stateless client where
// the backend did not say it.
func (s *session) asSent(result json.RawMessage) json.RawMessage {
	if s.era() == handshake {
		return result
	}
	for _, added := range []string{`,"resultType":"complete"`, `,"ttlMs":0`, `,"cacheScope":"private"`} {
		result = bytes.Replace(result, []byte(added), nil, 1)
	}
	return result
}
