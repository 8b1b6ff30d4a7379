package config

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestHeadersOfACommand(t *testing.T) {
	many := make([]string, maxHeaders+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"X-%d": "v"`, i)
	}
	for _, tt := range []struct {
		name, output string
		want         map[string]string
		refused      string
	}{
		{name: "headers", output: ` {"Authorization": "Bearer s3cr3t", "X-Team": "a b"}` + "\n", want: map[string]string{"Authorization": "Bearer s3cr3t", "X-Team": "a b"}},
		{name: "none", output: `{}`, want: map[string]string{}},
		{name: "those that are set anyway", output: `{"Accept": "s3cr3t", "content-type": "s3cr3t", "X-A": ""}`, want: map[string]string{"X-A": ""}},
		{name: "nothing", output: "", refused: "something else than one JSON object"},
		{name: "a bare token", output: "s3cr3t\n", refused: "something else than one JSON object"},
		{name: "a token as text", output: `"s3cr3t"`, refused: "printed text instead of an object"},
		{name: "a list", output: `["s3cr3t"]`, refused: "printed a list instead of an object"},
		{name: "more after the object", output: `{"A": "s3cr3t"} done`, refused: "something else than one JSON object"},
		{name: "a number", output: `{"A": 1}`, refused: "the header A as a number"},
		{name: "an object", output: `{"A": {"s3cr3t": "s3cr3t"}}`, refused: "the header A as an object"},
		{name: "nothing in a header", output: `{"A": null}`, refused: "the header A as nothing"},
		{name: "two lines in a header", output: `{"A": "s3cr3t\r\nB: s3cr3t"}`, refused: "a control character in the header A"},
		{name: "a name with a space", output: `{"A B": "s3cr3t"}`, refused: `"A B" cannot name a header`},
		{name: "the host", output: `{"Host": "s3cr3t"}`, refused: "the header Host cannot be configured"},
		{name: "a session", output: `{"mcp-session-id": "s3cr3t"}`, refused: "the header mcp-session-id cannot be configured"},
		{name: "a connection's own", output: `{"Connection": "s3cr3t"}`, refused: "the header Connection cannot be configured"},
		{name: "a header twice", output: `{"A": "s3cr3t", "a": "s3cr3t"}`, refused: "twice"},
		{name: "too many", output: "{" + strings.Join(many, ",") + "}", refused: "more than 64 headers"},
		{name: "too much", output: `{"A": "` + strings.Repeat("s3cr3t", MaxHeadersOutput/6) + `"}`, refused: "more than 64KiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseHeaders([]byte(tt.output))
			if tt.refused != "" {
				if err == nil || got != nil || !strings.Contains(err.Error(), tt.refused) || strings.Contains(err.Error(), "s3cr3t") {
					t.Errorf("got %v, error %v", got, err)
				}
				return
			}
			if err != nil || !maps.Equal(got.Reveal(), tt.want) {
				t.Errorf("got %v, error %v", got.Reveal(), err)
			}
		})
	}
}
