package config

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Parse reads a configuration. name is the file's name: it stands before every
// problem, and `.json`, `.yaml` or `.yml` at its end says how the text is
// written; with any other name, text that begins with { is JSON. env looks up
// environment variables. The error is a *Invalid.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	c := Default()
	root, problem := read(name, data)
	if problem != nil {
		return nil, &Invalid{Name: name, Problems: []Problem{*problem}}
	}
	if root == nil || root.kind == null {
		return c, nil
	}
	r := &report{}
	c.fill(root, r, env)
	if len(r.problems) > 0 {
		sortProblems(r.problems)
		return nil, &Invalid{Name: name, Problems: r.problems}
	}
	sortProblems(r.notes)
	c.Notes = r.notes
	return c, nil
}

// Default is the configuration of a broker without a file: its own verbs and
// no backend.
func Default() *Config {
	c := &Config{}
	setDefaults(reflect.ValueOf(&c.Broker).Elem())
	return c
}

// DefaultSettings are the settings of a backend without a `berth` object.
func DefaultSettings() Settings {
	var s Settings
	setDefaults(reflect.ValueOf(&s).Elem())
	return s
}

func read(name string, data []byte) (*node, *Problem) {
	if len(data) > MaxFile {
		return nil, &Problem{Message: fmt.Sprintf("the file is larger than %s", Size(MaxFile))}
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	lower := strings.ToLower(name)
	switch {
	case strings.HasSuffix(lower, ".json"):
		return readJSON(data)
	case strings.HasSuffix(lower, ".yaml"), strings.HasSuffix(lower, ".yml"):
		return readYAML(data)
	case bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")):
		return readJSON(data)
	}
	return readYAML(data)
}

func (c *Config) fill(root *node, r *report, env func(string) (string, bool)) {
	if root.kind != object {
		r.refuse(root, "must be an object with mcpServers, berth or both, not %s", root.kind)
		return
	}
	top, _ := fields(r, root, map[string]bool{"mcpServers": true, "berth": true})
	if n := top["berth"]; n != nil {
		decoder{r}.object(n, reflect.ValueOf(&c.Broker).Elem())
		grants := find(n, "proofs", "grants")
		for i, g := range c.Broker.Proofs.Grants {
			r.conditions(grants, i, g.When)
		}
		c.tracing(n, r, env)
		if c.Broker.MaxBytesInFlight < c.Broker.MaxBody {
			r.refuse(n, "max_bytes_in_flight (%s) is less than max_body (%s), so a large call could never run", c.Broker.MaxBytesInFlight, c.Broker.MaxBody)
		}
	}
	defer func() { c.checkProfiles(r, top["berth"]) }()
	servers := top["mcpServers"]
	if servers == nil {
		r.notes = append(r.notes, problemAt(root, "there is no mcpServers object, so no backend is served"))
		return
	}
	if servers.kind != object {
		r.refuse(servers, "must be an object of backends, not %s", servers.kind)
		return
	}
	seen, entries := map[string]bool{}, map[string]*node{}
	for _, m := range servers.members {
		switch {
		case seen[m.key]:
			r.refuseKey(m, "there are two backends of this name")
		case ownEntry(m):
			r.note(m, "passed over: this is the registration of Berth itself")
		default:
			c.Backends = append(c.Backends, parseEntry(r, m, env))
		}
		seen[m.key] = true
		entries[m.key] = m.value
	}
	slices.SortFunc(c.Backends, func(a, b Backend) int { return cmp.Compare(a.Name, b.Name) })
	c.checkApps(r, entries)
}
