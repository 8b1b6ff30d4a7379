package config

import (
	"path"
	"reflect"
	"slices"
	"strings"

	"berth/broker/catalog"
	"berth/broker/condition"
)

// conventionKeys are the keys of an entry that Berth reads; the rest belongs
// to other programs.
var conventionKeys = map[string]bool{"type": true, "command": true, "args": true, "env": true, "cwd": true,
	"url": true, "headers": true, "disabled": true, "berth": true}

// entry reads one entry of `mcpServers`.
type entry struct {
	*report
	expander expander
	backend  Backend
	node     *node
	fields   map[string]*node // the keys that Berth reads, nulls left out
	dropped  map[string]bool  // the other keys
}

// parseEntry gives the backend of one member of `mcpServers`; it is whole only
// when nothing was refused.
func parseEntry(r *report, m member, env func(string) (string, bool)) Backend {
	e := &entry{report: r, expander: expander{env: env, report: r}, node: m.value,
		backend: Backend{Name: m.key, Settings: DefaultSettings()}}
	if err := checkName(m.key); err != nil {
		r.refuseKey(m, "%s %v", quote(m.key), err)
	}
	if m.value.kind != object {
		r.refuse(m.value, "must be an object, not %s", m.value.kind)
		return e.backend
	}
	e.fields, e.dropped = fields(r, m.value, conventionKeys)
	name := e.appOf()
	app, isApp := apps[name]
	if isApp {
		e.backend.Settings.MaxInFlight = app.seats
	}
	e.settings()
	e.expander.off = e.backend.Settings.Disabled
	if isApp {
		e.app(app)
	}
	if name != "" { // one that is none was refused with the settings
		return e.backend
	}
	switch e.kind() {
	case Stdio:
		e.stdio()
	case HTTP:
		e.http()
	}
	return e.backend
}

// fields splits an object into the keys that are read and the names of those
// that are passed over. A null counts as absent.
func fields(r *report, n *node, known map[string]bool) (read map[string]*node, dropped map[string]bool) {
	read, dropped = map[string]*node{}, map[string]bool{}
	seen := map[string]bool{}
	for _, m := range n.members {
		switch {
		case !known[m.key]:
			dropped[m.key] = true
			r.note(m, "passed over: Berth does not read this key")
		case seen[m.key]:
			r.refuseKey(m, "this key stands here twice")
		case m.value.kind != null:
			read[m.key] = m.value
		}
		seen[m.key] = true
	}
	return read, dropped
}

func (e *entry) settings() {
	s := &e.backend.Settings
	if n := e.fields["berth"]; n != nil {
		decoder{e.report}.object(n, reflect.ValueOf(s).Elem())
		e.seats(n)
		e.effects(n)
	}
	if n := e.fields["disabled"]; n != nil {
		var off bool
		decoder{e.report}.value(n, reflect.ValueOf(&off).Elem(), "")
		s.Disabled = s.Disabled || off
	}
}

// seats refuses a verb that could never run.
func (e *entry) seats(berth *node) {
	for _, rule := range e.backend.Settings.Verbs {
		if rule.Seats > e.backend.Settings.MaxInFlight {
			e.refuse(find(berth, "verbs", rule.Glob, "seats"), "%d seats are more than max_in_flight (%d), so the verb could never run", rule.Seats, e.backend.Settings.MaxInFlight)
		}
	}
}

// effects refuses rules whose conditions could not be asked, or that widen.
func (e *entry) effects(berth *node) {
	var rules []catalog.EffectRule
	at := find(berth, "effects")
	for i, r := range e.backend.Settings.Effects {
		e.conditions(at, i, r.When)
		conditions, err := r.Conditions()
		if err != nil {
			return // said, or refused while it was decoded
		}
		rules = append(rules, catalog.EffectRule{Verb: r.Verb, When: conditions, Is: r.Is})
	}
	if i, why, ok := catalog.CheckEffectRules(rules); !ok {
		e.refuse(at.items[i], "%s", why)
	}
}

