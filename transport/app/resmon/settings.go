package resmon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"berth/broker/shape"
	"berth/transport/app"
)

// group is one group of settings that a tool can reach.
type group struct {
	name     string
	get, put app.Route
	nested   bool // its keys stand in the answer's "settings"
	writable []string
}

// groups are the six, with the 20 keys that a tool may change: what resmon
// says, its ceilings, what is retained and what is notified.
var groups = []group{
	{name: "ai", get: routeGetAI, put: routePutAI,
		writable: []string{"ai_model", "ai_local_model", "ai_temperature", "ai_default_models", "ai_subscription_doc_cap", "ai_effort"}},
	{name: "assistant", get: routeGetAssistant, put: routePutAssistant, writable: []string{"assistant_model", "assistant_effort"}},
	{name: "email", get: routeGetEmail, put: routePutEmail, writable: []string{"smtp_username", "smtp_from"}},
	{name: "embeddings", get: routeGetEmbeddings, put: routePutEmbeddings, nested: true,
		writable: []string{"embedding_enabled", "embedding_model", "embedding_batch_size", "embedding_dims", "embedding_input_limit"}},
	{name: "storage", get: routeGetStorage, put: routePutStorage, writable: []string{"pdf_policy", "txt_policy", "archive_after_days"}},
	{name: "notifications", get: routeGetNotifications, put: routePutNotifications, writable: []string{"notify_manual", "notify_automatic_mode"}},
}

var groupNames = func() []string {
	out := make([]string, len(groups))
	for i, g := range groups {
		out[i] = g.name
	}
	return out
}()

// withheld are the 19 keys that a tool may not change, and why: where resmon
// sends things, what it runs, where it writes, what a model is told, and
// whether a reader is told how a result was made.
var withheld = map[string]string{
	"ai_cli_path":             "names the program that resmon starts",
	"assistant_runtime":       "decides whether resmon starts a program at all",
	"ai_provider":             "chooses the host that gets the key and the prompt",
	"assistant_provider":      "chooses the host that gets the key and the prompt",
	"ai_custom_base_url":      "the address that those requests go to",
	"ai_local_endpoint":       "the address that those requests go to",
	"ai_custom_header_prefix": "names the header that carries the key to a custom address",
	"ai_chain":                "a list of fallback lanes, each with a provider of its own",
	"embedding_provider":      "chooses the host that receives corpus text for embedding",
	"embedding_endpoint":      "chooses the host that receives corpus text for embedding",
	"embedding_base_url":      "chooses the host that receives corpus text for embedding",
	"smtp_server":             "the mail server and the recipients of routine reports",
	"smtp_port":               "the mail server and the recipients of routine reports",
	"smtp_to":                 "the mail server and the recipients of routine reports",
	"export_directory":        "the folder that exports are written to",
	"ai_extraction_goals":     "what a model is told: the value goes into the summary prompt as it is",
	"ai_tone":                 "what a model is told: the value goes into the summary prompt as it is",
	"ai_summary_length":       "what a model is told: the value goes into the summary prompt as it is",
	"ai_show_audit_prefix":    "whether a reader is told that a model wrote the summary",
}

// undecided is why a key that resmon lists and this table does not know is
// withheld.
const undecided = "no decision admits it yet"

// maxEchoed bounds how many keys of a caller a refusal repeats, and how much of
// each.
const (
	maxEchoed  = 50
	maxKeyEcho = 100
)

func echoed(keys []string) []string {
	keys = slices.Sorted(slices.Values(keys))
	if len(keys) > maxEchoed {
		keys = keys[:maxEchoed]
	}
	for i, k := range keys {
		if len(k) > maxKeyEcho {
			keys[i] = strings.ToValidUTF8(k[:maxKeyEcho], "")
		}
	}
	return keys
}

// refuseCredentials looks at the names of settings before anything else is
// looked at, the group included: it has the better sentence.
func refuseCredentials(arguments app.Object) *app.Problem {
	settings, _ := app.ReadObject(app.OrNull(arguments.Get("settings")))
	var refused []string
	for _, f := range settings {
		if credentialShaped(f.Name) {
			refused = append(refused, f.Name)
		}
	}
	if refused == nil {
		return nil
	}
	return app.Invalid("Nothing was changed: a name of a setting is that of a credential. Keys, tokens and passwords are not settings; resmon keeps them in the system keychain, and they are changed in the app.",
		map[string]any{"refused_keys": echoed(refused)})
}

// withheldIn names the settings that no tool may change, with the reasons.
func withheldIn(settings app.Object) *app.Problem {
	reasons := map[string]string{}
	for _, f := range settings {
		if why, ok := withheld[f.Name]; ok {
			reasons[f.Name] = why
		}
	}
	return refuseWithheld(reasons)
}

func refuseWithheld(reasons map[string]string) *app.Problem {
	if len(reasons) == 0 {
		return nil
	}
	return app.Invalid("Nothing was changed: a tool may not change these settings, whose reasons stand in detail. They are changed in the app.", map[string]any{"withheld_keys": reasons})
}

// unlisted holds the settings against the keys that resmon lists.
func unlisted(g group, settings, listed app.Object) *app.Problem {
	var unknown []string
	reasons := map[string]string{}
	for _, f := range settings {
		switch {
		case listed.Get(f.Name) == nil:
			unknown = append(unknown, f.Name)
		case !slices.Contains(g.writable, f.Name):
			reasons[f.Name] = undecided
		}
	}
	if unknown == nil {
		return refuseWithheld(reasons)
	}
	keys := make([]string, len(listed))
	for i, f := range listed {
		keys[i] = f.Name
	}
	return app.Invalid("Nothing was changed: resmon lists no such setting in the group "+g.name+".",
		map[string]any{"unknown_keys": echoed(unknown), "group_keys": echoed(keys)})
}

