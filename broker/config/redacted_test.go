package config

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestACopyOfTheSettingsHasNoSecret(t *testing.T) {
	text := `{"berth":{"drain_timeout":"3s"},"mcpServers":{
		"a":{"command":"run","args":["--key","s3cret-1"],"env":{"KEY":"s3cret-2"},"berth":{"max_in_flight":3}},
		"b":{"url":"https://example.org/s3cret-3","headers":{"Authorization":"Bearer s3cret-4"},"berth":{"headers_command":["prog","s3cret-5"]}}}}`
	c, err := Parse("mcp.json", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	out, replaced, err := c.Redacted()
	if err != nil || !json.Valid(out) {
		t.Fatalf("%v: %s", err, out)
	}
	if strings.Contains(string(out), "s3cret") || strings.Count(string(out), Redacted) != replaced || replaced != 7 {
		t.Errorf("%d replaced in %s", replaced, out)
	}
	for _, kept := range []string{`"drain_timeout": "3s"`, `"KEY"`, `"Authorization"`, `"command": "run"`, `"max_in_flight": 3`, `"idle_timeout": "never"`} {
		if !strings.Contains(string(out), kept) {
			t.Errorf("%s is not in %s", kept, out)
		}
	}
}
