package mcpserver

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/transport/jsonrpc"
)

func TestAnErrorResultIsAnErrorWhereItIsAskedFor(t *testing.T) {
	long := strings.Repeat("é", 1000)
	for name, tt := range map[string]struct {
		result, method string
		off            bool
		message, data  string // empty: it stays as it is
	}{
		"a refusal":                 {result: `{"content":[{"type":"text","text":"{\"Error\":\"No.\",\"Code\":\"c\"}"}],"isError":true}`, message: "No.", data: `{"Error":"No.","Code":"c"}`},
		"in another case":           {result: `{"content":[{"type":"text","text":"{\"error\":\"No.\"}"}],"isError":true}`, message: "No.", data: `{"error":"No."}`},
		"a sentence that is long":   {result: `{"content":[{"type":"text","text":"{\"Error\":\"` + long + `\"}"}],"isError":true}`, message: long[:1024], data: `{"Error":"` + long + `"}`},
		"a payload without one":     {result: `{"content":[{"type":"text","text":"[1]"}],"isError":true}`, message: "The call failed; data says why.", data: `[1]`},
		"no payload":                {result: `{"content":[],"isError":true}`, message: "The call failed; data says why.", data: `{"content":[],"isError":true}`},
		"a success":                 {result: `{"content":[{"type":"text","text":"{\"Error\":\"No.\"}"}]}`},
		"a success that says so":    {result: `{"content":[{"type":"text","text":"{\"Error\":\"No.\"}"}],"isError":false}`},
		"another session":           {result: `{"content":[],"isError":true}`, off: true},
		"an answer to another kind": {result: `{"isError":true}`, method: "tools/list"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = "tools/call"
			}
			msg, err := jsonrpc.Decode([]byte(`{"jsonrpc":"2.0","id":"x","method":"` + tt.method + `","params":{}}`))
			if err != nil {
				t.Fatal(err)
			}
			data := []byte(`{"jsonrpc":"2.0","id":"x","result":` + tt.result + `}`)
			got, err := jsonrpc.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			r := &bridge{Bridge: Bridge{ErrorsAsRPC: !tt.off}}
			out := r.errorOf(msg, got, data)
			if tt.message == "" {
				if string(out) != string(data) {
					t.Errorf("%s", out)
				}
				return
			}
			var answer struct {
				ID    string
				Error struct {
					Code    int
					Message string
					Data    json.RawMessage
				}
			}
			if err := json.Unmarshal(out, &answer); err != nil || answer.ID != "x" || answer.Error.Code != -32603 || answer.Error.Message != tt.message || string(answer.Error.Data) != tt.data {
				t.Errorf("%v in %s", err, out)
			}
		})
	}
}
