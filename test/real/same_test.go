package real

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

type toolCall struct {
	tool      string
	arguments string
	isError   bool // the server itself answers with an error
	misfit    bool // the arguments do not fit the schema: refused before the server in the merged profile
}

// calls has at least one call of each tool. A tool that changes its server's
// state is called as often as brings it back.
var calls = []toolCall{
	{tool: "echo", arguments: `{"message":"a <b> & \"c\" é 日本 😀 \u2028 \n"}`},
	{tool: "echo", arguments: `{"message":"` + strings.Repeat("0123456789abcdef", 1<<14) + `"}`},
	{tool: "get-annotated-message", arguments: `{"messageType":"error","includeImage":true}`},
	{tool: "get-annotated-message", arguments: `{"messageType":"debug"}`},
	{tool: "get-env", arguments: `{}`},
	{tool: "get-resource-links", arguments: `{"count":4}`},
	{tool: "get-resource-reference", arguments: `{"resourceType":"Text","resourceId":7}`},
	{tool: "get-resource-reference", arguments: `{"resourceType":"Blob","resourceId":8}`},
	{tool: "get-resource-reference", arguments: `{"resourceType":"Text","resourceId":-1}`, isError: true},
	{tool: "get-structured-content", arguments: `{"location":"Chicago"}`},
	{tool: "get-sum", arguments: `{"a":0.1,"b":0.2}`},
	{tool: "get-sum", arguments: `{"a":9007199254740991,"b":1e-7}`},
	{tool: "get-tiny-image", arguments: `{}`},
	{tool: "gzip-file-as-resource", arguments: `{"name":"a.gz","data":"data:text/plain,hello","outputType":"resource"}`},
	{tool: "gzip-file-as-resource", arguments: `{"name":"b.gz","data":"file:///etc/hostname","outputType":"resource"}`, isError: true},
	{tool: "toggle-simulated-logging", arguments: `{}`},
	{tool: "toggle-simulated-logging", arguments: `{}`},
	{tool: "toggle-subscriber-updates", arguments: `{}`},
	{tool: "toggle-subscriber-updates", arguments: `{}`},
	{tool: "trigger-long-running-operation", arguments: `{"duration":0.2,"steps":2}`},
}

// TestServerEverythingIsTheSameThroughBerth compares what a client gets from
// server-everything itself with what it gets through Berth: at the backend's
// own endpoint the same JSON, in the merged profile the same but for names,
// outputSchema, annotations and the broker's facts.
func TestServerEverythingIsTheSameThroughBerth(t *testing.T) {
	need(t)
	_, url := startEverything(t, "0")
	b := startBroker(t, map[string]any{"child": child(t, whole()), "web": upstream(url, whole())})
	bridge := []string{berthPath(t), "stdio", "--state-dir", b.stateDir}
	tests := []struct {
		backend string
		direct  *client
	}{
		{"child", overStdio(t, "a child of the test", b.env, everything(t, "stdio"))},
		{"web", overHTTP(t, "the server itself", url, "")},
	}
	for _, tt := range tests {
		t.Run(tt.backend, func(t *testing.T) {
			exact := []*client{
				overHTTP(t, "/mcp/"+tt.backend, b.url+"/mcp/"+tt.backend, b.token),
				overStdio(t, "berth stdio --profile "+tt.backend, b.env, append(slices.Clone(bridge), "--profile", tt.backend)),
			}
			merged := []*client{
				overHTTP(t, "/mcp", b.url+"/mcp", b.token),
				overStdio(t, "berth stdio", b.env, bridge),
			}
			names, entries := tt.direct.list()
			slices.Sort(names)
			// A verb that is only to be called as a task is one of Berth's long
			// verbs: its entry and its answers differ on purpose.
			names = slices.DeleteFunc(names, func(name string) bool { return name == "simulate-research-query" })
			for _, c := range exact {
				sameServer(t, tt.direct, c)
				sameExactList(t, names, entries, c)
			}
			for _, c := range merged {
				sameMergedList(t, tt.backend, names, entries, c)
			}
			for _, name := range names {
				if !slices.ContainsFunc(calls, func(c toolCall) bool { return c.tool == name }) {
					t.Errorf("the tool %s is called by no case", name)
				}
			}
			want := results(t, tt.direct, "", calls)
			for _, c := range exact {
				sameResults(t, calls, want, results(t, c, "", calls), c, false)
			}
			for _, c := range merged {
				sameResults(t, calls, want, results(t, c, tt.backend+"__", calls), c, true)
			}
		})
	}
}

func sameServer(t *testing.T, direct, c *client) {
	t.Helper()
	var want, got struct {
		ServerInfo   json.RawMessage
		Instructions string
	}
	if json.Unmarshal(direct.server, &want) != nil || json.Unmarshal(c.server, &got) != nil {
		t.Fatalf("%s\n%s", direct.server, c.server)
	}
	if want.Instructions != got.Instructions || !reflect.DeepEqual(tree(t, want.ServerInfo), tree(t, got.ServerInfo)) {
		t.Errorf("%s introduces another server: %s", c.name, c.server)
	}
}

