// Package nativetest calls verbs of native families the way the broker does. It
// owns no family and is for tests only; a call has no state that outlives it.
package nativetest

import (
	"encoding/json"
	"testing"

	"berth/broker"
	"berth/broker/catalog/schema"
	"berth/broker/native"
)

// Call calls a verb for a principal: its arguments are normalised and judged by
// its own schema, then it answers. It gives the text of the result, or of the
// refusal.
func Call(t *testing.T, f *native.Verbs, who broker.Principal, verb, arguments string) string {
	t.Helper()
	for _, tool := range f.Source().Tools {
		if tool.Name != verb {
			continue
		}
		var entry struct{ InputSchema json.RawMessage }
		if err := json.Unmarshal(tool.Raw, &entry); err != nil {
			t.Fatal(err)
		}
		s, err := schema.Compile(entry.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		raw := s.Normalise(json.RawMessage(arguments))
		if refusal := s.NativeRefusal(raw); refusal != nil {
			return string(refusal.NativeJSON())
		}
		conn, err := f.Open(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		params, err := json.Marshal(map[string]any{"name": verb, "arguments": raw})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := conn.Call(t.Context(), &broker.Call{Principal: who, Verb: verb, Params: params}, broker.Peer{})
		if err != nil {
			t.Fatal(err)
		}
		var result struct {
			Content []struct{ Text string }
		}
		if err := json.Unmarshal(answer.Result, &result); err != nil || len(result.Content) != 1 {
			t.Fatalf("%s (%v)", answer.Result, err)
		}
		return result.Content[0].Text
	}
	t.Fatalf("there is no verb %s", verb)
	return ""
}
