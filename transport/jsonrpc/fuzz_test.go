package jsonrpc

import (
	"encoding/json"
	"errors"
	"testing"
)

// FuzzDecode checks that nothing makes the decoder panic, that what it accepts
// is JSON for everybody else, and that nothing of it is lost.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1.0}}}`,
		`{"jsonrpc":"2.0","id":"\u0031","result":{"content":[]},"x":null}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"\ud800"}}`,
		`[1]`, `{"id":1e400}`, "{\"\xff\":1}", `{"a":{"a":{}},"a":[[]]}`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		msg, err := Decode(in)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Code != CodeParse && e.Code != CodeInvalidRequest {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		var std map[string]json.RawMessage
		if err := json.Unmarshal(in, &std); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		for name, got := range map[string]json.RawMessage{"id": msg.ID, "params": msg.Params, "result": msg.Result, "error": msg.Error} {
			if string(got) != string(std[name]) {
				t.Errorf("%s is %s, encoding/json reads %s", name, got, std[name])
			}
		}
		known := 1 // jsonrpc
		for _, there := range []bool{msg.ID != nil, msg.Method != "", msg.Params != nil, msg.Result != nil, msg.Error != nil} {
			if there {
				known++
			}
		}
		if known+len(msg.Extra) != len(std) {
			t.Errorf("%d members of %d were kept", known+len(msg.Extra), len(std))
		}
	})
}

// FuzzObject checks that an object comes back as the same JSON, changed or not.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"b":[{}]}`, ` { "a" : "\ud800" , "\u0061":{} } `, `{"":0}`, `[`, "{\"\xc3\":1}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		o, err := ParseObject(in)
		if err != nil {
			return
		}
		if got := o.Bytes(); string(got) != string(in) {
			t.Fatalf("unchanged object came back as %s", got)
		}
		before := o.Len()
		_, had := o.Get("berth")
		o.Set("berth", []byte(`true`))
		if !had {
			o.Delete("berth")
			if o.Len() != before || !sameJSON(t, in, o.Bytes()) {
				t.Fatalf("%q came back as %q", in, o.Bytes())
			}
		}
	})
}
