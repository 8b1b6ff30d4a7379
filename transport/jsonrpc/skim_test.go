package jsonrpc

import (
	"strings"
	"testing"
)

func TestSkimFindsTheIDOfARequest(t *testing.T) {
	big := strings.Repeat(`x\"}],`, 1000)
	for _, tt := range []struct {
		name, in, id string
		ok           bool
	}{
		{"id first", `{"jsonrpc":"2.0","id":7,"method":"m","params":{"id":8,"a":"` + big + `"}}`, `7`, true},
		{"id last", `{"method":"m","params":{"id":8,"a":["` + big + `",{"id":9}]},"id" : "a\"b" }`, `"a\"b"`, true},
		{"notification", `{"method":"m","params":{"id":8}}`, ``, false},
		{"response", `{"id":3,"result":{"method":"m"}}`, ``, false},
		{"id cannot name a request", `{"id":{"a":1},"method":"m"}`, ``, true},
		{"id is too long", `{"id":"` + strings.Repeat("y", 2*MaxIDBytes) + `","method":"m"}`, ``, true},
		{"key in a string", `{"a":"\"id\":5","method":"m","id":6}`, `6`, true},
		{"no JSON", `]]]]:::,,,"`, ``, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s Skim
			for piece := range strings.SplitAfterSeq(tt.in, "e") { // the pieces a reader gives have no meaning
				if n, err := s.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Fatal(n, err)
				}
			}
			id, ok := s.Request()
			if string(id) != tt.id || ok != tt.ok {
				t.Errorf("got %q %v", id, ok)
			}
		})
	}
}
