package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// entryWith is a file with one backend a whose body is given; the body starts
// in line 2.
func entryWith(body string) string { return "{\"mcpServers\": {\"a\":\n" + body + "\n}}" }

func berthWith(body string) string {
	return entryWith(`{"command": "x", "berth":` + "\n" + body + `}`)
}

func webWith(body string) string {
	return entryWith(`{"url": "http://h", "berth":` + "\n" + body + `}`)
}

func TestProblemsAreNamedWithTheirPlace(t *testing.T) {
	tests := []struct {
		name, text string
		want       string // line:column pointer
		message    string
	}{
		{"text that ends", `{"mcpServers": {`, "1:17 /mcpServers", "ends too early"},
		{"broken JSON", "{\n  \"mcpServers\" {}\n}", "2:16 /mcpServers", "not valid JSON"},
		{"two values", "{}\n{}", "2:1 ", "more text"},
		{"a file that is a list", "[]", "1:1 ", "must be an object"},
		{"deep nesting", strings.Repeat("[", 100) + strings.Repeat("]", 100), "1:66 ", "nested too deeply"},
		{"backends that are a list", `{"mcpServers": []}`, "1:16 /mcpServers", "must be an object"},
		{"a backend that is text", `{"mcpServers": {"a": "x"}}`, "1:22 /mcpServers/a", "must be an object"},
		{"a backend that is nothing", `{"mcpServers": {"a": null}}`, "1:22 /mcpServers/a", "must be an object"},
		{"a backend twice", "{\"mcpServers\": {\"a\": {\"command\": \"x\"},\n\"a\": {\"command\": \"x\"}}}", "2:1 /mcpServers/a", "two backends"},
		{"backends twice", "{\"mcpServers\": {},\n\"mcpServers\": {}}", "2:1 /mcpServers", "twice"},

		{"a name with a space", `{"mcpServers": {"a b": {"command": "x"}}}`, "1:17 /mcpServers/a b", "cannot name"},
		{"a name with a slash", `{"mcpServers": {"a/b~": {"command": "x"}}}`, "1:17 /mcpServers/a~1b~0", "cannot name"},
		{"an empty name", `{"mcpServers": {"": {"command": "x"}}}`, "1:17 /mcpServers/", "cannot name"},
		{"a long name", `{"mcpServers": {"` + strings.Repeat("a", 65) + `": {"command": "x"}}}`, "1:17 /mcpServers/" + strings.Repeat("a", 65), "1 to 64"},
		{"a name with two underscores", `{"mcpServers": {"a__b": {"command": "x"}}}`, "1:17 /mcpServers/a__b", "separates"},
		{"a name that ends in an underscore", `{"mcpServers": {"a_": {"command": "x"}}}`, "1:17 /mcpServers/a_", "at its end"},
		{"a name of dots", `{"mcpServers": {"..": {"command": "x"}}}`, "1:17 /mcpServers/..", "dots"},
		{"the broker's name", `{"mcpServers": {"berth": {"command": "x"}}}`, "1:17 /mcpServers/berth", "broker itself"},
		{"a profile's name", `{"mcpServers": {"full": {"command": "x"}}}`, "1:17 /mcpServers/full", "profile"},

		{"neither command nor url", entryWith(`{}`), "2:1 /mcpServers/a", "needs a command"},
		{"another client's word for url", entryWith(`{"serverUrl": "http://h"}`), "2:1 /mcpServers/a", "write serverUrl as url"},
		{"both command and url", entryWith(`{"command": "x", "url": "http://h"}`), "2:1 /mcpServers/a", "both"},
		{"stdio without a command", entryWith(`{"type": "stdio", "url": "http://h"}`), "2:1 /mcpServers/a", "needs a command"},
		{"http without a url", entryWith(`{"type": "http", "command": "x"}`), "2:1 /mcpServers/a", "needs a url"},
		{"http with a command", entryWith(`{"type": "streamable-http", "url": "http://h", "command": "x"}`), "2:1 /mcpServers/a", "do not go together"},
		{"sse", entryWith(`{"type": "sse", "url": "http://h/sse"}`), "2:10 /mcpServers/a/type", "not supported"},
		{"another type", entryWith(`{"type": "ws", "url": "http://h"}`), "2:10 /mcpServers/a/type", `"ws" must be one of`},
		{"a type that is a number", entryWith(`{"type": 1, "url": "http://h"}`), "2:10 /mcpServers/a/type", "must be text"},
		{"disabled that is text", entryWith(`{"command": "x", "disabled": "yes"}`), "2:30 /mcpServers/a/disabled", "truth value"},

		{"an endpoint that is no URL", `{"berth": {"tracing": {"endpoint": "collector:4318"}}}`, "1:36 /berth/tracing/endpoint", "http://"},
		{"an endpoint of another type", `{"berth": {"tracing": {"endpoint": []}}}`, "1:36 /berth/tracing/endpoint", "must be text"},
		{"a header of an endpoint that Berth sets", `{"berth": {"tracing": {"headers": {"Content-Type": "x"}}}}`, "1:36 /berth/tracing/headers/Content-Type", "sets this header itself"},
		{"headers of an endpoint that are a list", `{"berth": {"tracing": {"headers": []}}}`, "1:35 /berth/tracing/headers", "must be an object"},
		{"a sample over one", `{"berth": {"tracing": {"sample": 2}}}`, "1:34 /berth/tracing/sample", "out of range"},

		{"an empty command", entryWith(`{"command": ""}`), "2:13 /mcpServers/a/command", "must name a program"},
		{"a command that is a list", entryWith(`{"command": ["x"]}`), "2:13 /mcpServers/a/command", "must be text, not a list"},
		{"a key twice", entryWith(`{"command": "x", "command": "y"}`), "2:18 /mcpServers/a/command", "twice"},
		{"args that are text", entryWith(`{"command": "x", "args": "-y"}`), "2:26 /mcpServers/a/args", "must be a list"},
		{"an arg that is nothing", entryWith(`{"command": "x", "args": ["a", null]}`), "2:32 /mcpServers/a/args/1", "must be text"},
		{"env that is a list", entryWith(`{"command": "x", "env": []}`), "2:25 /mcpServers/a/env", "must be an object"},
		{"a variable's name with =", entryWith(`{"command": "x", "env": {"A=B": ""}}`), "2:26 /mcpServers/a/env/A=B", "cannot name"},
		{"a variable that is an object", entryWith(`{"command": "x", "env": {"A": {}}}`), "2:31 /mcpServers/a/env/A", "must be text"},
		{"a variable twice", entryWith(`{"command": "x", "env": {"A": "1", "A": "2"}}`), "2:36 /mcpServers/a/env/A", "twice"},
		{"a value with a NUL", entryWith(`{"command": "x", "env": {"A": "${NUL}"}}`), "2:31 /mcpServers/a/env/A", "control character"},

		{"an unset variable", entryWith(`{"command": "x", "cwd": "${HOME_OF_NOBODY}"}`), "2:25 /mcpServers/a/cwd", "HOME_OF_NOBODY is not set"},
		{"a brace that stays open", entryWith(`{"command": "${DIR"}`), "2:13 /mcpServers/a/command", "closing brace"},
		{"something else in braces", entryWith(`{"command": "${DIR%/*}"}`), "2:13 /mcpServers/a/command", "no reference"},
		{"a default in a default", entryWith(`{"command": "${A:-${DIR}}"}`), "2:13 /mcpServers/a/command", "default of ${A:-...}"},

		{"a url without a scheme", entryWith(`{"url": "example.com/mcp"}`), "2:9 /mcpServers/a/url", "http://"},
		{"a url without a host", entryWith(`{"url": "http:///mcp"}`), "2:9 /mcpServers/a/url", "no host"},
		{"a url that is none", entryWith(`{"url": "http://[::1"}`), "2:9 /mcpServers/a/url", "not a valid URL"},
		{"a url with a password", entryWith(`{"url": "http://u:${TOKEN}@h/"}`), "2:9 /mcpServers/a/url", "Authorization"},
		{"a url with a fragment", entryWith(`{"url": "http://h/#a"}`), "2:9 /mcpServers/a/url", "fragment"},
		{"a url with a bad port", entryWith(`{"url": "http://h:99999/"}`), "2:9 /mcpServers/a/url", "port"},
		{"a header's name with a space", entryWith(`{"url": "http://h", "headers": {"A B": ""}}`), "2:33 /mcpServers/a/headers/A B", "cannot name"},
		{"a header of ours", entryWith(`{"url": "http://h", "headers": {"Mcp-Session-Id": "1"}}`), "2:33 /mcpServers/a/headers/Mcp-Session-Id", "cannot be configured"},
		{"a header that repeats calls", entryWith(`{"url": "http://h", "headers": {"idempotency-key": "1"}}`), "2:33 /mcpServers/a/headers/idempotency-key", "cannot be configured"},
		{"a header twice", entryWith(`{"url": "http://h", "headers": {"X-A": "1", "x-a": "2"}}`), "2:45 /mcpServers/a/headers/x-a", "twice"},
		{"a header of two lines", entryWith(`{"url": "http://h", "headers": {"X-A": "${LINE}"}}`), "2:40 /mcpServers/a/headers/X-A", "control character"},

		{"an unknown key of Berth", berthWith(`{"max_inflight": 3}`), "3:2 /mcpServers/a/berth/max_inflight", "is no key of Berth's here; the keys are app, call_timeout, "},
		{"a key of Berth twice", berthWith(`{"start": "lazy", "start": "eager"}`), "3:19 /mcpServers/a/berth/start", "twice"},
		{"settings that are text", berthWith(`"lazy"`), "3:1 /mcpServers/a/berth", "must be an object"},
		{"a word that is not offered", berthWith(`{"start": "now"}`), "3:11 /mcpServers/a/berth/start", `"now" must be one of lazy, eager`},
		{"a number as text", berthWith(`{"max_in_flight": "3"}`), "3:19 /mcpServers/a/berth/max_in_flight", "must be a number, not text"},
		{"half a seat", berthWith(`{"max_in_flight": 1.5}`), "3:19 /mcpServers/a/berth/max_in_flight", "whole number"},
		{"no seat", berthWith(`{"max_in_flight": 0}`), "3:19 /mcpServers/a/berth/max_in_flight", "0 is out of range: 1 to 10000"},
		{"a number past all ranges", berthWith(`{"max_in_flight": 1e99}`), "3:19 /mcpServers/a/berth/max_in_flight", "whole number"},
		{"a duration without a unit", berthWith(`{"call_timeout": 45}`), "3:18 /mcpServers/a/berth/call_timeout", `"45s"`},
		{"a duration that is none", berthWith(`{"call_timeout": "soon"}`), "3:18 /mcpServers/a/berth/call_timeout", `"soon" must be a duration`},
		{"a negative duration", berthWith(`{"call_timeout": "-1s"}`), "3:18 /mcpServers/a/berth/call_timeout", "out of range: 100ms to 720h"},
		{"never, where it has no meaning", berthWith(`{"call_timeout": "never"}`), "3:18 /mcpServers/a/berth/call_timeout", `"never" must be a duration`},
		{"nearly never", berthWith(`{"promote_after": "Never"}`), "3:19 /mcpServers/a/berth/promote_after", `or "never"`},
		{"a size as a number", berthWith(`{"max_answer": 1024}`), "3:16 /mcpServers/a/berth/max_answer", `"64MiB"`},
		{"a size in other units", berthWith(`{"max_answer": "1MB"}`), "3:16 /mcpServers/a/berth/max_answer", "KiB"},
		{"a size that overflows", berthWith(`{"max_answer": "9223372036854775807GiB"}`), "3:16 /mcpServers/a/berth/max_answer", "must be a size"},
		{"a size out of range", berthWith(`{"max_answer": "1B"}`), "3:16 /mcpServers/a/berth/max_answer", "1KiB to 1GiB"},
		{"a truth value as text", berthWith(`{"trust_annotations": "true"}`), "3:23 /mcpServers/a/berth/trust_annotations", "must be a truth value"},
		{"a glob that is none", berthWith(`{"long": ["a", "[b"]}`), "3:16 /mcpServers/a/berth/long/1", "no valid pattern"},
		{"an empty glob", berthWith(`{"long": [""]}`), "3:11 /mcpServers/a/berth/long/0", "must name a verb"},
		{"a rule with a bad glob", berthWith(`{"verbs": {"[": {}}}`), "3:12 /mcpServers/a/berth/verbs/[", "no valid pattern"},
		{"a rule twice", berthWith(`{"verbs": {"a": {}, "a": {}}}`), "3:21 /mcpServers/a/berth/verbs/a", "twice"},
		{"an unknown key in a rule", berthWith(`{"verbs": {"a": {"seat": 1}}}`), "3:18 /mcpServers/a/berth/verbs/a/seat", "is no key"},
		{"tracks without a status", berthWith(`{"verbs": {"a": {"tracks": {"handle": "/h", "verb": "v", "argument": "a", "succeeded": []}}}}`), "3:28 /mcpServers/a/berth/verbs/a/tracks", "status is missing"},
		{"tracks by no pointer", berthWith(`{"verbs": {"a": {"tracks": {"handle": "h", "verb": "v", "argument": "a", "status": "/s", "succeeded": []}}}}`), "3:39 /mcpServers/a/berth/verbs/a/tracks/handle", "JSON pointer"},
		{"tracks by a broken pointer", berthWith(`{"verbs": {"a": {"tracks": {"handle": "/h~2", "verb": "v", "argument": "a", "status": "/s", "succeeded": []}}}}`), "3:39 /mcpServers/a/berth/verbs/a/tracks/handle", "~ stands only"},
		{"tracks by a verb without a name", berthWith(`{"verbs": {"a": {"tracks": {"verb": "", "handle": "/h", "argument": "a", "status": "/s", "succeeded": []}}}}`), "3:37 /mcpServers/a/berth/verbs/a/tracks/verb", "must not be empty"},
		{"more seats than there are", berthWith(`{"max_in_flight": 2, "verbs": {"a": {"seats": 3}}}`), "3:47 /mcpServers/a/berth/verbs/a/seats", "could never run"},
		{"effects that are an object", berthWith(`{"effects": {}}`), "3:13 /mcpServers/a/berth/effects", "must be a list"},
		{"an effect without a verb", berthWith(`{"effects": [{"is": ["read"]}]}`), "3:14 /mcpServers/a/berth/effects/0", "verb is missing"},
		{"an effect that is nothing", berthWith(`{"effects": [{"verb": "a", "is": []}]}`), "3:34 /mcpServers/a/berth/effects/0/is", "at least one"},
		{"an unknown effect", berthWith(`{"effects": [{"verb": "a", "is": ["read", "delete"]}]}`), "3:43 /mcpServers/a/berth/effects/0/is/1", `"delete" must be one of`},
		{"a condition that is none", berthWith(`{"effects": [{"verb": "a", "is": ["read"], "when": [{"at": "/x", "op": "eq", "value": 1}]}]}`), "3:53 /mcpServers/a/berth/effects/0/when/0", "a pointer is args: or result:"},
		{"an unknown operator", berthWith(`{"effects": [{"verb": "a", "is": ["read"], "when": [{"at": "args:/x", "op": "like"}]}]}`), "3:77 /mcpServers/a/berth/effects/0/when/0/op", "must be one of present, absent"},
		{"an operator without its value", berthWith(`{"effects": [{"verb": "a", "is": ["read"], "when": [{"at": "args:/x", "op": "in", "value": 1}]}]}`), "3:53 /mcpServers/a/berth/effects/0/when/0", "takes a list of values"},
		{"a condition on a result", berthWith(`{"effects": [{"verb": "a", "is": ["read"], "when": [{"at": "result:/x", "op": "present"}]}, {"verb": "a", "is": ["write"]}]}`), "3:14 /mcpServers/a/berth/effects/0", "before there is a result"},
		{"a condition of a proof that is none", `{"berth": {"proofs": {"grants": [{"verb": "a", "kind": "k", "targets": ["args:/p"], "when": [{"at": "args:/h", "op": "absent"}, {"at": "args:/t", "op": "prefix", "value": 1}]}]}}}`, "1:129 /berth/proofs/grants/0/when/1", "takes a text"},
		{"conditions, and none for the rest", berthWith(`{"effects": [{"verb": "a", "is": ["read"], "when": [{"at": "args:/x", "op": "present"}]}]}`), "3:14 /mcpServers/a/berth/effects/0", "needs one without after it"},
		{"conditions that widen", berthWith(`{"effects": [{"verb": "a", "is": ["exec"], "when": [{"at": "args:/x", "op": "present"}]}, {"verb": "*", "is": ["write"]}]}`), "3:14 /mcpServers/a/berth/effects/0", "may only narrow"},
		{"a read that writes", berthWith(`{"effects": [{"verb": "a", "is": ["read", "write"]}]}`), "3:34 /mcpServers/a/berth/effects/0/is", "read stands alone"},

		{"an app that is not known", entryWith(`{"berth": {"app": "resmom"}}`), "2:19 /mcpServers/a/berth/app", "must be one of resmon"},
		{"an app with a command", entryWith(`{"command": "x", "berth": {"app": "resmon"}}`), "2:13 /mcpServers/a/command", "do not go together"},
		{"an app with a url", entryWith(`{"url": "http://h", "berth": {"app": "resmon"}}`), "2:9 /mcpServers/a/url", "do not go together"},
		{"a variable that is not the app's", entryWith(`{"env": {"RESMON_MCP_READONLY": "1"}, "berth": {"app": "resmon"}}`), "2:10 /mcpServers/a/env/RESMON_MCP_READONLY", "no variable of resmon; they are RESMON_PORT, "},
		{"effects of an app", entryWith(`{"berth": {"app": "resmon", "effects": []}}`), "2:29 /mcpServers/a/berth/effects", "its contract says it"},
		{"an app for each session", entryWith(`{"berth": {"app": "resmon", "instances": "session"}}`), "2:29 /mcpServers/a/berth/instances", "its contract says it"},
		{"a second app without variables of its own", "{\"mcpServers\": {\"a\": {\"berth\": {\"app\": \"resmon\"}},\n\"b\": {\"berth\": {\"app\": \"resmon\"}}}}", "2:6 /mcpServers/b", "neither this backend nor \"a\" has an env of its own"},
		{"a profile with a backend's name", `{"mcpServers": {"x": {"command": "x"}}, "berth": {"profiles": {"x": {"max_tools": 3}}}}`, "1:69 /berth/profiles/x", "profile_name_taken"},
		{"a profile with a tier's name", `{"berth": {"profiles": {"essential": {"select": [{"verb": "*"}]}}}}`, "1:38 /berth/profiles/essential", "profile_name_taken"},
		{"a profile with a contract's name", `{"berth": {"profiles": {"resmon": {"select": [{"verb": "*"}]}}}}`, "1:35 /berth/profiles/resmon", "profile_name_taken"},
		{"a selector of everything", `{"berth": {"profiles": {"x": {"select": [{}]}}}}`, "1:30 /berth/profiles/x", "a selector names"},
		{"a profile that is no path", `{"berth": {"profiles": {"a/b": {"select": [{"verb": "*"}]}}}}`, "1:32 /berth/profiles/a~1b", "cannot name a profile"},
		{"an unknown preset", `{"berth": {"profiles": {"full": {"preset": "emacs"}}}}`, "1:44 /berth/profiles/full/preset", "cursor"},
		{"an answer of no size", `{"berth": {"profiles": {"full": {"result_tokens": 7}}}}`, "1:51 /berth/profiles/full/result_tokens", "whole"},
		{"a factor of nothing", `{"berth": {"profiles": {"full": {"token_factor": 0}}}}`, "1:50 /berth/profiles/full/token_factor", "out of range"},
		{"a delivery mode that there is not", `{"berth": {"agent_wake": {"delivery_mode": "Push"}}}`, "1:44 /berth/agent_wake/delivery_mode", "SpawnProcess"},
		{"a participant of another shape", `{"berth": {"agent_wake": {"participant_key": "a b"}}}`, "1:46 /berth/agent_wake/participant_key", "1 to 128"},
		{"a conversation that would be an option", `{"berth": {"agent_wake": {"session_id": "-x"}}}`, "1:41 /berth/agent_wake/session_id", "dash"},
		{"a directory that depends on where the broker runs", `{"berth": {"agent_wake": {"working_directory": "work"}}}`, "1:48 /berth/agent_wake/working_directory", "absolute"},
		{"a prefix that parts nothing", `{"berth": {"harness_prefixes": ["mcp"]}}`, "1:33 /berth/harness_prefixes/0", "two underscores"},
		{"instructions of two lines", `{"mcpServers": {"a": {"command": "x", "berth": {"instructions": "a\nb"}}}}`, "1:65 /mcpServers/a/berth/instructions", "one line"},
		{"a rule for a profile of nothing", `{"berth": {"profiles": {"x": {"read_only": true}}}}`, "1:30 /berth/profiles/x", "is no profile"},
		{"a headers_command without a program", webWith(`{"headers_command": []}`), "3:21 /mcpServers/a/berth/headers_command", "must name a program"},
		{"a headers_command of an empty program", webWith(`{"headers_command": ["", "x"]}`), "3:22 /mcpServers/a/berth/headers_command/0", "must name a program"},
		{"a headers_command that is text", webWith(`{"headers_command": "token --now"}`), "3:21 /mcpServers/a/berth/headers_command", "must be a list, not text"},
		{"a headers_command of an object", webWith(`{"headers_command": ["x", {}]}`), "3:27 /mcpServers/a/berth/headers_command/1", "must be text"},
		{"a headers_command with an unset variable", webWith(`{"headers_command": ["x", "${HOME_OF_NOBODY}"]}`), "3:27 /mcpServers/a/berth/headers_command/1", "is not set"},
		{"a headers_command of a child", berthWith(`{"headers_command": ["x"]}`), "3:2 /mcpServers/a/berth/headers_command", "means nothing for a backend of type stdio"},
		{"a headers_ttl of a child", berthWith(`{"headers_ttl": "1m"}`), "3:2 /mcpServers/a/berth/headers_ttl", "means nothing for a backend of type stdio"},
		{"a headers_ttl alone", webWith(`{"headers_ttl": "1m"}`), "3:2 /mcpServers/a/berth/headers_ttl", "without a headers_command"},
		{"a headers_ttl that is too short", webWith(`{"headers_command": ["x"], "headers_ttl": "1ms"}`), "3:43 /mcpServers/a/berth/headers_ttl", "out of range"},
		{"a headers_timeout for ever", webWith(`{"headers_command": ["x"], "headers_timeout": "never"}`), "3:47 /mcpServers/a/berth/headers_timeout", "must be a duration"},

		{"an unknown key at the top", `{"berth": {"port": 1}}`, "1:12 /berth/port", "is no key"},
		{"an address without a port", `{"berth": {"listen": "localhost"}}`, "1:22 /berth/listen", "must be an address"},
		{"an address with a bad port", `{"berth": {"listen": "127.0.0.1:70000"}}`, "1:22 /berth/listen", "must be an address"},
		{"a host that is a URL", `{"berth": {"allowed_hosts": ["http://h"]}}`, "1:30 /berth/allowed_hosts/0", "Host header"},
		{"an access that is not offered", `{"berth": {"access": "all"}}`, "1:22 /berth/access", "seed, team"},
		{"a level that is not offered", `{"berth": {"log_level": "trace"}}`, "1:25 /berth/log_level", "debug, info, warn, error"},
		{"bodies larger than what may be in flight", `{"berth": {"max_bytes_in_flight": "1MiB"}}`, "1:11 /berth", "less than max_body"},
		{"a rule for clients with an unknown key", `{"berth": {"clients": {"x": {"promote": "1s"}}}}`, "1:30 /berth/clients/x/promote", "is no key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := problems(t, "a.json", tt.text)
			if len(got) != 1 {
				t.Fatalf("got %d problems, want one: %+v", len(got), got)
			}
			p := got[0]
			if place := fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Pointer); place != tt.want {
				t.Errorf("place %q, want %q", place, tt.want)
			}
			if !strings.Contains(p.Message, tt.message) {
				t.Errorf("message %q, want %q in it", p.Message, tt.message)
			}
		})
	}
}

