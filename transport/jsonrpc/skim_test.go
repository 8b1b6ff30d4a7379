package jsonrpc

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSkimFindsTheIDOfARequest(t *testing.T) {
	big := strings.Repeat(`x\"}],`, 1000)
	for _, tt := range []struct {
		name, in, id string
		ok           bool // it is a request
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
			if id, response := s.Response(); response != (tt.name == "response") || response && string(id) != "3" {
				t.Errorf("as a response: %q %v", id, response)
			}
		})
	}
}

// However a message is cut into pieces, it is the same message: one that is
// skimmed byte by byte takes no leap.
func TestSkimLeapsOverNothingOfMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.SampledFrom([]string{`{`, `}`, `[`, `]`, `:`, `,`, `"`, `\\`, `\"`, `"id"`, `"method"`, `"a"`, ` `, `7`, `"{\"id\":1}"`, strings.Repeat("x", 255), strings.Repeat("y", 2000)})
		in := `{"a":"` + strings.Join(rapid.SliceOfN(token, 1, 30).Draw(t, "tokens"), "")
		var whole, bytewise Skim
		_, _ = whole.Write([]byte(in))
		for i := range in {
			_, _ = bytewise.Write([]byte(in[i : i+1]))
		}
		if !reflect.DeepEqual(whole, bytewise) {
			t.Fatalf("%q:\nat once %+v\nbytewise %+v", in, whole, bytewise)
		}
	})
}

func TestSkimKnowsTheOutlineOfAResponse(t *testing.T) {
	for _, tt := range []struct{ name, in, id string }{
		{"a result that is no JSON", `{"jsonrpc":"2.0","id":7,"result":{"a":NaN}}`, `7`},
		{"an error", `{"error":{"code":nope},"id":"x","jsonrpc":"2.0"}`, `"x"`},
		{"no end", `{"jsonrpc":"2.0","id":7,"result":{"a":NaN}`, ``},
		{"an end inside a string", `{"jsonrpc":"2.0","id":7,"result":"}`, ``},
		{"no version", `{"id":7,"result":NaN}`, ``},
		{"no outcome", `{"jsonrpc":"2.0","id":7,"x":NaN}`, ``},
		{"a request", `{"jsonrpc":"2.0","id":7,"method":"m","result":NaN}`, ``},
		{"inside of a list", `[{"jsonrpc":"2.0","id":7,"result":NaN}]`, ``},
		{"no JSON", `}}}]]]`, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s Skim
			_, _ = s.Write([]byte(tt.in))
			if id, ok := s.Broken(); string(id) != tt.id || ok != (tt.id != "") {
				t.Errorf("got %q %v", id, ok)
			}
		})
	}
}

func BenchmarkSkim(b *testing.B) {
	for name, text := range map[string]string{"plain": strings.Repeat("x", 1<<20), "escapes": strings.Repeat(`line\n`, 1<<18), "numbers": strings.Repeat("1,", 1<<19)} {
		in := []byte(`{"id":1,"result":{"text":"` + text + `"}}`)
		if name == "numbers" {
			in = []byte(`{"id":1,"result":[` + text + `1]}`)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				var s Skim
				_, _ = s.Write(in)
			}
		})
	}
}