func sameExactList(t *testing.T, names []string, entries map[string]json.RawMessage, c *client) {
	t.Helper()
	got, theirs := c.list()
	want := append(slices.Clone(names), "job_status")
	slices.Sort(want)
	// These the server lists only to who can be asked, as Berth's own clients may be.
	got = slices.DeleteFunc(got, func(name string) bool {
		return strings.HasPrefix(name, "trigger-") && !slices.Contains(names, name) || name == "get-roots-list" || name == "simulate-research-query"
	})
	if !slices.Equal(got, want) {
		t.Errorf("%s lists %q, want %q", c.name, got, want)
	}
	for _, name := range names {
		if !reflect.DeepEqual(tree(t, entries[name]), tree(t, theirs[name])) {
			t.Errorf("%s lists %s as\n%s\nwant\n%s", c.name, name, theirs[name], entries[name])
		}
	}
}

func sameMergedList(t *testing.T, backend string, names []string, entries map[string]json.RawMessage, c *client) {
	t.Helper()
	_, theirs := c.list()
	if theirs["job_status"] == nil {
		t.Errorf("%s does not list job_status", c.name)
	}
	for _, name := range names {
		own := []string{"name", "outputSchema", "annotations"}
		got := theirs[backend+"__"+name]
		if got == nil {
			t.Errorf("%s does not list %s of %s", c.name, name, backend)
			continue
		}
		if !reflect.DeepEqual(without(tree(t, entries[name]), own...), without(tree(t, got), own...)) {
			t.Errorf("%s lists %s as\n%s\nwant\n%s", c.name, name, got, entries[name])
		}
	}
}

// results calls everything in order.
func results(t *testing.T, c *client, prefix string, calls []toolCall) []answer {
	t.Helper()
	var out []answer
	for _, call := range calls {
		out = append(out, c.call(prefix+call.tool, json.RawMessage(call.arguments)))
	}
	return out
}

func sameResults(t *testing.T, calls []toolCall, want, got []answer, c *client, merged bool) {
	t.Helper()
	for i, call := range calls {
		w, g := steady(t, want[i]), steady(t, got[i])
		switch {
		case merged && call.misfit:
			var refusal struct{ Code string }
			unmarshal(t, textOf(t, got[i].Result), &refusal)
			g = w
			if refusal.Code != "invalid_argument" {
				t.Errorf("%s: %s %.200s gave %s", c.name, call.tool, call.arguments, mustJSON(t, got[i]))
			}
		case merged:
			g = withoutFacts(t, call.tool, g)
		}
		if !reflect.DeepEqual(w, g) {
			t.Errorf("%s: %s %.200s gave\n%.2000s\nwant\n%.2000s", c.name, call.tool, call.arguments, mustJSON(t, got[i]), mustJSON(t, want[i]))
		}
		var r struct{ IsError bool }
		if want[i].Error == nil {
			if err := json.Unmarshal(want[i].Result, &r); err != nil {
				t.Fatal(err)
			}
		}
		if failed := want[i].Error != nil || r.IsError; failed != call.isError {
			t.Errorf("%s %.200s of the server itself failed: %v", call.tool, call.arguments, failed)
		}
	}
}

// whole are settings with which a profile of several backends cuts no answer and
// adds nothing to one; an exact one never does.
func whole() map[string]any {
	return map[string]any{"guidance": false, "verbs": map[string]any{"*": map[string]any{"result_tokens": "whole"}}}
}

// withoutFacts takes `_meta["berth/call"]` off a result, which has to be there.
func withoutFacts(t *testing.T, tool string, v any) any {
	t.Helper()
	result, ok := v.(map[string]any)["result"].(map[string]any)
	if !ok {
		return v // an error has no place for them
	}
	meta, _ := result["_meta"].(map[string]any)
	if meta["berth/call"] == nil {
		t.Errorf("the result of %s lacks the broker's facts: %v", tool, result)
	}
	delete(meta, "berth/call")
	if len(meta) == 0 {
		delete(result, "_meta")
	}
	return v
}

// What the servers put into their texts and what changes from call to call: the
// time of day, times of files and the id of the session.
var unsteady = []*regexp.Regexp{
	regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} \d{2} \d{4} \d{2}:\d{2}:\d{2} GMT[^\n"]*`),
	regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z`),
	regexp.MustCompile(`\d{1,2}:\d{2}:\d{2}\s[AP]M`),
	regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
}

// steady is an answer as a tree without what changes from call to call.
func steady(t *testing.T, a answer) any {
	t.Helper()
	out := map[string]any{}
	if a.Error != nil {
		out["error"] = tree(t, []byte(mustJSON(t, a.Error)))
	} else {
		out["result"] = tree(t, a.Result)
	}
	return settle(out)
}

// asEnvironment reads the answer of get-env, less the mark that a child of
// Berth finds its descendants by.
func asEnvironment(v any) (any, bool) {
	var environment map[string]any
	text, ok := v.(string)
	if !ok || json.Unmarshal([]byte(text), &environment) != nil || environment["PATH"] == nil {
		return nil, false
	}
	delete(environment, "BERTH_CHILD")
	return environment, true
}

func settle(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, member := range v {
			if text, ok := member.(string); ok && k == "blob" {
				if data, err := base64.StdEncoding.DecodeString(text); err == nil {
					member = string(data)
				}
			}
			if environment, ok := asEnvironment(member); ok && k == "text" {
				member = environment
			}
			v[k] = settle(member)
		}
	case []any:
		for i, item := range v {
			v[i] = settle(item)
		}
	case string:
		for _, re := range unsteady {
			v = re.ReplaceAllString(v, "*")
		}
		return v
	}
	return v
}