func TestProblemsOfYAMLAreNamedWithTheirPlace(t *testing.T) {
	tests := []struct{ name, text, want, message string }{
		{"broken YAML", "mcpServers:\n  a: [\n", "2:1 ", "not valid YAML"},
		{"two documents", "berth: {}\n---\nberth: {}\n", "2:1 ", "second YAML document"},
		{"an unknown key", "mcpServers:\n  a:\n    command: x\n    berth:\n      seats: 3\n", "5:7 /mcpServers/a/berth/seats", "is no key"},
		{"a key twice", "berth:\n  listen: :0\n  listen: :1\n", "3:3 /berth/listen", "twice"},
		{"a key that is a list", "? [a]\n: b\n", "1:3 ", "key must be text"},
		{"merging", "x: &x {a: b}\nberth:\n  <<: *x\n", "3:3 /berth", "merging"},
		{"an unknown tag", "mcpServers:\n  a: {command: !run x}\n", "2:16 /mcpServers/a/command", "tag"},
		{"an alias of itself", "mcpServers: &m\n  a: *m\n", "1:13 ", "nested too deeply"},
		{"aliases of aliases", "a: &a [1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e]\n", "", "too many values"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := problems(t, "a.yaml", tt.text)
			if len(got) != 1 {
				t.Fatalf("got %d problems, want one: %+v", len(got), got)
			}
			p := got[0]
			place := fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Pointer)
			if tt.name == "an alias of itself" {
				place = fmt.Sprintf("%d:%d ", p.Line, p.Column)
			}
			if tt.want != "" && place != tt.want {
				t.Errorf("place %q, want %q", place, tt.want)
			}
			if !strings.Contains(p.Message, tt.message) {
				t.Errorf("message %q, want %q in it", p.Message, tt.message)
			}
		})
	}
}

