package config

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/shape"
)

// environ is a fixed environment.
func environ(name string) (string, bool) {
	value, ok := map[string]string{"TOKEN": "s3cr3t-value", "EMPTY": "", "DIR": "/srv/app", "HOST": "api.example.com", "NUL": "a\x00b", "LINE": "a\nb"}[name]
	return value, ok
}

func parse(t *testing.T, name, text string) *Config {
	t.Helper()
	c, err := Parse(name, []byte(text), environ)
	if err != nil {
		t.Fatalf("Parse(%s): %v", name, err)
	}
	return c
}

func problems(t *testing.T, name, text string) []Problem {
	t.Helper()
	c, err := Parse(name, []byte(text), environ)
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		t.Fatalf("got %+v and %v, want a refusal", c, err)
	}
	if c != nil {
		t.Error("a refused file gave a configuration as well")
	}
	return invalid.Problems
}

func TestRealFilesOfClientsWorkAsTheyAre(t *testing.T) {
	tests := []struct {
		file  string
		names []string
		check func(*testing.T, *Config)
	}{
		{"testdata/claude.mcp.json", []string{"filesystem", "github", "linear", "postgres"}, func(t *testing.T, c *Config) {
			if got := c.Backends[0].Args.Reveal(); !reflect.DeepEqual(got, []string{"-y", "@modelcontextprotocol/server-filesystem", "/srv/app", "/tmp"}) {
				t.Errorf("args %q", got)
			}
			if got := c.Backends[1].Headers.Reveal()["Authorization"]; got != "Bearer s3cr3t-value" {
				t.Errorf("header %q", got)
			}
			if got := c.Backends[3].Env.Reveal()["PGSSLMODE"]; got != "require" {
				t.Errorf("default %q", got)
			}
		}},
		{"testdata/cursor.mcp.json", []string{"browser", "docs", "off"}, func(t *testing.T, c *Config) {
			if b := c.Backends[1]; b.Kind != HTTP || b.URL.Reveal() != "https://docs.example.com/mcp?key=s3cr3t-value" {
				t.Errorf("%s %s", b.Kind, b.URL.Reveal())
			}
			if !c.Backends[2].Settings.Disabled {
				t.Error("a disabled entry is not disabled")
			}
			var notes []string
			for _, n := range c.Notes {
				notes = append(notes, n.Pointer)
			}
			want := []string{"/mcpServers/browser/envFile", "/mcpServers/docs/headers/Accept", "/mcpServers/docs/autoApprove", "/inputs"}
			if !reflect.DeepEqual(notes, want) {
				t.Errorf("notes %q, want %q", notes, want)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			text, err := os.ReadFile(tt.file)
			if err != nil {
				t.Fatal(err)
			}
			c := parse(t, tt.file, string(text))
			var names []string
			for _, b := range c.Backends {
				names = append(names, b.Name)
				want := DefaultSettings()
				want.Disabled = b.Settings.Disabled
				if !reflect.DeepEqual(b.Settings, want) {
					t.Errorf("%s has other settings than the defaults: %+v", b.Name, b.Settings)
				}
			}
			if !reflect.DeepEqual(names, tt.names) {
				t.Fatalf("backends %q, want %q", names, tt.names)
			}
			tt.check(t, c)
		})
	}
}

// Every key of the documentation, each with a value that is not its default.
func TestEveryKeyIsRead(t *testing.T) {
	c := parse(t, "berth.yaml", yamlOfEveryKey)
	want := &Config{
		Broker: Broker{Listen: "[::1]:0", AllowedHosts: []string{"berth.example.com", "10.0.0.1:7420"}, MaxSessions: 5, MaxCallsPerSession: 6,
			MaxStreams: 7, MaxBody: 2 << 10, MaxBytesInFlight: 3 << 10, LogLevel: "debug", Access: "team",
			Clients:         []ClientRule{{"claude", 200 * time.Second, 0}, {"claude-code", Never, 20 << 20}},
			HarnessPrefixes: []string{"cursor:"}, Hold: HoldRules{Verbs: []string{"app__run_*"}},
			AgentWake: AgentWake{ParticipantKey: "admiral", DeliveryMode: "Both", Runtime: "Codex", SessionID: "s-1", Command: "/srv/codex", WorkingDirectory: "/srv/work"},
			Dispatch:  Dispatch{StallAfter: time.Minute, MissionTimeout: time.Hour, MaxAgents: 3, Env: []string{"CODEX_HOME"}, MaxLog: 1 << 20, CaptainSearchMaxResults: 5, CaptainSearchMaxCalls: 6},
			Tracing:   Tracing{Endpoint: NewSecret("https://otlp.example.com/s3cr3t-value"), Headers: SecretMap{"X-Key": NewSecret("s3cr3t-value")}, Sample: 0.25},
			Profiles: []ProfileRule{
				{Name: "web", ReadOnly: true, TokenFactor: 1, CountTokens: "needed", Envelope: true, Guidance: true},
				{Name: "full", TokenFactor: 1, CountTokens: "needed", Envelope: true, Guidance: true},
				{Name: "editor", Select: []SelectorRule{{Verb: "job_*"}, {Backend: "app", Family: "app", Effects: "read"}}, Exclude: []SelectorRule{{Surface: "resmon"}},
					Required: []string{"job_status"}, Preset: "cursor", MaxTools: 30, MaxTokens: 8000, InstructionsTokens: 700, ResultTokens: 9000, TokenFactor: 1.25, CountTokens: "always"}},
			Proofs: ProofRules{Enabled: true, Kinds: []ProofKind{{Name: "seen", Canonical: "path", Base: "/srv", TTL: 5 * time.Minute, Bind: "session"}},
				Grants: []ProofGrant{{Verb: "fs__read", Kind: "seen", Targets: []string{"args:/path"}, On: "error", Version: "result:/v",
					When: []ConditionRule{{At: "result:/content/0/text", Op: "contains", Value: json.RawMessage(`"ENOENT"`)}}}},
				Needs: []ProofNeed{{Verb: "fs__*", Kind: "seen", Targets: []string{"args:/path"}, Version: "args:/v"}}}},
		Backends: []Backend{
			{Name: "app", Kind: Stdio, Command: "/srv/app/bin", Args: SecretList{NewSecret("--port"), NewSecret("8080"), NewSecret("--fast"), NewSecret("true")},
				Env: SecretMap{"A": NewSecret("1"), "B": NewSecret("s3cr3t-value")}, Cwd: "work",
				Settings: Settings{Start: Eager, Instances: PerSession, MaxInFlight: 4, MaxQueued: 0, MaxQueuedJobs: 7,
					QueueTimeout: 5 * time.Second, StartTimeout: 2 * time.Minute, CallTimeout: 90 * time.Minute, IdleTimeout: 15 * time.Minute,
					PromoteAfter: Never, Long: []string{"reindex*", "export"},
					Verbs: []VerbRule{{Glob: "export", PromoteAfter: 20 * time.Second, CallTimeout: 2 * time.Hour, Seats: 4, StaleAfter: 3 * time.Hour, RequireTask: true,
						Tracks: TrackRule{Handle: "/a~1b/0", Verb: "export_status", Argument: "id", Status: "/s", Running: []string{"r"}, Succeeded: []string{"ok", "fine"},
							Failed: []string{"f"}, Cancelled: []string{"c"}, Lost: []string{"l"}, Result: "/out", Message: "/why"}}, {Glob: "get_?", PromoteAfter: Never, Keywords: []string{"fetch"}, Rank: -2, ResultTokens: shape.Whole}},
					TrustAnnotations: true, Effects: []EffectRule{{Verb: "find_*", Is: broker.Read},
						{Verb: "drop", Is: broker.Read, When: []ConditionRule{{At: "args:/x", Op: "eq", Value: json.RawMessage(`{"a":[1.50,true,null,"é"],"b":{},"c":[]}`)}, {At: "args:/y", Op: "absent"}}},
						{Verb: "drop", Is: broker.Write | broker.Destroy}},
					MaxAnswer: 1 << 20, Handshake: true, Essential: []string{"get_*"}, Pin: true, Instructions: "app is the project's own.", HeadersTTL: Never, HeadersTimeout: 10 * time.Second, Disabled: false, ReadOnly: true}},
			{Name: "lab", Kind: App, Env: SecretMap{"RESMON_PORT": NewSecret("5001"), "RESMON_STATE_DIR": NewSecret("/srv/app/state")}, Settings: appSettings()},
			{Name: "web", Kind: HTTP, URL: NewSecret("https://api.example.com/mcp"), Headers: SecretMap{"X-Key": NewSecret("s3cr3t-value")}, Settings: tokenSettings()},
			{Name: "zz", Kind: Stdio, Command: "z", Env: SecretMap{}, Settings: disabledSettings()},
		},
	}
	if !reflect.DeepEqual(c.Backends, want.Backends) || !reflect.DeepEqual(c.Broker, want.Broker) {
		t.Errorf("got\n%+v\nwant\n%+v", c, want)
	}
	if len(c.Notes) > 0 {
		t.Errorf("passed over: %+v", c.Notes)
	}
	used := keysIn(t, yamlOfEveryKey)
	for _, of := range []any{Broker{}, AgentWake{}, Dispatch{}, ClientRule{}, ProfileRule{}, Backend{}, Settings{}, VerbRule{}, TrackRule{}, EffectRule{}, ConditionRule{}, ProofRules{}, ProofKind{}, ProofGrant{}, ProofNeed{}, SelectorRule{}, HoldRules{}, Tracing{}} {
		for _, key := range keysOf(reflect.TypeOf(of)) {
			if !used[key] {
				t.Errorf("the key %s of %T is not in this test", key, of)
			}
		}
	}
}

func appSettings() Settings {
	s := DefaultSettings()
	s.App, s.MaxInFlight = "resmon", 4
	return s
}

func tokenSettings() Settings {
	s := DefaultSettings()
	s.HeadersCommand = SecretList{NewSecret("/srv/app/token"), NewSecret("--key"), NewSecret("s3cr3t-value")}
	s.HeadersTTL, s.HeadersTimeout = 50*time.Minute, 20*time.Second
	return s
}

func disabledSettings() Settings {
	s := DefaultSettings()
	s.Disabled = true
	return s
}

func keysIn(t *testing.T, text string) map[string]bool {
	t.Helper()
	root, problem := readYAML([]byte(text))
	if problem != nil {
		t.Fatal(problem)
	}
	keys := map[string]bool{}
	var walk func(*node)
	walk = func(n *node) {
		for _, m := range n.members {
			keys[m.key] = true
			walk(m.value)
		}
		for _, i := range n.items {
			walk(i)
		}
	}
	walk(root)
	return keys
}

const yamlOfEveryKey = `
mcpServers:
  app:
    type: stdio
    command: ${DIR}/bin
    args: [--port, 8080, --fast, true]
    env: {A: 1, B: "${TOKEN}"}
    cwd: work
    berth:
      start: eager
      instances: session
      max_in_flight: 4
      max_queued: 0
      max_queued_jobs: 7
      queue_timeout: 5s
      start_timeout: 2m
      call_timeout: 1h30m
      idle_timeout: 15m
      promote_after: never
      long: [reindex*, export]
      verbs:
        export: {promote_after: 20s, call_timeout: 2h, seats: 4, stale_after: 3h, require_task: true, tracks: {handle: /a~1b/0, verb: export_status, argument: id,
          status: /s, running: [r], succeeded: [ok, fine], failed: [f], cancelled: [c], lost: [l], result: /out, message: /why}}
        "get_?": {promote_after: never, keywords: [fetch], rank: -2, result_tokens: whole}
      trust_annotations: true
      guidance: false
      effects:
        - {verb: "find_*", is: [read]}
        - {verb: drop, when: [{at: "args:/x", op: eq, value: {a: [1.50, true, null, "é"], b: {}, c: []}}, {at: "args:/y", op: absent}], is: [read]}
        - {verb: drop, is: [write, destroy]}
      max_answer: 1MiB
      cancel_grace: 0s
      handshake: true
      read_only: true
      essential: ["get_*"]
      pin: true
      instructions: app is the project's own.
  lab:
    env: {RESMON_PORT: 5001, RESMON_STATE_DIR: "${DIR}/state"}
    berth: {app: resmon}
  web:
    url: https://${HOST}/mcp
    headers: {X-Key: "${TOKEN}"}
    berth:
      headers_command: ["${DIR}/token", --key, "${TOKEN}"]
      headers_ttl: 50m
      headers_timeout: 20s
  zz:
    command: z
    berth: {disabled: true}
berth:
  proofs:
    enabled: true
    kinds: {seen: {canonical: path, base: /srv, ttl: 5m, one_shot: false, bind: session}}
    grants: [{verb: fs__read, kind: seen, targets: ["args:/path"], on: error, when: [{at: "result:/content/0/text", op: contains, value: ENOENT}], version: "result:/v"}]
    needs: [{verb: "fs__*", kind: seen, targets: ["args:/path"], version: "args:/v"}]
  listen: "[::1]:0"
  allowed_hosts: [berth.example.com, "10.0.0.1:7420"]
  drain_timeout: 0s
  max_sessions: 5
  max_calls_per_session: 6
  max_streams: 7
  max_body: 2KiB
  max_bytes_in_flight: 3KiB
  log_level: debug
  access: team
  clients:
    claude: {promote_after: 200s}
    claude-code: {promote_after: never, max_answer: 20MiB}
  profiles:
    web: {read_only: true}
    full: {}
    editor: {select: [{verb: "job_*"}, {backend: app, family: app, effects: read}], exclude: [{surface: resmon}], required: [job_status], preset: cursor,
      max_tools: 30, max_tokens: 8000, instructions_tokens: 700, result_tokens: 9000, token_factor: 1.25, count_tokens: always, envelope: false, guidance: false}
  harness_prefixes: ["cursor:"]
  agent_wake: {participant_key: admiral, delivery_mode: Both, runtime: Codex, session_id: s-1, command: /srv/codex, working_directory: /srv/work}
  dispatch: {stall_after: 1m, mission_timeout: 1h, max_agents: 3, deliver_mcp: false, unattended: false, env: [CODEX_HOME], max_log: 1MiB, captain_search: false, captain_search_max_results: 5, captain_search_max_calls_per_mission: 6}
  hold: {verbs: ["app__run_*"]}
  tracing: {endpoint: "https://otlp.example.com/${TOKEN}", headers: {X-Key: "${TOKEN}"}, sample: 0.25}
`

func TestDefaultsAreThoseOfTheDocumentation(t *testing.T) {
	want := Settings{Start: Lazy, Instances: Shared, MaxInFlight: 16, MaxQueued: 256, MaxQueuedJobs: 1024, QueueTimeout: time.Minute,
		StartTimeout: 30 * time.Second, CallTimeout: 30 * time.Minute, IdleTimeout: Never, MaxAnswer: 64 << 20, CancelGrace: 10 * time.Second,
		HeadersTTL: Never, HeadersTimeout: 10 * time.Second, Guidance: true}
	if got := DefaultSettings(); !reflect.DeepEqual(got, want) {
		t.Errorf("settings\n got %+v\nwant %+v", got, want)
	}
	broker := Broker{Listen: "127.0.0.1:7420", DrainTimeout: 10 * time.Second, MaxSessions: 10000, MaxCallsPerSession: 256, MaxStreams: 4096,
		MaxBody: 64 << 20, MaxBytesInFlight: 256 << 20, LogLevel: "info", Access: "seed", AgentWake: AgentWake{DeliveryMode: "StoredWake"},
		Dispatch: Dispatch{StallAfter: 10 * time.Minute, MissionTimeout: 4 * time.Hour, MaxAgents: 8, DeliverMCP: true, Unattended: true, MaxLog: 64 << 20, CaptainSearch: true, CaptainSearchMaxResults: 10, CaptainSearchMaxCalls: 40}, Tracing: Tracing{Sample: 1}}
	if got := Default().Broker; !reflect.DeepEqual(got, broker) {
		t.Errorf("broker\n got %+v\nwant %+v", got, broker)
	}
}

func TestFilesWithoutBackendsAreFine(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"a.json", "{}"}, {"a.json", `{"mcpServers": {}}`}, {"a.json", `{"mcpServers": null, "berth": null}`}, {"a.json", "null"},
		{"a.yaml", ""}, {"a.yaml", "# nothing\n"}, {"a.yml", "mcpServers:\nberth:\n"}, {"config", " \n"}, {"config", "{}"}, {"a.json", "\xef\xbb\xbf{}"},
	} {
		c := parse(t, tt.name, tt.text)
		if len(c.Backends) != 0 || !reflect.DeepEqual(c.Broker, Default().Broker) {
			t.Errorf("%s %q gives %+v", tt.name, tt.text, c)
		}
	}
}

