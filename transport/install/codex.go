package install

import (
	"path/filepath"
	"strings"
)

// codex fills in what Codex documents: `codex mcp add`, `[mcp_servers.NAME]`
// in config.toml with command and args, or url and bearer_token_env_var.
func (r *Registration) codex(o Options) {
	switch {
	case o.Scope == ScopeProject:
		r.File = filepath.Join(o.ProjectDir, ".codex", "config.toml")
		r.Notes = append(r.Notes, "Codex reads a project's file only when the project is trusted.")
	case o.CodexHome != "":
		r.File = filepath.Join(o.CodexHome, "config.toml")
	default:
		r.File = filepath.Join(o.Home, ".codex", "config.toml")
	}
	var ours []tomlLine
	if o.Via == ViaHTTP {
		r.Command = shellLine([]string{"codex", "mcp", "add", entryName, "--url", o.URL, "--bearer-token-env-var", o.TokenEnv})
		ours = []tomlLine{{"url", o.URL, tomlText(o.URL)}, {"bearer_token_env_var", o.TokenEnv, tomlText(o.TokenEnv)}}
	} else {
		line := o.bridge()
		r.Command = shellLine(append([]string{"codex", "mcp", "add", entryName, "--"}, line...))
		var texts []string
		var values []any
		for _, arg := range line[1:] {
			texts, values = append(texts, tomlText(arg)), append(values, arg)
		}
		ours = []tomlLine{{"command", line[0], tomlText(line[0])}, {"args", values, "[" + strings.Join(texts, ", ") + "]"}}
	}
	if o.Scope == ScopeProject {
		r.Command = "" // `codex mcp add` knows the user's file only
	}
	r.Snippet = tableText(ours, "\n")
	r.find = findTOML
	r.edit = func(old []byte) ([]byte, error) { return editTOML(old, ours) }
}
