package mcpserver

import (
	"encoding/json"
	"net/http"
	"testing"

	"berth/transport/jsonrpc"
)

// FuzzAsker reads whatever stands in the params of a request of the stateless
// era; what is taken must say who asks.
func FuzzAsker(f *testing.F) {
	f.Add([]byte(`{"_meta":{"` + metaVersion + `":"2026-07-28","` + metaCapabilities + `":{},"` + metaLogLevel + `":5}}`))
	f.Add([]byte(`{"_meta":{"` + metaVersion + `":"","` + metaCapabilities + `":{"a":[]},"` + metaClientInfo + `":{"name":1}},"notifications":{"taskIds":["a",1]}}`))
	f.Add([]byte(`{"_meta":{"a":1,"\u0061":2}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, params []byte) {
		rq := &request{msg: jsonrpc.Message{Params: params}}
		if problem := rq.readAsker(); problem != "" {
			return
		}
		if rq.asker == nil || !rq.client.Stateless || len(rq.client.Capabilities) == 0 || rq.client.Capabilities[0] != '{' || !json.Valid(params) {
			t.Fatalf("taken: %s", params)
		}
		_ = rq.clientName()
		_, _ = readWish(rq.asker.params)
		_, _ = readAnswers(rq.asker.params)
		if c := carriage(rq.msg); c.header == nil || len(c.header[headerVersion]) != 1 {
			t.Fatalf("the bridge would not know the era of %s", params)
		}
	})
}

func TestErrorsHaveAStatusOnlyInTheStatelessEra(t *testing.T) {
	for code, want := range map[int]int{jsonrpc.CodeMethodNotFound: http.StatusNotFound, jsonrpc.CodeInvalidParams: http.StatusBadRequest,
		codeHeaderMismatch: http.StatusBadRequest, codeMissingCapability: http.StatusBadRequest, codeUnsupportedVersion: http.StatusBadRequest,
		jsonrpc.CodeInternal: http.StatusOK, codeRefused: http.StatusOK} {
		for _, id := range []string{`1`, `"a\"b"`} {
			rq := &request{msg: jsonrpc.Message{ID: json.RawMessage(id)}}
			message := jsonrpc.AppendError(nil, rq.msg.ID, code, "m", nil)
			if got := rq.status(message); got != http.StatusOK {
				t.Errorf("%d in the handshake era: %d", code, got)
			}
			rq.asker = &asker{}
			if got := rq.status(message); got != want {
				t.Errorf("%d: %d, want %d", code, got, want)
			}
			if got := rq.status(jsonrpc.AppendResult(nil, rq.msg.ID, []byte(`{"error":{"code":-32601}}`))); got != http.StatusOK {
				t.Errorf("a result got %d", got)
			}
		}
	}
}

func TestResultsAreCompletedAndNeverChanged(t *testing.T) {
	for _, tt := range []struct{ name, method, in, want string }{
		{"call", "tools/call", `{"content":[]}`, `{"content":[],"resultType":"complete"}`},
		{"list", "tools/list", `{ "tools": [1.0] }`, `{"tools":[1.0],"resultType":"complete","ttlMs":300000,"cacheScope":"private"}`},
		{"everything was said", "resources/read", `{"resultType":"own", "ttlMs":7,"cacheScope":"public"}`, `{"resultType":"own", "ttlMs":7,"cacheScope":"public"}`},
		{"some was said", "prompts/list", `{"ttlMs":null}`, `{"ttlMs":null,"resultType":"complete","cacheScope":"private"}`},
		{"questions of a library that serves an older client", "tools/call", `{"inputRequests":{"a":{}},"requestState":"s"}`, `{"inputRequests":{"a":{}},"requestState":"s","resultType":"input_required"}`},
		{"no object", "tools/call", `[1]`, `[1]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rq := &request{msg: jsonrpc.Message{Method: tt.method}, asker: &asker{}}
			if got := string(completed(rq, json.RawMessage(tt.in))); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
