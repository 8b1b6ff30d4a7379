package config

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// What is accepted keeps every promise of the documentation, and reads the
// same again.
func FuzzParse(f *testing.F) {
	f.Add(".json", "{}")
	f.Add(".yaml", yamlOfEveryKey)
	f.Add("", "mcpServers: {a: {command: x, env: &e {A: b}}, b: {command: x, env: *e}}")
	f.Add(".json", `{"mcpServers": {"a": {"command": "${DIR:-x}", "args": ["$${", "${TOKEN}"], "berth": {"verbs": {"*": {"seats": 3}}}}}}`)
	for _, file := range []string{"testdata/claude.mcp.json", "testdata/cursor.mcp.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(".json", string(text))
	}
	f.Fuzz(func(t *testing.T, suffix, text string) {
		c, err := Parse("file"+suffix, []byte(text), environ)
		if err != nil {
			if c != nil || err.Error() == "" || (strings.Contains(err.Error(), theSecret) && !strings.Contains(text, theSecret)) {
				t.Errorf("refused with %q", err)
			}
			return
		}
		again, err := Parse("file"+suffix, []byte(text), environ)
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Errorf("read twice: %+v and %+v (%v)", c, again, err)
		}
		keepsItsPromises(t, c)
	})
}

func keepsItsPromises(t *testing.T, c *Config) {
	t.Helper()
	b := c.Broker
	for name, ok := range map[string]bool{
		"listen": checkAddress(b.Listen) == nil, "drain": b.DrainTimeout >= 0 && b.DrainTimeout <= time.Hour,
		"counts": b.MaxSessions > 0 && b.MaxCallsPerSession > 0 && b.MaxStreams > 0,
		"bytes":  b.MaxBody >= 1<<10 && b.MaxBytesInFlight >= b.MaxBody,
		"level":  slices.Contains([]string{"debug", "info", "warn", "error"}, b.LogLevel),
		"sorted": slices.IsSortedFunc(c.Backends, func(a, b Backend) int { return strings.Compare(a.Name, b.Name) }),
	} {
		if !ok {
			t.Errorf("%s: %+v", name, b)
		}
	}
	for i, e := range c.Backends {
		s := e.Settings
		if i > 0 && c.Backends[i-1].Name == e.Name {
			t.Errorf("two backends %q", e.Name)
		}
		for name, ok := range map[string]bool{
			"name": checkName(e.Name) == nil, "kind": (e.Kind == Stdio && e.Command != "" && e.URL.Empty()) || (e.Kind == HTTP && e.Command == "" && len(e.Args) == 0) ||
				(e.Kind == App && apps[s.App].seats > 0 && e.Command == "" && e.URL.Empty()),
			"seats":    s.MaxInFlight >= 1 && s.MaxQueued >= 0 && s.MaxQueuedJobs >= 0,
			"times":    s.QueueTimeout > 0 && s.StartTimeout > 0 && s.CallTimeout > 0 && s.CancelGrace >= 0,
			"optional": (s.IdleTimeout == Never || s.IdleTimeout > 0) && (s.PromoteAfter == Never || s.PromoteAfter >= 0),
			"words":    (s.Start == Lazy || s.Start == Eager) && (s.Instances == Shared || s.Instances == PerSession),
			"answer":   s.MaxAnswer >= 1<<10,
		} {
			if !ok && !(name == "kind" && s.Disabled) {
				t.Errorf("%s of %q: %+v", name, e.Name, e)
			}
		}
		if command := s.HeadersCommand; command != nil && !s.Disabled && (e.Kind != HTTP || len(command) == 0 || command[0].Empty()) {
			t.Errorf("headers_command of %q: %+v", e.Name, e)
		}
		if _, err := parseURL(e.URL.Reveal()); e.Kind == HTTP && !s.Disabled && err != nil {
			t.Errorf("url of %q: %v", e.Name, err)
		}
		for _, rule := range s.Verbs {
			if checkGlob(rule.Glob) != nil || rule.Seats > s.MaxInFlight || rule.Seats < 0 {
				t.Errorf("rule of %q: %+v", e.Name, rule)
			}
		}
	}
}

// What is taken from a command's output can be sent, and a refusal shows
// nothing of it but names.
func FuzzParseHeaders(f *testing.F) {
	f.Add(`{"Authorization": "Bearer s3cr3t", "accept": "x", "X-A": ""}`)
	f.Add(`{"X-A": "1", "x-a": "2"}`)
	f.Add(`{"Host": "h"}`)
	f.Add("s3cr3t")
	f.Fuzz(func(t *testing.T, output string) {
		headers, err := ParseHeaders([]byte(output))
		if err != nil {
			if headers != nil || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%v and %q", headers, err)
			}
			return
		}
		seen := map[string]bool{}
		for name, value := range headers.Reveal() {
			if _, own := ownHeaders[strings.ToLower(name)]; own || seen[strings.ToLower(name)] || !headerName.MatchString(name) || !plainHeaderValue(value) {
				t.Errorf("took %q", name)
			}
			seen[strings.ToLower(name)] = true
		}
	})
}
