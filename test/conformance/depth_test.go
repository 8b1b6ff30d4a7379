package conformance

import (
	"strings"
	"testing"
)

// TestDeepJSONArrivesOrIsRefused nests arguments and results as deep as a
// message may be, and deeper.
func TestDeepJSONArrivesOrIsRefused(t *testing.T) {
	nested := func(depth int) string {
		return strings.Repeat(`{"a":[`, depth/2) + strings.Repeat(`]}`, depth/2)
	}
	eachPairing(t, func(t *testing.T, p pairing) {
		m := newMirror()
		r, s := pair(t, p, &m.backend)
		defer r.close()
		for _, depth := range []int{100, 5_000, 9_900} {
			params := s.params(`"name":"t","arguments":` + nested(depth))
			result := `{"content":[],"structuredContent":` + nested(depth) + `}`
			m.set(result, "")
			response, _, err := s.roundTrip("tools/call", params)
			must(t, err)
			if err := p.sameParams(params, m.got()); err != nil {
				t.Errorf("%d levels of params: %v", depth, err)
			}
			if err := same(p.completed("tools/call", []byte(result)), response.Result); err != nil {
				t.Errorf("%d levels of a result: %v; %.300s", depth, err, response.Error)
			}
		}
		m.set(`{"content":[]}`, "")
		a := s.post([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + string(s.params(`"name":"t","arguments":`+nested(20_000))) + `}`))
		checkError(t, a, -32700, "")
		if m.got() != nil {
			t.Error("it reached the backend")
		}
		m.set(`{"content":[],"structuredContent":`+nested(20_000)+`}`, "")
		checkSaid(t, s, "outcome_unknown")
		m.set(`{"content":[]}`, "")
		if _, err := s.call("t"); err != nil {
			t.Errorf("the call after it: %v", err)
		}
	})
}
