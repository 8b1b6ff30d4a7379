package install

import (
	"path/filepath"
)

// claude fills in what Claude Code documents: `claude mcp add`, `.mcp.json` in
// a project, `.claude.json` of the user, `${VAR}` in header values.
func (r *Registration) claude(o Options) {
	switch {
	case o.Scope == ScopeProject:
		r.File = filepath.Join(o.ProjectDir, ".mcp.json")
	case o.ClaudeConfigDir != "":
		r.File = filepath.Join(o.ClaudeConfigDir, ".claude.json")
	default:
		r.File = filepath.Join(o.Home, ".claude.json")
	}
	var entry jsonObject
	if o.Via == ViaHTTP {
		bearer := "Bearer ${" + o.TokenEnv + "}"
		r.Command = shellLine([]string{"claude", "mcp", "add", "--transport", "http", "--scope", o.Scope, entryName, o.URL, "--header", "Authorization: " + bearer})
		entry.set("type", jsonText("http"))
		entry.set("url", jsonText(o.URL))
		var headers jsonObject
		headers.set("Authorization", jsonText(bearer))
		entry.set("headers", headers.raw())
	} else {
		line := o.bridge()
		r.Command = shellLine(append([]string{"claude", "mcp", "add", "--scope", o.Scope, entryName, "--"}, line...))
		entry.set("type", jsonText("stdio"))
		entry.set("command", jsonText(line[0]))
		entry.set("args", jsonTexts(line[1:]))
	}
	r.edit = func(old []byte) ([]byte, error) { return editJSON(old, entry) }
	// The snippet is what a new file would hold; it is made of our own values.
	snippet, err := editJSON(nil, entry)
	if err == nil {
		r.Snippet = string(snippet)
	}
}

// transportKeys are the keys of an entry that decide how it is reached. Those
// of the other way are taken out; whatever else stands in the entry stays.
var transportKeys = []string{"type", "command", "args", "url", "headers"}

// mergeEntry puts ours into what an entry holds already.
func mergeEntry(old, ours jsonObject) (jsonObject, error) {
	merged := jsonObject{}
	merged.members = append(merged.members, old.members...)
	for _, key := range transportKeys {
		value, wanted := ours.get(key)
		if !wanted {
			merged.remove(key)
			continue
		}
		if key == "headers" {
			if existing, ok := merged.get(key); ok {
				headers, err := parseObject(existing)
				if err != nil {
					return jsonObject{}, err
				}
				own, err := parseObject(value)
				if err != nil {
					return jsonObject{}, err
				}
				headers.removeOtherCase("Authorization")
				for _, m := range own.members {
					headers.set(m.key, m.value)
				}
				value = headers.raw()
			}
		}
		merged.set(key, value)
	}
	return merged, nil
}
