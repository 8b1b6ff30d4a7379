package jsonrpc

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestAnEnvelopeIsReadAsItStands(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     Envelope
	}{
		{"everything", ` {"id":null,"jsonrpc":1,"method":{}, "params":"x" ,"result":1.0,"error":false,"x":[ ]} `,
			Envelope{Version: raw(`1`), ID: raw(`null`), Method: raw(`{}`), Params: raw(`"x"`), Result: raw(`1.0`), Error: raw(`false`), Extra: []Member{{"x", raw(`[ ]`)}}}},
		{"nothing", `{}`, Envelope{}},
		{"escaped names", `{"m\u0065thod":"p\u0069ng","\u0078":1}`, Envelope{Method: raw(`"p\u0069ng"`), Extra: []Member{{"x", raw(`1`)}}}},
		{"the last of a repeated member", `{"id":1,"i\u0064":2}`, Envelope{ID: raw(`2`), Repeated: true}},
		{"a repeated member of no meaning", `{"x":1,"x":2}`, Envelope{Extra: []Member{{"x", raw(`1`)}, {"x", raw(`2`)}}, Repeated: true}},
		{"a text that is no UTF-8", "{\"result\":\"\xff\"}", Envelope{Result: raw("\"\xff\"")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ReadEnvelope([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			a, b := parts(got), parts(tt.want)
			for name := range a {
				if (a[name] == nil) != (b[name] == nil) || string(a[name]) != string(b[name]) {
					t.Errorf("%s is %q, want %q", name, a[name], b[name])
				}
			}
			if got.Repeated != tt.want.Repeated || len(got.Extra) != len(tt.want.Extra) {
				t.Fatalf("got %+v", got)
			}
			for i, x := range got.Extra {
				if x.Name != tt.want.Extra[i].Name || string(x.Value) != string(tt.want.Extra[i].Value) {
					t.Errorf("extra member %d is %q: %s", i, x.Name, x.Value)
				}
			}
		})
	}
	for in, noObject := range map[string]bool{``: false, `{`: false, `{"id":1} {}`: false, `{"id":}`: false, `[{]`: false, `[{}]`: true, ` "x"`: true, `null`: true, `7 8`: false} {
		if _, err := ReadEnvelope([]byte(in)); err == nil || errors.Is(err, ErrNoObject) != noObject {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func parts(e Envelope) map[string]json.RawMessage {
	return map[string]json.RawMessage{"jsonrpc": e.Version, "id": e.ID, "method": e.Method, "params": e.Params, "result": e.Result, "error": e.Error}
}

func TestOnlyATextIsUnquoted(t *testing.T) {
	for in, want := range map[string]string{`""`: "", `"a"`: "a", `"\u0061\n"`: "a\n", `"\ud800"`: "\uFFFD"} {
		if got, ok := Unquote([]byte(in)); !ok || got != want {
			t.Errorf("%s: %q, %v", in, got, ok)
		}
	}
	for _, in := range []string{``, `null`, `1`, `{}`} {
		if got, ok := Unquote([]byte(in)); ok {
			t.Errorf("%s: %q", in, got)
		}
	}
}

func TestAQuoteIsAppendedWhateverTheTextHolds(t *testing.T) {
	for in, want := range map[string]string{"a": `x"a"`, "\"\n\x01": `x"\"\n\u0001"`, "<é>": `x"<é>"`, "a\xff": "x\"a\uFFFD\""} {
		if got := string(AppendQuote([]byte("x"), in)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