// asSent gives each setting the type that resmon takes: booleans where it lists
// one, strings everywhere else.
func asSent(settings, listed app.Object) (app.Object, *app.Problem) {
	out := make(app.Object, 0, len(settings))
	for _, f := range settings {
		value := f.Value
		kind := strings.TrimSpace(string(listed.Get(f.Name)))
		if kind == "true" || kind == "false" {
			b, ok := app.Boolean(value)
			if !ok {
				return nil, app.Invalid("Nothing was changed: the setting "+f.Name+" takes true or false.", map[string]any{"setting": f.Name})
			}
			out = append(out, app.Field{Name: f.Name, Value: app.Bool(b)})
			continue
		}
		s, ok := asString(value)
		if !ok {
			return nil, app.Invalid("Nothing was changed: the setting "+f.Name+" takes a string.", map[string]any{"setting": f.Name})
		}
		out = append(out, app.Field{Name: f.Name, Value: app.Quote(s)})
	}
	return out, nil
}

// asString writes a scalar as the string that resmon keeps: numbers as written,
// null as "".
func asString(raw json.RawMessage) (string, bool) {
	if s, ok := shape.Text(raw); ok {
		return s, true
	}
	s := strings.TrimSpace(string(raw))
	switch {
	case s == "null":
		return "", true
	case s == "" || s[0] == '{' || s[0] == '[':
		return "", false
	}
	return s, true
}

// updateSettings passes the guards in their order, writes, and answers with the
// difference between what was there and what is there: the app's own answer to
// the write proves nothing.
func updateSettings(c *app.Call) (json.RawMessage, *app.Problem) {
	settings, _ := app.ReadObject(c.Raw("settings"))
	if len(settings) == 0 {
		return nil, app.Invalid("The argument settings is required: an object with at least one setting.", map[string]any{"argument": "settings"})
	}
	if problem := withheldIn(settings); problem != nil {
		return nil, problem
	}
	g := groups[slices.Index(groupNames, c.Text("group"))]
	if problem := c.Alone(); problem != nil {
		return nil, problem
	}
	before, problem := readGroup(c, g)
	if problem != nil {
		return nil, problem
	}
	if problem := unlisted(g, settings, before); problem != nil {
		return nil, problem
	}
	sent, problem := asSent(settings, before)
	if problem != nil {
		return nil, problem
	}
	body := app.Object{{Name: "settings", Value: sent.JSON()}}
	if _, problem := c.Send(app.Request{Route: g.put, Body: body.JSON()}); problem != nil {
		return nil, problem
	}
	c.Settled()
	after, problem := readGroup(c, g)
	if problem != nil {
		return nil, problem.With("put_accepted", true).With("requested", names(sent))
	}
	return difference(g, sent, before, after).JSON(), nil
}

func readGroup(c *app.Call, g group) (app.Object, *app.Problem) {
	reply, problem := c.Send(app.Request{Route: g.get})
	if problem != nil {
		return nil, problem
	}
	keys, problem := c.Object(reply)
	if problem != nil || !g.nested {
		return keys, problem
	}
	inner, ok := app.ReadObject(app.OrNull(keys.Get("settings")))
	if !ok {
		return nil, c.Unreadable("wrong_type")
	}
	return inner, nil
}

func names(o app.Object) []string {
	out := make([]string, len(o))
	for i, f := range o {
		out[i] = f.Name
	}
	slices.Sort(out)
	return out
}

// difference is what moved between two readings of a group, whoever moved it.
func difference(g group, sent, before, after app.Object) app.Object {
	var changed app.Object
	unchanged := 0
	for _, key := range names(union(before, after)) {
		from, to := app.OrNull(before.Get(key)), app.OrNull(after.Get(key))
		if same(from, to) {
			unchanged++
			continue
		}
		if credentialShaped(key) {
			from, to = app.Quote(redacted), app.Quote(redacted)
		}
		changed = append(changed, app.Field{Name: key, Value: app.Object{{Name: "from", Value: from}, {Name: "to", Value: to}}.JSON()})
	}
	return app.Object{{Name: "group", Value: app.Quote(g.name)}, {Name: "changed", Value: changed.JSON()}, {Name: "requested", Value: app.JSON(names(sent))},
		{Name: "unchanged_key_count", Value: app.Int(unchanged)}, {Name: "detail", Value: app.Quote(saysWhat(sent, before, after))}}
}

func union(a, b app.Object) app.Object {
	out := slices.Clone(a)
	for _, f := range b {
		if a.Get(f.Name) == nil {
			out = append(out, f)
		}
	}
	return out
}

func same(a, b json.RawMessage) bool {
	x, err := shape.Canonical(a)
	y, err2 := shape.Canonical(b)
	return err == nil && err2 == nil && string(x) == string(y)
}

// saysWhat tells for each requested setting whether it moved, and if not, why
// it may not have.
func saysWhat(sent, before, after app.Object) string {
	var parts []string
	for _, key := range names(sent) {
		wanted, from, to := sent.Get(key), app.OrNull(before.Get(key)), app.OrNull(after.Get(key))
		switch {
		case !same(from, to) && same(to, wanted):
			parts = append(parts, fmt.Sprintf("%s was changed.", key))
		case !same(from, to):
			parts = append(parts, fmt.Sprintf("%s changed, to another value than the one that was asked for.", key))
		case same(from, wanted):
			parts = append(parts, fmt.Sprintf("%s already had this value.", key))
		default:
			parts = append(parts, fmt.Sprintf("%s was not taken: resmon accepted the request and kept the value it had.", key))
		}
	}
	return strings.Join(parts, " ")
}