// conditions refuses those of the i-th rule of a list that could not be asked.
func (r *report) conditions(rules *node, i int, when []ConditionRule) {
	if rules.kind != list || i >= len(rules.items) {
		return
	}
	at := find(rules.items[i], "when")
	for k, w := range when {
		if at.kind == list && k < len(at.items) && w.At != "" && w.Op != "" {
			if _, err := condition.Parse(w.At, w.Op, w.Value); err != nil {
				r.refuse(at.items[k], "%v", err)
			}
		}
	}
}

// find walks down from n by keys; it stops where a key is missing.
func find(n *node, keys ...string) *node {
	for _, key := range keys {
		i := slices.IndexFunc(n.members, func(m member) bool { return m.key == key })
		if i < 0 {
			return n
		}
		n = n.members[i].value
	}
	return n
}

// kind decides between the two kinds; it is empty when the entry is neither.
func (e *entry) kind() Kind {
	command, url := e.fields["command"] != nil, e.fields["url"] != nil
	word := ""
	if n := e.fields["type"]; n != nil {
		if n.kind != text {
			e.refuse(n, "must be text, not %s", n.kind)
			return ""
		}
		word = n.text
	}
	switch word {
	case "stdio":
		return e.settle(Stdio, command, "stdio needs a command", url, "url")
	case "http", "streamable-http", "streamableHttp":
		return e.settle(HTTP, url, word+" needs a url", command, "command")
	case "sse":
		e.refuse(e.fields["type"], "the old HTTP+SSE transport is not supported; when the server also speaks streamable HTTP, give that url with type http")
		return ""
	case "":
	default:
		e.refuse(e.fields["type"], "%s must be one of stdio, http, streamable-http", quote(word))
		return ""
	}
	switch {
	case command && url:
		e.refuse(e.node, "has both a command and a url; a backend is one or the other")
		return ""
	case command:
		return Stdio
	case url:
		return HTTP
	}
	hint := ""
	for _, other := range []string{"serverUrl", "httpUrl"} {
		if e.dropped[other] {
			hint = "; write " + other + " as url, with type http"
		}
	}
	e.refuse(e.node, "needs a command (a program to start), a url (a streamable HTTP endpoint) or a local app (app, in its berth object)%s", hint)
	return ""
}

func (e *entry) settle(k Kind, has bool, missing string, hasOther bool, other string) Kind {
	switch {
	case !has:
		e.refuse(e.node, "%s", missing)
		return ""
	case hasOther:
		e.refuse(e.node, "type %s and %s do not go together", k, other)
		return ""
	}
	return k
}

// stray notes keys of the other kind, which do nothing.
func (e *entry) stray(keys ...string) {
	for _, m := range e.node.members {
		for _, key := range keys {
			if m.key == key && m.value.kind != null {
				e.note(m, "passed over: %s means nothing for a backend of type %s", key, e.backend.Kind)
			}
		}
	}
}

func (e *entry) stdio() {
	b := &e.backend
	b.Kind = Stdio
	if s, ok := e.text(e.fields["command"]); ok {
		b.Command = s
		if s == "" {
			e.refuse(e.fields["command"], "must name a program")
		}
	}
	if n := e.fields["args"]; n != nil {
		if n.kind != list {
			e.refuse(n, "must be a list, not %s", n.kind)
		}
		for _, item := range n.items {
			if s, ok := e.text(item); ok {
				b.Args = append(b.Args, NewSecret(s))
			}
		}
	}
	if n := e.fields["cwd"]; n != nil {
		b.Cwd, _ = e.text(n)
	}
	b.Env = e.secrets(e.fields["env"], func(m member) bool {
		if m.key == "" || strings.ContainsAny(m.key, "=\x00") {
			e.refuseKey(m, "%s cannot name an environment variable", quote(m.key))
			return false
		}
		return true
	}, nil)
	e.stray("headers")
	for _, m := range e.ofHeaders() {
		e.refuseKey(m, "%s means nothing for a backend of type %s", m.key, b.Kind)
	}
}

