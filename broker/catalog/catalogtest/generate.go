package catalogtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"berth/broker"
)

var (
	actions = []string{"get", "list", "create", "update", "delete", "search", "start", "stop", "export", "import", "validate", "archive", "restore", "assign", "merge", "compare"}
	things  = []string{"invoice", "customer", "order", "shipment", "ticket", "sprint", "dashboard", "alert", "metric", "pipeline", "artifact", "secret", "policy", "tenant", "snapshot",
		"volume", "network", "subnet", "route", "certificate", "domain", "mailbox", "calendar", "meeting", "contact", "campaign", "survey", "product", "price", "discount", "warehouse", "supplier"}
	aspects = []string{"", "_history", "_comment", "_owner", "_label", "_attachment", "_permission", "_template"}
	fields  = []string{"id", "name", "limit", "offset", "owner", "status", "since", "until", "format", "dry_run", "labels", "note"}
	types   = []string{"string", "integer", "boolean", "number"}
)

// Generate makes n verbs in backends of forty each, the same for the same n:
// names of two or three words, a description of two sentences, one to six
// properties. No two names of a backend are equal.
func Generate(n int) []List {
	const each = 40
	r := rand.New(rand.NewPCG(2000, uint64(n)))
	var out []List
	for made := 0; made < n; {
		list := List{Backend: fmt.Sprintf("svc%02d", len(out))}
		// Each backend deals with its own few things, as servers do.
		first := r.IntN(len(things))
		seen := map[string]bool{}
		for len(list.Tools) < each && made < n {
			action, thing, aspect := actions[r.IntN(len(actions))], things[(first+r.IntN(6))%len(things)], aspects[r.IntN(len(aspects))]
			name := action + "_" + thing + aspect
			if seen[name] {
				continue
			}
			seen[name] = true
			list.Tools = append(list.Tools, broker.Tool{Name: name, Raw: entry(r, name, action, thing, aspect)})
			made++
		}
		out = append(out, list)
	}
	return out
}

func entry(r *rand.Rand, name, action, thing, aspect string) json.RawMessage {
	properties := map[string]any{}
	var required []string
	for _, i := range r.Perm(len(fields))[:1+r.IntN(6)] {
		properties[fields[i]] = map[string]any{"type": types[r.IntN(len(types))], "description": fmt.Sprintf("The %s of the %s.", strings.ReplaceAll(fields[i], "_", " "), thing)}
		if r.IntN(3) == 0 {
			required = append(required, fields[i])
		}
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if required != nil {
		schema["required"] = required
	}
	what := strings.TrimSpace(thing + " " + strings.TrimPrefix(aspect, "_"))
	raw, err := json.Marshal(map[string]any{"name": name, "inputSchema": schema, "annotations": map[string]any{"readOnlyHint": action == "get" || action == "list" || action == "search"},
		"description": fmt.Sprintf("Will %s the %s. It works on one %s of the service at a time and answers with its %s.", action, what, thing, fields[r.IntN(len(fields))])})
	if err != nil {
		return nil // strings and maps of them always marshal
	}
	return raw
}
