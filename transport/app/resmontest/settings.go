package resmontest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// setting is a key with its value, in the order of its group.
type setting struct {
	key   string
	value any
}

// settingKeys are the 39 keys. Those whose value is planted must not be shown.
var settingKeys = map[string][]setting{
	"ai": {
		{"ai_provider", ""}, {"ai_model", ""}, {"ai_local_model", ""}, {"ai_summary_length", ""}, {"ai_tone", Planted}, {"ai_extraction_goals", Planted}, {"ai_temperature", ""},
		{"ai_show_audit_prefix", ""}, {"ai_custom_base_url", "https://" + Planted + ".example/v1"}, {"ai_custom_header_prefix", Planted}, {"ai_default_models", ""}, {"ai_chain", ""},
		{"ai_local_endpoint", "http://10.0.0.7/" + Planted}, {"ai_cli_path", "/opt/" + Planted + "/bin"}, {"ai_subscription_doc_cap", ""}, {"ai_effort", ""},
	},
	"assistant": {{"assistant_runtime", ""}, {"assistant_provider", ""}, {"assistant_model", ""}, {"assistant_effort", ""}},
	"email":     {{"smtp_server", Planted + ".example.org"}, {"smtp_port", ""}, {"smtp_username", ""}, {"smtp_from", ""}, {"smtp_to", Planted + "@example.org"}},
	"embeddings": {
		{"embedding_enabled", ""}, {"embedding_provider", "local"}, {"embedding_model", embeddingModel}, {"embedding_endpoint", "http://10.0.0.7/" + Planted}, {"embedding_base_url", "https://" + Planted + ".example"},
		{"embedding_batch_size", ""}, {"embedding_dims", ""}, {"embedding_input_limit", ""},
	},
	"storage":       {{"pdf_policy", ""}, {"txt_policy", ""}, {"archive_after_days", ""}, {"export_directory", "/home/user/" + Planted}},
	"notifications": {{"notify_manual", true}, {"notify_automatic_mode", "none"}},
}

// SettingKeys lists the keys of each group.
func SettingKeys() map[string][]string {
	out := map[string][]string{}
	for group, list := range settingKeys {
		for _, s := range list {
			out[group] = append(out[group], s.key)
		}
	}
	return out
}

func (w *world) makeSettings() {
	w.settings = map[string][]setting{}
	for group, list := range settingKeys {
		w.settings[group] = slices.Clone(list)
	}
	if w.options.Stamp != "" {
		w.set("email", "smtp_username", w.options.Stamp)
		w.set("ai", "ai_model", w.options.Stamp)
	}
}

// set changes a key that the group has, and reports whether it has.
func (w *world) set(group, key string, value any) bool {
	i := slices.IndexFunc(w.settings[group], func(s setting) bool { return s.key == key })
	if i >= 0 {
		w.settings[group][i].value = value
	}
	return i >= 0
}

// SetSetting gives a key a value, and adds it to its group if it is new there.
func (f *Fake) SetSetting(group, key string, value any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.world.set(group, key, value) {
		f.world.settings[group] = append(f.world.settings[group], setting{key, value})
	}
}

// Setting is the value of a key; nil where the group does not have it.
func (f *Fake) Setting(group, key string) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.world.settings[group] {
		if s.key == key {
			return s.value
		}
	}
	return nil
}

func getSettings(group string) handler {
	return func(w *world, _ *request) answer {
		values := object{}
		for _, s := range w.settings[group] {
			values[s.key] = s.value
		}
		if group != "embeddings" {
			return ok(values)
		}
		return ok(object{"settings": values,
			"providers":  []object{{"id": "local", "name": "On this machine"}, {"id": "openai", "name": "OpenAI"}},
			"lane":       object{"provider": "local", "model": embeddingModel},
			"capability": object{"extension": true, "reason": nil},
			"status":     object{"embedded": countOf(w.documents, func(d *document) bool { return d.embedded }), "total": len(w.documents)}})
	}
}

var settingsModel = []field{{name: "settings", kind: dict, required: true}}

func putSettings(group string) handler {
	return func(w *world, r *request) answer {
		body, bad := read(r.body, settingsModel)
		if bad != nil {
			return *bad
		}
		given := body["settings"].(object)
		if mode, there := given["notify_automatic_mode"]; there && group == "notifications" && !slices.Contains([]any{"all", "selected", "none"}, mode) {
			return plain(http.StatusBadRequest, "notify_automatic_mode must be 'all', 'selected', or 'none'")
		}
		if provider, there := given["embedding_provider"]; there && group == "embeddings" && !slices.Contains([]any{"", "local", "openai"}, provider) {
			return plain(http.StatusBadRequest, "%s cannot embed.", quoted(fmt.Sprint(provider)))
		}
		for key, value := range given {
			if slices.Contains(r.ignoredKeys, key) {
				continue
			}
			if key == "notify_manual" && group == "notifications" {
				w.set(group, key, truthy(value))
			} else {
				w.set(group, key, spelled(value))
			}
		}
		r.applied = true
		return ok(object{"success": true})
	}
}

// truthy is how resmon reads a boolean setting: any text but the empty one is true.
func truthy(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case string:
		return v != ""
	case json.Number:
		return strings.Trim(v.String(), "0.-") != ""
	case nil:
		return false
	}
	return true
}

// spelled is how resmon stores any other setting: as text.
func spelled(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		if v {
			return "True"
		}
		return "False"
	case nil:
		return ""
	case json.Number:
		return v.String()
	}
	return string(encode(v))
}
