package install

import (
	"fmt"
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
	r.form(jsonForm{holder: "mcpServers", ways: []string{"type", "command", "args", "url", "headers"}}, entry)
}

// form makes the registration an entry of a client that writes JSON.
func (r *Registration) form(f jsonForm, entry jsonObject) {
	r.edit = func(old []byte) ([]byte, error) { return f.edit(old, entry) }
	r.find = f.find
	// The snippet is what a new file would hold; it is made of our own values.
	if snippet, err := f.edit(nil, entry); err == nil {
		r.Snippet = string(snippet)
	}
}

// merge puts ours into what an entry holds already. The keys of another way to
// connect are taken out; whatever else stands in the entry stays.
func (f jsonForm) merge(old, ours jsonObject) (jsonObject, error) {
	foreign := f.local
	if _, local := ours.get("command"); local {
		foreign = f.remote
	}
	merged := jsonObject{}
	merged.members = append(merged.members, old.members...)
	for _, key := range foreign {
		switch value, has := old.get(key); {
		case has && string(value) == "false": // says nothing but that there is none
			merged.remove(key)
		case has:
			return jsonObject{}, fmt.Errorf("it holds %s, which does not go with another way to connect; take it out first", key)
		}
	}
	for _, key := range f.ways {
		value, wanted := ours.get(key)
		if !wanted {
			merged.remove(key)
			continue
		}
		if key == "headers" {
			if existing, ok := merged.get(key); ok {
				headers, err := parseObject(existing)
				if err != nil {
					return jsonObject{}, fmt.Errorf("its headers: %w", err)
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
	for _, m := range ours.members { // what we only say where nothing is said
		if _, has := merged.get(m.key); !has {
			merged.set(m.key, m.value)
		}
	}
	return merged, nil
}
