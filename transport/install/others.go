package install

import "path/filepath"

// cursor fills in what Cursor documents (cursor.com/docs/mcp): mcp.json below
// .cursor, of the user or of the project, `${env:NAME}` in values.
func (r *Registration) cursor(o Options) {
	r.File = filepath.Join(o.root(), ".cursor", "mcp.json")
	var entry jsonObject
	if o.Via == ViaHTTP {
		entry.set("url", jsonText(o.URL))
		entry.set("headers", bearer("${env:"+o.TokenEnv+"}"))
	} else {
		line := o.bridge()
		entry.set("type", jsonText("stdio"))
		entry.set("command", jsonText(line[0]))
		entry.set("args", jsonTexts(line[1:]))
	}
	r.form(jsonForm{holder: "mcpServers", ways: []string{"type", "command", "args", "url", "headers"}, comments: true}, entry)
}

// gemini fills in what Gemini CLI documents (docs/tools/mcp-server.md):
// settings.json below .gemini, `httpUrl` for streamable HTTP, `${NAME}` in values.
func (r *Registration) gemini(o Options) {
	r.File = filepath.Join(o.root(), ".gemini", "settings.json")
	var entry jsonObject
	if o.Via == ViaHTTP {
		entry.set("httpUrl", jsonText(o.URL))
		entry.set("headers", bearer("${"+o.TokenEnv+"}"))
	} else {
		line := o.bridge()
		entry.set("command", jsonText(line[0]))
		entry.set("args", jsonTexts(line[1:]))
	}
	r.form(jsonForm{holder: "mcpServers", ways: []string{"type", "command", "args", "url", "httpUrl", "headers"}, comments: true}, entry)
}

// opencode fills in what OpenCode documents (opencode.ai/docs/config and
// /mcp-servers): opencode.json or .jsonc, of the user or in the project, servers
// under `mcp` (in its second version under `mcp.servers`), `{env:NAME}` in values.
// It refuses an entry with keys of the other type.
func (r *Registration) opencode(o Options) {
	dir := o.ProjectDir
	if o.Scope == ScopeUser {
		dir = filepath.Join(o.Home, ".config", "opencode")
		if filepath.IsAbs(o.ConfigHome) {
			dir = filepath.Join(o.ConfigHome, "opencode")
		}
	}
	r.File = filepath.Join(dir, "opencode.json")
	if other := r.File + "c"; o.Exists != nil && !o.Exists(r.File) && o.Exists(other) {
		r.File = other
	}
	if o.Scope == ScopeUser && o.OpenCodeConfig != "" {
		r.File = o.OpenCodeConfig
	}
	var entry jsonObject
	if o.Via == ViaHTTP {
		entry.set("type", jsonText("remote"))
		entry.set("url", jsonText(o.URL))
		entry.set("oauth", []byte("false")) // else it looks for a login page first
		entry.set("headers", bearer("{env:"+o.TokenEnv+"}"))
	} else {
		entry.set("type", jsonText("local"))
		entry.set("command", jsonTexts(o.bridge()))
	}
	r.form(jsonForm{holder: "mcp", nested: "servers", ways: []string{"type", "command", "url", "headers"}, comments: true,
		local: []string{"environment", "cwd"}, remote: []string{"oauth"}}, entry)
}

// root is where the files of a scope are.
func (o Options) root() string {
	if o.Scope == ScopeProject {
		return o.ProjectDir
	}
	return o.Home
}

// bearer are headers with a reference to the token.
func bearer(reference string) []byte {
	var headers jsonObject
	headers.set("Authorization", jsonText("Bearer "+reference))
	return headers.raw()
}