func TestYAMLAndJSONSayTheSame(t *testing.T) {
	for _, tt := range []struct{ name, json, yaml string }{
		{"backends", `{"mcpServers": {"b": {"command": "x", "args": ["-y", "p"], "env": {"K": "${TOKEN}", "N": "1"}}, "a": {"type": "http", "url": "http://h/mcp"}}}`,
			"mcpServers:\n  b:\n    command: x\n    args:\n      - -y\n      - p\n    env:\n      K: ${TOKEN}\n      N: 1\n  a: {type: http, url: http://h/mcp}\n"},
		{"settings", `{"mcpServers": {"a": {"command": "x", "berth": {"max_in_flight": 2, "long": ["a*"], "verbs": {"z": {"seats": 2}, "y": {"seats": 1}}}}}, "berth": {"max_body": "1MiB"}}`,
			"mcpServers:\n  a:\n    command: x\n    berth: &limits\n      max_in_flight: 2\n      long: [a*]\n      verbs:\n        z: {seats: 2}\n        'y': {seats: 1}\nberth:\n  max_body: 1MiB\n"},
		{"aliases", `{"mcpServers": {"a": {"command": "x", "env": {"K": "v"}}, "b": {"command": "y", "env": {"K": "v"}}}}`,
			"mcpServers:\n  a: {command: x, env: &e {K: v}}\n  b: {command: y, env: *e}\n"},
		{"JSON is YAML", `{"mcpServers": {"a": {"command": "x"}}}`, `{"mcpServers": {"a": {"command": "x"}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fromJSON, fromYAML := parse(t, "a.json", tt.json), parse(t, "a.yaml", tt.yaml)
			if !reflect.DeepEqual(fromJSON, fromYAML) {
				t.Errorf("JSON %+v\nYAML %+v", fromJSON, fromYAML)
			}
		})
	}
}

func TestReferencesExpand(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"plain", "plain"}, {"$TOKEN", "$TOKEN"}, {"${DIR}", "/srv/app"}, {"a${DIR}b${HOST}c", "a/srv/appbapi.example.comc"},
		{"${NOPE:-x y}", "x y"}, {"${NOPE:-}", ""}, {"${EMPTY:-x}", ""}, {"${DIR:-x}", "/srv/app"}, {"${env:DIR}", "/srv/app"},
		{"${env:NOPE:-d}", "d"}, {"$${DIR}", "${DIR}"}, {"$$${DIR}", "$${DIR}"}, {"${NOPE:-a:-b}", "a:-b"}, {"$", "$"}, {"a$", "a$"},
	} {
		c := parse(t, "a.json", `{"mcpServers": {"a": {"command": "x", "args": ["`+tt.in+`"]}}}`)
		if got := c.Backends[0].Args.Reveal()[0]; got != tt.want {
			t.Errorf("%s gives %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestDisabledBackendsNeedNoVariables(t *testing.T) {
	c := parse(t, "a.json", `{"mcpServers": {"a": {"disabled": true, "url": "${NOPE}"}, "b": {"command": "${NOPE}", "berth": {"disabled": true}}}}`)
	for _, b := range c.Backends {
		if !b.Settings.Disabled {
			t.Errorf("%s is not disabled", b.Name)
		}
	}
}

func TestBerthsOwnRegistrationIsPassedOver(t *testing.T) {
	for _, own := range []string{
		`{"type": "stdio", "command": "/usr/bin/berth", "args": ["stdio", "--state-dir", "${NOPE}"]}`,
		`{"type": "http", "url": "http://127.0.0.1:7420/mcp", "headers": {"Authorization": "Bearer ${BERTH_TOKEN}"}}`,
	} {
		c := parse(t, ".mcp.json", `{"mcpServers": {"berth": `+own+`, "a": {"command": "x"}}}`)
		if len(c.Backends) != 1 || len(c.Notes) != 1 || c.Notes[0].Pointer != "/mcpServers/berth" {
			t.Errorf("%s: backends %v, notes %v", own, c.Backends, c.Notes)
		}
	}
	if got := problems(t, "a.json", `{"mcpServers": {"berth": {"command": "other"}}}`); len(got) != 1 {
		t.Errorf("another program named berth: %v", got)
	}
}

func TestBackendSaysWhereItIsWithoutSecrets(t *testing.T) {
	c := parse(t, "a.json", `{"mcpServers": {"a": {"command": "/opt/x/tool"}, "b": {"url": "https://h:8443/path/${TOKEN}?key=${TOKEN}"}, "c": {"command": "x", "cwd": "/abs"}, "d": {"command": "x", "cwd": "rel"}}}`)
	for i, want := range []string{"tool", "https://h:8443", "x", "x"} {
		if got := c.Backends[i].Address(); got != want {
			t.Errorf("address %q, want %q", got, want)
		}
	}
	for i, want := range []string{"/etc", "", "/abs", "/etc/rel"} {
		if got := c.Backends[i].Dir("/etc"); want != "" && got != want {
			t.Errorf("directory %q, want %q", got, want)
		}
	}
}

func TestTheClosestRuleSaysWhenAJobIsStale(t *testing.T) {
	s := Settings{Verbs: []VerbRule{{Glob: "*", StaleAfter: 1}, {Glob: "get_*", StaleAfter: 2}, {Glob: "get_a", StaleAfter: 3}, {Glob: "get_a*", StaleAfter: 4}, {Glob: "get_long_*"}, {Glob: "put?", StaleAfter: 5}, {Glob: "pu*t", StaleAfter: 6}}}
	for verb, want := range map[string]time.Duration{"x": 1, "get_x": 2, "get_a": 3, "get_ab": 4, "get_long_x": 2, "put": 6, "put1": 5, "putt": 6} {
		if got := s.StaleAfter(verb); got != want {
			t.Errorf("%s: %d, want %d", verb, got, want)
		}
	}
	if got := (Settings{}).StaleAfter("x"); got != 0 {
		t.Errorf("without rules: %d", got)
	}
}

func TestAppsAreToldApartByTheirVariables(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"one without", `{"mcpServers": {"a": {"berth": {"app": "resmon"}}}}`},
		{"one without beside one with", `{"mcpServers": {"a": {"berth": {"app": "resmon"}}, "b": {"env": {"RESMON_PORT": "1"}, "berth": {"app": "resmon"}}}}`},
		{"an object of none is one of its own", `{"mcpServers": {"a": {"berth": {"app": "resmon"}}, "b": {"env": {}, "berth": {"app": "resmon"}}}}`},
		{"a disabled one does not count", `{"mcpServers": {"a": {"berth": {"app": "resmon"}}, "b": {"berth": {"app": "resmon", "disabled": true}}}}`},
	} {
		c := parse(t, "a.json", tt.text)
		if own := c.Backends[0].Env != nil; own || c.Backends[0].Address() != "resmon" {
			t.Errorf("%s: %+v", tt.name, c.Backends[0])
		}
		if len(c.Backends) > 1 && !c.Backends[1].Settings.Disabled && c.Backends[1].Env == nil {
			t.Errorf("%s: the second has no variables of its own", tt.name)
		}
	}
}