func (e *entry) http() {
	b := &e.backend
	b.Kind = HTTP
	n := e.fields["url"]
	if s, ok := e.text(n); ok {
		if _, err := parseURL(s); err != nil && !e.expander.off {
			e.refuse(n, "the url %v", err)
		}
		b.URL = NewSecret(s)
	}
	seen := map[string]bool{}
	b.Headers = e.secrets(e.fields["headers"], func(m member) bool {
		why, habit := headerFault(m.key, seen)
		switch {
		case habit:
			e.note(m, "passed over: Berth sets this header itself")
		case why != "":
			e.refuseKey(m, "%s", why)
		}
		return !habit && why == ""
	}, plainHeaderValue)
	e.headersCommand()
	e.stray("args", "env", "cwd")
}

// headersCommand reads the command that gives headers.
func (e *entry) headersCommand() {
	members := e.ofHeaders()
	i := slices.IndexFunc(members, func(m member) bool { return m.key == "headers_command" })
	if i < 0 {
		for _, m := range members {
			e.refuseKey(m, "%s means nothing without a headers_command", m.key)
		}
		return
	}
	n := members[i].value
	if n.kind != list {
		return // that has been said
	}
	command := SecretList{}
	for _, item := range n.items {
		if s, ok := e.text(item); ok {
			command = append(command, NewSecret(s))
		}
	}
	switch {
	case len(n.items) == 0:
		e.refuse(n, "must name a program and may have its arguments after it")
	case len(command) == len(n.items) && command[0].Empty():
		e.refuse(n.items[0], "must name a program")
	}
	e.backend.Settings.HeadersCommand = command
}

// ofHeaders gives the keys of `berth` that are about a command for headers.
func (e *entry) ofHeaders() (members []member) {
	if berth := e.fields["berth"]; berth != nil {
		for _, m := range berth.members {
			if strings.HasPrefix(m.key, "headers_") {
				members = append(members, m)
			}
		}
	}
	return members
}

// secrets reads an object of texts. wanted judges each member's key, valid its
// value.
func (e *entry) secrets(n *node, wanted func(member) bool, valid func(string) bool) SecretMap {
	out := SecretMap{}
	if n == nil {
		return out
	}
	if n.kind != object {
		e.refuse(n, "must be an object, not %s", n.kind)
	}
	for _, m := range n.members {
		if !wanted(m) {
			continue
		}
		if _, twice := out[m.key]; twice {
			e.refuseKey(m, "this key stands here twice")
			continue
		}
		s, ok := e.text(m.value)
		if ok && valid != nil && !valid(s) {
			e.refuse(m.value, "the value holds a control character")
			ok = false
		}
		if ok {
			out[m.key] = NewSecret(s)
		}
	}
	return out
}

// text gives the expanded text of n. Numbers and truth values count as the
// text they were written as: YAML writers leave the quotes out.
func (e *entry) text(n *node) (string, bool) {
	switch n.kind {
	case text, number, boolean:
	default:
		e.refuse(n, "must be text, not %s", n.kind)
		return "", false
	}
	before := len(e.problems)
	s := e.expander.expand(n, n.text)
	if len(e.problems) > before {
		return "", false
	}
	if strings.ContainsRune(s, 0) {
		e.refuse(n, "the value holds a control character")
		return "", false
	}
	return s, true
}

// ownEntry recognises what `berth install` writes: this broker's registration
// in a file that is also its configuration.
func ownEntry(m member) bool {
	if m.key != "berth" || m.value.kind != object {
		return false
	}
	if command := find(m.value, "command"); command.kind == text {
		program := strings.TrimSuffix(path.Base(strings.ReplaceAll(command.text, `\`, "/")), ".exe")
		args := find(m.value, "args")
		return program == "berth" && len(args.items) > 0 && args.items[0].text == "stdio"
	}
	return strings.Contains(find(m.value, "headers", "Authorization").text, "${BERTH_TOKEN}")
}
