package mcpserver

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var stateKey = []byte("0123456789abcdef0123")

func TestRequestStateComesBackAsItWentOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var st requestState
		copy(st.talk[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "talk"))
		copy(st.owner[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "owner"))
		st.round = rapid.Uint32().Draw(t, "round")
		st.expires = time.Unix(rapid.Int64Range(0, 1<<40).Draw(t, "expires"), 0).UTC()
		text := st.seal(stateKey)
		if !isOurState(text) {
			t.Fatal("not known as ours")
		}
		got, ok := openState(text, stateKey)
		if !ok || got != st {
			t.Fatalf("%+v %v, want %+v", got, ok, st)
		}
		if _, ok := openState(text, []byte("another key of ours.")); ok {
			t.Fatal("another key opens it")
		}
		// Every change of a character is another state.
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		with := rapid.ByteRange('!', '~').Draw(t, "with")
		if text[at] == with {
			return
		}
		if _, ok := openState(text[:at]+string(with)+text[at+1:], stateKey); ok {
			t.Fatalf("a state that was changed at %d was taken", at)
		}
	})
}

func TestRequestStateIsOfOneRequest(t *testing.T) {
	base := stateOwner("p", "fs", "tools/call", object(t, `{"name":"x","arguments":{"a":1,"b":[2]}}`))
	for _, tt := range []struct {
		name                       string
		principal, profile, method string
		params                     string
		same                       bool
	}{
		{"spelled anew", "p", "fs", "tools/call", `{"arguments":{"b":[2],"a":1}, "name":"\u0078"}`, true},
		{"with answers and state", "p", "fs", "tools/call", `{"name":"x","arguments":{"a":1,"b":[2]},"inputResponses":{"k":{}},"requestState":"s","_meta":{"m":1}}`, true},
		{"another principal", "q", "fs", "tools/call", `{"name":"x","arguments":{"a":1,"b":[2]}}`, false},
		{"another profile", "p", "", "tools/call", `{"name":"x","arguments":{"a":1,"b":[2]}}`, false},
		{"another method", "p", "fs", "prompts/get", `{"name":"x","arguments":{"a":1,"b":[2]}}`, false},
		{"another argument", "p", "fs", "tools/call", `{"name":"x","arguments":{"a":2,"b":[2]}}`, false},
		{"another number text", "p", "fs", "tools/call", `{"name":"x","arguments":{"a":1.0,"b":[2]}}`, false},
		{"a further member", "p", "fs", "tools/call", `{"name":"x","arguments":{"a":1,"b":[2]},"task":{}}`, false},
		{"parts shifted", "pfs", "", "tools/call", `{"name":"x","arguments":{"a":1,"b":[2]}}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := stateOwner(tt.principal, tt.profile, tt.method, object(t, tt.params)) == base; got != tt.same {
				t.Errorf("the same owner: %v, want %v", got, tt.same)
			}
		})
	}
}

// FuzzRequestState opens whatever a client brings.
func FuzzRequestState(f *testing.F) {
	st := requestState{round: 3, expires: time.Unix(1e9, 0).UTC()}
	f.Add(st.seal(stateKey))
	f.Add(st.seal(stateKey) + "-TAMPERED")
	f.Add(statePrefix)
	f.Add("round=1")
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := openState(text, stateKey)
		if ok && got.seal(stateKey) != text {
			t.Fatalf("%q was taken, but we say %q for it", text, got.seal(stateKey))
		}
		if ok && !isOurState(text) {
			t.Fatal("opened, and not known as ours")
		}
	})
}
