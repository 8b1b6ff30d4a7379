package native_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/native"
)

// TestAResultIsAnErrorByItsOwnWord is contracts/native.md section 1.8.
func TestAResultIsAnErrorByItsOwnWord(t *testing.T) {
	for name, tt := range map[string]struct {
		value any
		want  bool
	}{
		"an error":                     {json.RawMessage(`{"Error":"it failed","Left":[1]}`), true},
		"in another letter case":       {json.RawMessage(`{"eRRor":"it failed"}`), true},
		"blank":                        {json.RawMessage(`{"Error":" \t\n "}`), false},
		"empty":                        {json.RawMessage(`{"Error":""}`), false},
		"null":                         {json.RawMessage(`{"Error":null}`), false},
		"no text":                      {json.RawMessage(`{"Error":{"Code":"x"}}`), false},
		"a number":                     {json.RawMessage(`{"Error":1}`), false},
		"deeper":                       {json.RawMessage(`{"Job":{"Error":"it failed"}}`), false},
		"another member":               {json.RawMessage(`{"Errors":"it failed"}`), false},
		"explicitly none":              {native.Explicit{Value: json.RawMessage(`{"Error":"it failed"}`)}, false},
		"explicitly one":               {native.Explicit{Value: map[string]int{"n": 1}, IsError: true}, true},
		"explicitly one, with a blank": {native.Explicit{Value: json.RawMessage(`{"Error":""}`), IsError: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := native.NewFamily("f", native.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)}, native.Verb{Name: "v",
				Entry: `{"name":"v","inputSchema":{"type":"object"}}`, Answer: func(context.Context, native.Ask) (any, error) { return tt.value, nil }})
			c, err := f.Open(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := c.Call(t.Context(), &broker.Call{Verb: "v", Params: json.RawMessage(`{"name":"v"}`)}, broker.Peer{})
			if err != nil || answer.ToolError() != tt.want {
				t.Fatalf("%s, %v", answer.Result, err)
			}
			value := tt.value
			if e, ok := value.(native.Explicit); ok {
				value = e.Value
			}
			raw, err := native.Encode(value)
			if whole := `"structuredContent":` + string(raw); err != nil || !strings.Contains(string(answer.Result), whole) {
				t.Errorf("its payload is not whole: %s", answer.Result)
			}
		})
	}
}
