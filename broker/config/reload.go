package config

import (
	"reflect"
	"slices"
)

// Effect is what it takes to apply a changed setting to a running broker.
type Effect uint8

// The effects, each stronger than the one before it.
const (
	// AtOnce: the next call, list or start goes by it; nothing is interrupted.
	AtOnce Effect = iota + 1
	// NewLife: the backend drains and starts anew.
	NewLife
	// NeedsRestart: it stays as it is until the broker starts again.
	NeedsRestart
)

func (e Effect) String() string {
	switch e {
	case AtOnce:
		return "at once"
	case NewLife:
		return "new life"
	case NeedsRestart:
		return "restart"
	}
	return "unclassed"
}

// effects is what every setting takes, by the struct that holds it and its key.
// A test walks the structs and asks for each of their fields, and that a setting
// which holds structs is classed as strongly as any field of theirs.
var effects = map[string]Effect{
	"Config.berth":      AtOnce, // its keys are classed below
	"Config.mcpServers": AtOnce, // see Reload

	"Broker.listen":                NeedsRestart,
	"Broker.allowed_hosts":         NeedsRestart,
	"Broker.access":                AtOnce,
	"Broker.drain_timeout":         AtOnce,
	"Broker.max_sessions":          NeedsRestart,
	"Broker.max_calls_per_session": NeedsRestart,
	"Broker.max_streams":           NeedsRestart,
	"Broker.max_body":              NeedsRestart,
	"Broker.max_bytes_in_flight":   NeedsRestart,
	"Broker.log_level":             AtOnce,
	"Broker.clients":               AtOnce,
	"Broker.profiles":              AtOnce,
	"Broker.proofs":                NeedsRestart,
	"Broker.harness_prefixes":      AtOnce,
	"Broker.hold":                  AtOnce,
	"Broker.agent_wake":            NeedsRestart,
	"Broker.dispatch":              NeedsRestart,

	"Broker.tracing": NeedsRestart,

	"Tracing.endpoint": NeedsRestart,
	"Tracing.headers":  NeedsRestart,
	"Tracing.sample":   NeedsRestart,

	"HoldRules.verbs": AtOnce,

	"Dispatch.stall_after":     NeedsRestart,
	"Dispatch.mission_timeout": NeedsRestart,
	"Dispatch.max_agents":      NeedsRestart,
	"Dispatch.deliver_mcp":     NeedsRestart,
	"Dispatch.unattended":      NeedsRestart,
	"Dispatch.env":             NeedsRestart,
	"Dispatch.max_log":         NeedsRestart,

	"Dispatch.captain_search":                       NeedsRestart,
	"Dispatch.captain_search_max_results":           NeedsRestart,
	"Dispatch.captain_search_max_calls_per_mission": NeedsRestart,

	"AgentWake.participant_key":   NeedsRestart,
	"AgentWake.delivery_mode":     NeedsRestart,
	"AgentWake.runtime":           NeedsRestart,
	"AgentWake.session_id":        NeedsRestart,
	"AgentWake.command":           NeedsRestart,
	"AgentWake.working_directory": NeedsRestart,

	"ClientRule.promote_after": AtOnce,
	"ClientRule.max_answer":    AtOnce,

	"ProfileRule.read_only":           AtOnce,
	"ProfileRule.select":              AtOnce,
	"ProfileRule.exclude":             AtOnce,
	"ProfileRule.required":            AtOnce,
	"ProfileRule.preset":              AtOnce,
	"ProfileRule.max_tools":           AtOnce,
	"ProfileRule.max_tokens":          AtOnce,
	"ProfileRule.instructions_tokens": AtOnce,
	"ProfileRule.result_tokens":       AtOnce,
	"ProfileRule.token_factor":        AtOnce,
	"ProfileRule.count_tokens":        AtOnce,
	"ProfileRule.envelope":            AtOnce,
	"ProfileRule.guidance":            AtOnce,
	"SelectorRule.verb":               AtOnce,
	"SelectorRule.backend":            AtOnce,
	"SelectorRule.surface":            AtOnce,
	"SelectorRule.family":             AtOnce,
	"SelectorRule.effects":            AtOnce,

	// Marks that were given count by the rules that they were given under.
	"ProofRules.enabled":  NeedsRestart,
	"ProofRules.kinds":    NeedsRestart,
	"ProofRules.grants":   NeedsRestart,
	"ProofRules.needs":    NeedsRestart,
	"ProofKind.canonical": NeedsRestart,
	"ProofKind.base":      NeedsRestart,
	"ProofKind.ttl":       NeedsRestart,
	"ProofKind.one_shot":  NeedsRestart,
	"ProofKind.bind":      NeedsRestart,
	"ProofGrant.verb":     NeedsRestart,
	"ProofGrant.kind":     NeedsRestart,
	"ProofGrant.targets":  NeedsRestart,
	"ProofGrant.on":       NeedsRestart,
	"ProofGrant.when":     NeedsRestart,
	"ProofGrant.version":  NeedsRestart,
	"ProofNeed.verb":      NeedsRestart,
	"ProofNeed.kind":      NeedsRestart,
	"ProofNeed.targets":   NeedsRestart,
	"ProofNeed.version":   NeedsRestart,

	// Of a verb's effects; those of proofs go by the setting that holds them.
	"ConditionRule.at":    AtOnce,
	"ConditionRule.op":    AtOnce,
	"ConditionRule.value": AtOnce,

	"Backend.type":    NewLife,
	"Backend.command": NewLife,
	"Backend.args":    NewLife,
	"Backend.env":     NewLife,
	"Backend.cwd":     NewLife,
	"Backend.url":     NewLife,
	"Backend.headers": NewLife,
	"Backend.berth":   AtOnce, // its keys are classed below

	"Settings.app":               NewLife,
	"Settings.disabled":          NewLife, // in fact the backend goes or comes
	"Settings.read_only":         AtOnce,
	"Settings.start":             AtOnce,
	"Settings.instances":         NewLife,
	"Settings.max_in_flight":     AtOnce,
	"Settings.max_queued":        AtOnce,
	"Settings.max_queued_jobs":   AtOnce,
	"Settings.queue_timeout":     AtOnce,
	"Settings.start_timeout":     AtOnce,
	"Settings.call_timeout":      AtOnce,
	"Settings.idle_timeout":      AtOnce,
	"Settings.promote_after":     AtOnce,
	"Settings.long":              AtOnce,
	"Settings.verbs":             AtOnce,
	"Settings.trust_annotations": AtOnce,
	"Settings.essential":         AtOnce,
	"Settings.pin":               AtOnce,
	"Settings.instructions":      AtOnce,
	"Settings.guidance":          AtOnce,
	"Settings.effects":           AtOnce,
	// The connection is made with these.
	"Settings.max_answer":      NewLife,
	"Settings.cancel_grace":    NewLife,
	"Settings.handshake":       NewLife,
	"Settings.headers_command": NewLife,
	"Settings.headers_ttl":     NewLife,
	"Settings.headers_timeout": NewLife,

	"EffectRule.verb": AtOnce,
	"EffectRule.is":   AtOnce,
	"EffectRule.when": AtOnce,

	"VerbRule.rank":          AtOnce,
	"VerbRule.keywords":      AtOnce,
	"VerbRule.seats":         AtOnce,
	"VerbRule.tracks":        AtOnce, // of jobs that begin after it
	"VerbRule.stale_after":   AtOnce, // of jobs that begin after it
	"VerbRule.promote_after": AtOnce,
	"VerbRule.call_timeout":  AtOnce,
	"VerbRule.result_tokens": AtOnce,
	"VerbRule.require_task":  AtOnce,
	"TrackRule.handle":       AtOnce,
	"TrackRule.verb":         AtOnce,
	"TrackRule.argument":     AtOnce,
	"TrackRule.status":       AtOnce,
	"TrackRule.running":      AtOnce,
	"TrackRule.succeeded":    AtOnce,
	"TrackRule.failed":       AtOnce,
	"TrackRule.cancelled":    AtOnce,
	"TrackRule.lost":         AtOnce,
	"TrackRule.result":       AtOnce,
	"TrackRule.message":      AtOnce,
}

