package config

import (
	"slices"
	"strings"
)

// apps are the local apps that an entry can name, with the variables that say
// where one is.
var apps = map[string]appRules{
	"resmon": {
		env: []string{"RESMON_PORT", "RESMON_PORT_FILE", "RESMON_DB_PATH", "RESMON_STATE_DIR", "RESMON_MCP_READ_ONLY"},
		// Its verbs take little and its own limits are low.
		seats: 4,
	},
}

type appRules struct {
	env   []string
	seats int // max_in_flight where the entry does not say it
}

// AppSettings are the settings of an entry that says nothing but its app.
func AppSettings(app string) Settings {
	s := DefaultSettings()
	s.App = app
	if rules, ok := apps[app]; ok {
		s.MaxInFlight = rules.seats
	}
	return s
}

// notOfApps are the keys of `berth` that say what an app's contract says, so
// that an entry cannot.
var notOfApps = []string{"instances", "promote_after", "long", "verbs", "trust_annotations", "effects", "pin", "handshake", "max_answer", "headers_command", "headers_ttl", "headers_timeout"}

// appOf gives the app that an entry names, or "".
func (e *entry) appOf() string {
	n := e.fields["berth"]
	if n == nil || n.kind != object {
		return ""
	}
	if app := find(n, "app"); app != n && app.kind == text {
		return app.text
	}
	return ""
}

// app reads an entry of a local app: nothing but its variables.
func (e *entry) app(rules appRules) {
	b := &e.backend
	b.Kind = App
	for _, key := range []string{"command", "url", "type"} {
		if n := e.fields[key]; n != nil {
			e.refuse(n, "%s and app do not go together: an app is found by its variables", key)
		}
	}
	for _, m := range e.fields["berth"].members {
		if slices.Contains(notOfApps, m.key) {
			e.refuseKey(m, "%s means nothing for an app: its contract says it", m.key)
		}
	}
	if n := e.fields["env"]; n != nil {
		b.Env = e.secrets(n, func(m member) bool {
			if !slices.Contains(rules.env, m.key) {
				e.refuseKey(m, "%s is no variable of %s; they are %s", quote(m.key), b.Settings.App, strings.Join(rules.env, ", "))
				return false
			}
			return true
		}, plainHeaderValue)
	}
	e.stray("args", "cwd", "headers")
}

// checkApps refuses a second app without variables of its own: both would be
// found by those of the process, and so be one.
func (c *Config) checkApps(r *report, entries map[string]*node) {
	first := map[string]string{}
	for _, b := range c.Backends {
		if b.Kind != App || b.Env != nil || b.Settings.Disabled {
			continue
		}
		if other := first[b.Settings.App]; other != "" {
			r.refuse(entries[b.Name], "neither this backend nor %s has an env of its own, so both would be the one %s that the broker's environment names",
				quote(other), b.Settings.App)
			continue
		}
		first[b.Settings.App] = b.Name
	}
}
