// Package catalogtest holds catalogs for tests: what public MCP servers list,
// captured by `make catalogs` in the versions of test/catalogs/package.json; the
// list of the resmon surface, which the surface's own test keeps equal; and a
// made one of any size.
//
// The captured texts are their authors', under the licences (MIT, Apache-2.0) of
// the packages that package.json names. It is for tests only. Everything here is
// the same at every call and safe for concurrent use.
package catalogtest

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	"berth/broker"
)

//go:embed lists/*.json
var lists embed.FS

// List is what one backend lists.
type List struct {
	Backend string
	Tools   []broker.Tool
}

// Real gives the captured lists and resmon's, by name of the backend.
func Real() ([]List, error) {
	entries, err := lists.ReadDir("lists")
	if err != nil {
		return nil, fmt.Errorf("read the captured lists: %w", err)
	}
	var out []List
	for _, e := range entries {
		raw, err := lists.ReadFile("lists/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("read a captured list: %w", err)
		}
		list := List{Backend: strings.TrimSuffix(e.Name(), ".json")}
		var tools []json.RawMessage
		if err := json.Unmarshal(raw, &tools); err != nil {
			return nil, fmt.Errorf("read %s: %w", e.Name(), err)
		}
		for _, tool := range tools {
			var entry struct{ Name string }
			if err := json.Unmarshal(tool, &entry); err != nil {
				return nil, fmt.Errorf("read %s: %w", e.Name(), err)
			}
			list.Tools = append(list.Tools, broker.Tool{Name: entry.Name, Raw: tool})
		}
		out = append(out, list)
	}
	return out, nil
}