// EffectOf says what a setting takes, by the name of its struct and its key; 0
// is a setting that nobody has classed.
func EffectOf(structName, key string) Effect { return effects[structName+"."+key] }

// Changes is what becomes of a running broker when it takes another
// configuration. It names settings and holds no value.
type Changes struct {
	// Broker are the keys of `berth` that apply at once.
	Broker []string
	// Backends are those that come, go or change; Unchanged the others.
	Backends  []BackendChange
	Unchanged []string
	// NeedsRestart are the keys of `berth` that stay as they are.
	NeedsRestart []string
}

// BackendChange is what becomes of one backend.
type BackendChange struct {
	Name string
	How  How
	// Keys are the settings that changed, of one that stays.
	Keys []string
}

// How a backend changes.
type How string

// The ways. A backend that is switched off counts as removed.
const (
	Added   How = "added"
	Removed How = "removed"
	Renewed How = "renewed" // it drains and starts anew
	Adapted How = "adapted" // its life goes on under other limits and rules
)

// Reload compares the configuration in force with another one. effective is
// what is in force after the change: next, where nothing of it needs a restart.
func Reload(inForce, next *Config) (effective *Config, changes Changes) {
	out := *next
	changes.Broker, changes.NeedsRestart = reloadBroker(&inForce.Broker, &out.Broker)
	before, after := enabled(inForce), enabled(next)
	for _, b := range next.Backends {
		was, had := before[b.Name]
		now, has := after[b.Name]
		switch {
		case !has && had:
			changes.Backends = append(changes.Backends, BackendChange{Name: b.Name, How: Removed})
		case !has:
			changes.Unchanged = append(changes.Unchanged, b.Name)
		case !had:
			changes.Backends = append(changes.Backends, BackendChange{Name: b.Name, How: Added})
		default:
			if c := compare(was, now); c.How == "" {
				changes.Unchanged = append(changes.Unchanged, b.Name)
			} else {
				changes.Backends = append(changes.Backends, c)
			}
		}
	}
	for _, b := range inForce.Backends {
		listed := slices.ContainsFunc(next.Backends, func(n Backend) bool { return n.Name == b.Name })
		if _, had := before[b.Name]; had && !listed {
			changes.Backends = append(changes.Backends, BackendChange{Name: b.Name, How: Removed})
		}
	}
	return &out, changes
}

