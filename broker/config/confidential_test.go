package config

import (
	"slices"
	"strings"
	"testing"
)

func TestConfidentialListsWhatIsConfiguredAndNotPublic(t *testing.T) {
	for _, tt := range []struct {
		name, entry string
		want        []string
	}{
		{"environment", `{"command": "x", "env": {"A": "value-a", "PIN_TOKEN": "1234", "LEVEL": "info", "EMPTY": ""}}`,
			[]string{"1234", "value-a"}},
		{"a URL in the environment", `{"command": "x", "env": {"DB": "postgres://bobby:hunter2@db/main?sslkey=k3y4"}}`,
			[]string{"bobby", "bobby:hunter2", "hunter2", "k3y4", "postgres://bobby:hunter2@db/main?sslkey=k3y4", "sslkey=k3y4"}},
		{"arguments", `{"command": "command-name", "args": ["-y", "--verbose", "server.py", "abc", "--name=some-value", "--n", "shortish"]}`,
			[]string{"server.py", "shortish", "some-value"}},
		{"arguments named like a credential", `{"command": "x", "args": ["--token", "abcd", "--pwd=1234", "--other", "wxyz", "KEY_TOKEN=5678"]}`,
			[]string{"1234", "5678", "KEY_TOKEN=5678", "abcd"}},
		{"joined options", `{"command": "x", "args": ["-psecret1", "-key=value-2", "-i"]}`,
			[]string{"ey=value-2", "secret1", "value-2"}},
		{"a URL in an argument", `{"command": "x", "args": ["--db=redis://:pa55@h/0"]}`,
			[]string{":pa55", "pa55", "redis://:pa55@h/0"}},
		{"headers", `{"url": "http://h/mcp", "headers": {"Authorization": "Bearer tok-1", "X-Key": "k4k4", "X-N": "1", "Cookie": "a=first; b=second"}}`,
			[]string{"Bearer tok-1", "a=first; b=second", "b=second", "first", "k4k4", "second", "tok-1"}},
		{"basic authorization", `{"url": "http://h/mcp", "headers": {"Authorization": "Basic Ym9iOmh1bnRlcjI="}}`,
			[]string{"Basic Ym9iOmh1bnRlcjI=", "Ym9iOmh1bnRlcjI=", "bob:hunter2", "hunter2"}},
		{"the arguments of a command for headers", `{"url": "http://h/mcp", "berth": {"headers_command": ["program-name", "--token", "abcd", "argument"]}}`,
			[]string{"abcd", "argument"}},
		{"the endpoint", `{"url": "https://host-name.example/api/se%20cret/mcp?key=q%2Fry&n=1"}`,
			[]string{"key=q%2Fry&n=1", "q/ry", "se cret", "se%20cret"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := parse(t, "a.json", `{"mcpServers": {"a": `+tt.entry+`}}`)
			if got := c.Backends[0].Confidential(); !slices.Equal(got, tt.want) {
				t.Errorf("got  %s\nwant %s", strings.Join(got, " | "), strings.Join(tt.want, " | "))
			}
		})
	}
}
