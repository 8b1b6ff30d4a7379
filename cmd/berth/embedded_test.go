package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// callAnswer is the answer to a call, in either form.
type callAnswer struct {
	Result *struct {
		StructuredContent map[string]any
		IsError           bool
	}
	Error *struct {
		Code    int
		Message string
		Data    map[string]any
	}
}

// TestInProcessTheDocumentedNamesAnswerErrorsAsTheProtocolDoes: `berth stdio
// --embedded` in the profile armada gives an error result as -32603 with the
// result in data (contracts/native.md section 1.8); every other session over
// stdio gets the result.
func TestInProcessTheDocumentedNamesAnswerErrorsAsTheProtocolDoes(t *testing.T) {
	t.Parallel()
	h := newHall(t, map[string]any{}, nil)
	for name, tt := range map[string]struct {
		o     stdioOptions
		asRPC bool
	}{
		"embedded":           {stdioOptions{profile: "armada", embedded: true}, true},
		"through the bridge": {stdioOptions{profile: "armada"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := stdio(t, h.state, nil, tt.o)
			l.open()
			ask := func(verb string, arguments map[string]any) (a callAnswer) {
				must(t, json.Unmarshal(l.ask("tools/call", map[string]any{"name": verb, "arguments": arguments}), &a))
				return a
			}
			for verb, arguments := range map[string]map[string]any{
				"armada_job_status":    {"jobId": "job_none"},
				"armada_dispatch_hold": {"action": "engage"},
			} {
				got := ask(verb, arguments)
				if tt.asRPC {
					if got.Error == nil || got.Error.Code != -32603 || got.Error.Message == "" || got.Error.Message != got.Error.Data["Error"] || got.Error.Data["Code"] == nil {
						t.Errorf("%s: %+v", verb, got.Error)
					}
					continue
				}
				if got.Result == nil || !got.Result.IsError || got.Result.StructuredContent["Code"] == nil {
					t.Errorf("%s: %+v", verb, got)
				}
			}
			if got := ask("armada_dispatch_hold", map[string]any{}); got.Result == nil || got.Result.IsError || got.Result.StructuredContent["Active"] != false {
				t.Errorf("a success: %+v", got)
			}
			if got := ask("nope", map[string]any{}); got.Error == nil || got.Error.Code != -32602 || !strings.HasPrefix(got.Error.Message, "Tool not found: nope") {
				t.Errorf("an unknown name: %+v", got)
			}
			must(t, l.close())
		})
	}
	t.Run("of nothing else", func(t *testing.T) {
		l := stdio(t, "", nil, stdioOptions{profile: "full", embedded: true})
		if err := <-l.ended; err == nil || !strings.Contains(err.Error(), "resmon or armada") {
			t.Errorf("it ended with %v", err)
		}
	})
}