func enabled(c *Config) map[string]Backend {
	out := map[string]Backend{}
	for _, b := range c.Backends {
		if !b.Settings.Disabled {
			out[b.Name] = b
		}
	}
	return out
}

// reloadBroker keeps in next what cannot change.
func reloadBroker(inForce, next *Broker) (applied, needsRestart []string) {
	was, now := reflect.ValueOf(inForce).Elem(), reflect.ValueOf(next).Elem()
	eachKey(now.Type(), func(i int, key string) {
		if same(was.Field(i), now.Field(i)) {
			return
		}
		if EffectOf("Broker", key) == AtOnce {
			applied = append(applied, key)
			return
		}
		needsRestart = append(needsRestart, key)
		now.Field(i).Set(was.Field(i))
	})
	return applied, needsRestart
}

// compare says what becomes of a backend that stays; without a How nothing does.
func compare(was, now Backend) BackendChange {
	c := BackendChange{Name: now.Name}
	note := func(e Effect, key string) {
		c.Keys = append(c.Keys, key)
		// An app is its own settings: it is cheap to attach to again, and what it
		// was made with cannot be taken back.
		if e != AtOnce || now.Kind == App {
			c.How = Renewed
		} else if c.How == "" {
			c.How = Adapted
		}
	}
	before, after := reflect.ValueOf(was), reflect.ValueOf(now)
	eachKey(after.Type(), func(i int, key string) {
		if key != "berth" && !same(before.Field(i), after.Field(i)) {
			note(EffectOf("Backend", key), key)
		}
	})
	if now.Kind == App && (was.Env == nil) != (now.Env == nil) && len(was.Env)+len(now.Env) == 0 {
		note(NewLife, "env") // without the key an app is found by the broker's own environment
	}
	before, after = reflect.ValueOf(was.Settings), reflect.ValueOf(now.Settings)
	eachKey(after.Type(), func(i int, key string) {
		if !same(before.Field(i), after.Field(i)) {
			note(EffectOf("Settings", key), key)
		}
	})
	return c
}

// eachKey calls f for each field of a struct that the file can hold.
func eachKey(t reflect.Type, f func(i int, key string)) {
	for i := range t.NumField() {
		if key, ok := t.Field(i).Tag.Lookup("key"); ok {
			f(i, key)
		}
	}
}

// same compares deeply, behind the pointers of secrets too. What is empty is as
// good as absent.
func same(a, b reflect.Value) bool {
	if k := a.Kind(); (k == reflect.Map || k == reflect.Slice) && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
