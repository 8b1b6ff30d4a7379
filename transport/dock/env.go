//go:build unix

package dock

import (
	"strings"

	"berth/actors/missions"
	"berth/broker/dispatch"
	"berth/broker/dispatch/runtime"
)

// providers names, for each runtime, the variables of a provider's key and of
// its address. Those of OpenCode follow from the model.
var providers = map[dispatch.Runtime]struct{ keys, addresses []string }{
	dispatch.ClaudeCode: {[]string{"ANTHROPIC_API_KEY"}, []string{"ANTHROPIC_BASE_URL"}},
	dispatch.Codex:      {[]string{"OPENAI_API_KEY", "CODEX_API_KEY"}, []string{"OPENAI_BASE_URL"}},
	dispatch.Gemini:     {[]string{"GEMINI_API_KEY"}, []string{"GOOGLE_GEMINI_BASE_URL"}},
	dispatch.Cursor:     {[]string{"CURSOR_API_KEY"}, nil},
	dispatch.Custom:     {[]string{"CAPTAIN_API_KEY"}, []string{"CAPTAIN_API_BASE_URL"}},
}

// openCodeKeys names the variable of a provider's key by the part of a model's
// name that stands before the slash.
var openCodeKeys = map[string]string{
	"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "google": "GOOGLE_GENERATIVE_AI_API_KEY",
	"openrouter": "OPENROUTER_API_KEY", "": "OPENCODE_API_KEY", "opencode": "OPENCODE_API_KEY",
}

// provider are the entries with a captain's key and address. unused says that it
// has an address that its program is told in no way.
func provider(c dispatch.Captain, key string) (entries []string, unused bool) {
	names := providers[c.Runtime]
	if c.Runtime == dispatch.OpenCode {
		vendor := runtime.Vendor(c)
		if name, known := openCodeKeys[vendor]; known {
			names.keys = []string{name}
		} else {
			names.keys = []string{strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(vendor)) + "_API_KEY"}
		}
	}
	if key != "" {
		for _, name := range names.keys {
			entries = append(entries, name+"="+key)
		}
	}
	if c.APIBaseURL == nil || *c.APIBaseURL == "" {
		return entries, false
	}
	for _, name := range names.addresses {
		entries = append(entries, name+"="+*c.APIBaseURL)
	}
	inFile := c.Runtime == dispatch.OpenCode && runtime.Vendor(c) != ""
	return entries, len(names.addresses) == 0 && !inFile
}

// identity is who commits where nobody is configured.
var identity = []string{"GIT_AUTHOR_NAME=Berth", "GIT_AUTHOR_EMAIL=berth@localhost", "GIT_COMMITTER_NAME=Berth", "GIT_COMMITTER_EMAIL=berth@localhost"}

// about tells an agent what it works on, and what it authenticates with.
func about(w missions.Work, token string) []string {
	voyage := ""
	if w.Mission.VoyageID != nil {
		voyage = *w.Mission.VoyageID
	}
	entries := []string{"BERTH_MISSION_ID=" + w.Mission.ID, "BERTH_VOYAGE_ID=" + voyage, "BERTH_VESSEL_ID=" + w.Vessel.ID}
	if token != "" {
		entries = append(entries, runtime.TokenVariable+"="+token)
	}
	return entries
}