func TestAllProblemsAreReportedAtOnceInOrder(t *testing.T) {
	text := `{
  "berth": { "port": 1, "listen": 7 },
  "mcpServers": {
    "z z": { "command": "${NOPE}", "args": [null, "${NOPE2}"] },
    "b": { "berth": { "start": "now", "max_queued": -1 } }
  }
}`
	got := problems(t, "my.json", text)
	var places []string
	for _, p := range got {
		places = append(places, p.Pointer)
	}
	want := []string{"/berth/port", "/berth/listen", "/mcpServers/z z", "/mcpServers/z z/command", "/mcpServers/z z/args/0",
		"/mcpServers/z z/args/1", "/mcpServers/b", "/mcpServers/b/berth/start", "/mcpServers/b/berth/max_queued"}
	if !slices.Equal(places, want) {
		t.Errorf("got\n%q\nwant\n%q", places, want)
	}
	message := (&Invalid{Name: "my.json", Problems: got}).Error()
	lines := strings.Split(message, "\n")
	if len(lines) != len(want) || !strings.HasPrefix(lines[0], `my.json:2:14: /berth/port: "port" is no key`) {
		t.Errorf("the text is\n%s", message)
	}
}

func TestTheTextOfAnErrorIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "k%d: 1\n  ", i)
	}
	got := problems(t, "a.yaml", "berth:\n  "+b.String())
	if len(got) != 1000 {
		t.Fatalf("%d problems", len(got))
	}
	if text := (&Invalid{Name: "a.yaml", Problems: got}).Error(); !strings.HasSuffix(text, "a.yaml: and 950 more problems") {
		t.Errorf("the text ends in %q", text[len(text)-80:])
	}
	if got := problems(t, "a.json", strings.Repeat(" ", MaxFile+1)); !strings.Contains(got[0].Message, "larger than 4MiB") {
		t.Errorf("%+v", got)
	}
}
