package broker

import (
	"encoding/json"
	"testing"
)

func TestAnRPCErrorIsTheJSONThatItCameAs(t *testing.T) {
	const came = `{"own":1.0,"message":"<no>","data":{"n":12345678901234567890},"code":-7,"null":null}`
	for _, tt := range []struct {
		name  string
		error RPCError
		want  string
	}{
		{"as it came", RPCError{Code: -7, Message: "<no>", Raw: json.RawMessage(came)}, came},
		{"from its parts", RPCError{Code: -7, Message: "<no>", Data: json.RawMessage(`[1]`)}, `{"code":-7,"message":"<no>","data":[1]}`},
		{"without data", RPCError{Code: -7}, `{"code":-7,"message":""}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(tt.error.Object()); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if got := string(marshal(&tt.error)); got != tt.want {
				t.Errorf("encoded: %s", got)
			}
		})
	}
	raw := []byte(came)
	var e RPCError
	if err := json.Unmarshal(raw, &e); err != nil || e.Code != -7 || e.Message != "<no>" || string(e.Data) != `{"n":12345678901234567890}` {
		t.Fatalf("read %+v, %v", e, err)
	}
	clear(raw)
	if string(e.Object()) != came {
		t.Errorf("kept %s", e.Object())
	}
	if err := json.Unmarshal([]byte(`{"code":"x"}`), &e); err == nil {
		t.Error("a text is no code")
	}
}

func TestAToolErrorIsFoundHoweverItIsWritten(t *testing.T) {
	tests := []struct {
		result string
		want   bool
	}{
		{`{"content":[]}`, false},
		{`{"content":[],"isError":false}`, false},
		{`{"content":[],"isError" : true}`, true},
		{`{"isError":true}`, true},
		{`{"\u0069sError":true}`, true},
		{`{"content":[{"text":"isError: true"}],"isError":false}`, false},
		{`{"content":[{"text":"isError: false"}],"isError": true}`, true},
		{`{"content":[{"text":"\u00e9"}]}`, false},
		{`[]`, false},
		{``, false},
	}
	for _, tt := range tests {
		if got := (Answer{Result: json.RawMessage(tt.result)}).ToolError(); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.result, got, tt.want)
		}
	}
}
