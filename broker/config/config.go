package config

import (
	"encoding/json"
	"path"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/condition"
	"berth/broker/shape"
)

// Config is one whole configuration.
type Config struct {
	// Broker holds the limits of the broker itself.
	Broker Broker `key:"berth"`
	// Backends are the entries of `mcpServers`, sorted by name. Disabled ones
	// are among them, so that they can be shown; they must not be started.
	Backends []Backend `key:"mcpServers"`
	// Notes are places that were passed over, in the order of the file. They
	// are no errors.
	Notes []Problem
}

// Never is the value of a duration that the file gives as "never". Any
// negative duration means the same.
const Never time.Duration = -1

// Broker is the `berth` object at the top of the file.
type Broker struct {
	// Address to listen on, `host:port`. Port 0 picks a free one, which is then
	// found in `berth.port` in the state directory.
	Listen string `key:"listen" default:"127.0.0.1:7420" check:"address"`
	// Further values of the `Host` header that are answered, besides the
	// addresses of this machine's loopback: `name` or `name:port`.
	AllowedHosts []string `key:"allowed_hosts" check:"host"`
	// How long a stopping broker lets running calls end.
	DrainTimeout time.Duration `key:"drain_timeout" default:"10s" min:"0s" max:"1h"`
	// Sessions at once; a further one is refused as `overloaded`.
	MaxSessions int `key:"max_sessions" default:"10000" min:"1" max:"1000000"`
	// Calls in flight of one session, queued ones included.
	MaxCallsPerSession int `key:"max_calls_per_session" default:"256" min:"1" max:"100000"`
	// Open response streams, over all sessions.
	MaxStreams int `key:"max_streams" default:"4096" min:"1" max:"1000000"`
	// Largest request body.
	MaxBody Size `key:"max_body" default:"64MiB" min:"1KiB" max:"1GiB"`
	// Arguments of all calls in flight together, over all backends, and as much
	// again of request bodies that are still read, of which the first MiB each
	// does not count. It cannot be less than `max_body`.
	MaxBytesInFlight Size `key:"max_bytes_in_flight" default:"256MiB" min:"1KiB" max:"64GiB"`
	// What is logged: this level and above.
	LogLevel string `key:"log_level" default:"info" enum:"debug|info|warn|error"`
	// Who but administrators may call which of the broker's own verbs. `seed`: the
	// documented table. `team`: everybody also has the board inside their tenant,
	// and `job_status` of their own jobs in every profile.
	Access string `key:"access" default:"seed" enum:"seed|team"`
	// Rules for clients, by the beginning of the name that a client gives of
	// itself (`clientInfo.name`); the longest beginning that fits applies.
	Clients []ClientRule `key:"clients" keyed:"Prefix"`
	// Profiles, by name. A new name is a profile of its own with what `select`
	// says; a name that exists (a backend's, `berth`, `essential` or `full`) takes
	// the keys that select nothing.
	Profiles []ProfileRule `key:"profiles" keyed:"Name"`
	// What an operator's hold stops ([operators](operators.md)).
	Hold HoldRules `key:"hold"`
	// What must be seen before it is changed ([catalog](catalog.md)).
	Proofs ProofRules `key:"proofs"`
	// The process that a wake on the coordination board starts
	// ([coordination](coordination.md)).
	AgentWake AgentWake `key:"agent_wake"`
	// How missions are carried out ([dispatch](dispatch.md)).
	Dispatch Dispatch `key:"dispatch"`
	// What clients put before the names of tools, besides `berth.` and
	// `mcp__berth__`; one is stripped. It ends in `__`, `.`, `/` or `:`.
	HarnessPrefixes []string `key:"harness_prefixes" check:"prefix"`
	// Where the spans of calls are sent.
	Tracing Tracing `key:"tracing"`
}

// AgentWake is a process that is started when a note of the coordination board is
// addressed to its participant.
type AgentWake struct {
	// The key of the participant on whose behalf it runs; `remoteTrigger.agentWake.participantKey`
	// elsewhere.
	ParticipantKey string `key:"participant_key" check:"participant"`
	// What an addressed note does besides being stored. `StoredWake`: nothing.
	// `SpawnProcess` and `Both`: it starts the process.
	DeliveryMode string `key:"delivery_mode" default:"StoredWake" enum:"SpawnProcess|StoredWake|Both"`
	// Which program it is: it decides the arguments. Without it nothing is started
	// until a session registers one.
	Runtime string `key:"runtime" enum:"Claude|Codex|OpenCode"`
	// The conversation that it takes up; without it Claude goes on with the latest
	// of the working directory, Codex with its latest. OpenCode always begins anew.
	SessionID string `key:"session_id" check:"session"`
	// The program, if it is not `claude`, `codex` or `opencode` in the `PATH`.
	Command string `key:"command"`
	// Where it runs, absolute; the broker's own directory otherwise.
	WorkingDirectory string `key:"working_directory" check:"absolute"`
}

// Dispatch is how the agents of missions are run.
type Dispatch struct {
	// How long an agent may say nothing before its captain is called Stalled, which
	// an operator sees in the inbox. It is not ended.
	StallAfter time.Duration `key:"stall_after" default:"10m" min:"1s" max:"24h"`
	// How long an agent may work; its mission then ends Failed, `mission_timeout`.
	MissionTimeout time.Duration `key:"mission_timeout" default:"4h" min:"1s" max:"168h"`
	// Agents at once, over all vessels; further missions wait.
	MaxAgents int `key:"max_agents" default:"8" min:"1" max:"1000"`
	// Whether an agent is given an MCP configuration that leads back to this broker,
	// and a token of its own for it.
	DeliverMCP bool `key:"deliver_mcp" default:"true"`
	// Whether an agent may use its tools without asking, which nobody could answer.
	// Without it most programs change nothing.
	Unattended bool `key:"unattended" default:"true"`
	// Variables of the broker's environment that agents get, besides those that
	// every program needs.
	Env []string `key:"env"`
	// The longest log of a mission; what comes after it is not kept.
	MaxLog Size `key:"max_log" default:"64MiB" min:"64KiB" max:"16GiB"`
	// Whether an agent may search the code of its mission's vessel
	// (`mission_code_search`).
	CaptainSearch bool `key:"captain_search" default:"true"`
	// Hits of one such search at most.
	CaptainSearchMaxResults int `key:"captain_search_max_results" default:"10" min:"1" max:"100"`
	// Searches of one mission.
	CaptainSearchMaxCalls int `key:"captain_search_max_calls_per_mission" default:"40" min:"1" max:"10000"`
}

// HoldRules say what `berth hold engage` stops, besides Berth's own verbs that
// start work.
type HoldRules struct {
	// Verbs of backends, as globs over their names in the merged list
	// (`backend__verb`), that start work: while the hold is active their calls
	// are refused as `dispatch_hold_active`.
	Verbs []string `key:"verbs" check:"glob"`
}

// ClientRule is what applies to clients whose name begins with a prefix.
type ClientRule struct {
	// The beginning of the client's name.
	Prefix string
	// How long such a client is kept waiting before its call becomes a job.
	// Without it the broker's own table of measured clients applies.
	PromoteAfter time.Duration `key:"promote_after" never:"true" min:"1s" max:"24h"`
	// The longest message that such a client takes; an answer over it is refused
	// as `answer_too_large`. Without it the broker's own table applies: 15 MiB for
	// the clients that were seen to drop longer ones, no limit for others.
	MaxAnswer Size `key:"max_answer" min:"1KiB" max:"1GiB"`
}

// Kind is how a backend is reached.
type Kind string

// The kinds of a configured backend.
const (
	Stdio Kind = "stdio"
	HTTP  Kind = "http"
	App   Kind = "app" // never written: it follows from `app`
)

// Backend is one entry of `mcpServers`.
type Backend struct {
	// Name is the key of the entry.
	Name string
	// How the backend is reached: `stdio` (a child process) or `http`
	// (streamable HTTP; `streamable-http` and `streamableHttp` mean the same).
	// It follows from `command` or `url` when it is absent. `sse` is refused.
	Kind Kind `key:"type" enum:"stdio|http"`
	// The program to start.
	Command string `key:"command"`
	// Its arguments.
	Args SecretList `key:"args"`
	// Variables added to the child's environment. Of an app: the variables that
	// say where it is; without this key they are those of the broker's own
	// environment. The two are never merged.
	Env SecretMap `key:"env"`
	// The child's working directory. A relative path starts at the directory of
	// the configuration file, which is also the default.
	Cwd string `key:"cwd"`
	// The endpoint, `http` or `https`, without user name and fragment.
	URL Secret `key:"url"`
	// Headers sent with every request to the endpoint.
	Headers SecretMap `key:"headers"`
	// Berth's own keys for this backend.
	Settings Settings `key:"berth"`
}

// Address says where the backend is without anything that may be a
// credential: the program's name, or the scheme and host of the endpoint.
func (b Backend) Address() string {
	switch b.Kind {
	case Stdio:
		return path.Base(strings.ReplaceAll(b.Command, `\`, "/"))
	case App:
		return b.Settings.App
	}
	u, err := parseURL(b.URL.Reveal())
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Dir gives the child's working directory; configDir is the directory of the
// configuration file.
func (b Backend) Dir(configDir string) string {
	if path.IsAbs(b.Cwd) {
		return b.Cwd
	}
	return path.Join(configDir, b.Cwd)
}

// Start says when a backend is brought up.
type Start string

// The ways to start.
const (
	Lazy  Start = "lazy"
	Eager Start = "eager"
)

// Instances says who shares one incarnation of a backend.
type Instances string

// The ways to share.
const (
	Shared     Instances = "shared"
	PerSession Instances = "session"
)

// Settings is the `berth` object of an entry.
type Settings struct {
	// Names a local app that this entry stands for, instead of a `command` or a
	// `url`: its verbs are those of its own contract ([resmon](resmon.md)), and
	// its `env` says where it is.
	App string `key:"app" enum:"resmon"`
	// Passes the backend over: it is shown and never started. The key `disabled`
	// beside `command` or `url`, which some clients write, means the same.
	Disabled bool `key:"disabled" default:"false"`
	// Only verbs that read are listed and run, whoever calls; every other is
	// refused as `read_only_session` before its arguments are looked at. A verb
	// without known effects counts as one that writes.
	ReadOnly bool `key:"read_only" default:"false"`
	// When the backend is brought up. `lazy`: by the first call that needs it,
	// or by the first list as long as Berth has never seen its tools. `eager`:
	// when the broker starts.
	Start Start `key:"start" default:"lazy" enum:"lazy|eager"`
	// Who shares one incarnation. `shared`: all sessions. `session`: each
	// session has its own.
	Instances Instances `key:"instances" default:"shared" enum:"shared|session"`
	// Seats: calls that run at once. For an app the default is the app's own: 4
	// for resmon.
	MaxInFlight int `key:"max_in_flight" default:"16" min:"1" max:"10000"`
	// Calls that wait for a seat; a further one is refused as `overloaded`, except
	// the first of a session that has none waiting (up to half as many again).
	MaxQueued int `key:"max_queued" default:"256" min:"0" max:"100000"`
	// Jobs that wait for a seat.
	MaxQueuedJobs int `key:"max_queued_jobs" default:"1024" min:"0" max:"100000"`
	// How long a call waits for a seat before it is refused as `queue_timeout`.
	// Jobs wait on.
	QueueTimeout time.Duration `key:"queue_timeout" default:"60s" min:"100ms" max:"24h"`
	// How long the backend may take to come up and list its tools.
	StartTimeout time.Duration `key:"start_timeout" default:"30s" min:"100ms" max:"1h"`
	// How long a call may run.
	CallTimeout time.Duration `key:"call_timeout" default:"30m" min:"100ms" max:"720h"`
	// How long a running call may give no sign of life (no progress) before it is
	// cancelled as `idle_timeout`. Jobs have `stale_after` instead.
	IdleTimeout time.Duration `key:"idle_timeout" default:"never" never:"true" min:"1s" max:"720h"`
	// How long a caller is kept waiting before its call becomes a job. Without
	// it the client's own time applies: 45 s, longer for clients that were
	// measured to wait.
	PromoteAfter time.Duration `key:"promote_after" never:"true" min:"1s" max:"24h"`
	// Verbs, as globs over the backend's own names, whose calls become jobs at
	// once.
	Long []string `key:"long" check:"glob"`
	// Rules for single verbs, by a glob over the backend's own names.
	Verbs []VerbRule `key:"verbs" keyed:"Glob" check:"glob"`
	// Believes what the backend's annotations say of a verb's effects
	// (`readOnlyHint`, `destructiveHint`). Otherwise a verb without a rule in
	// `effects` counts as a write.
	TrustAnnotations bool `key:"trust_annotations" default:"false"`
	// Verbs of the essential tier, as globs over the backend's own names.
	Essential []string `key:"essential" check:"glob"`
	// Refuses calls of a verb that the backend lists otherwise than when it was
	// accepted (`verb_changed`), until `berth backends accept` takes it.
	Pin bool `key:"pin" default:"false"`
	// One line for the model, which stands in the instructions of each profile
	// that reaches this backend.
	Instructions string `key:"instructions" check:"line"`
	// Adds a minimal valid call to an error result of this backend, where one is
	// known.
	Guidance bool `key:"guidance" default:"true"`
	// What verbs do; the operator's word goes before the backend's.
	Effects []EffectRule `key:"effects"`
	// Largest answer; a larger one fails that call alone.
	MaxAnswer Size `key:"max_answer" default:"64MiB" min:"1KiB" max:"1GiB"`
	// How long a cancelled call may still answer before its seat is taken back.
	CancelGrace time.Duration `key:"cancel_grace" default:"10s" min:"0s" max:"10m"`
	// Speaks to the backend by handshake even if it offers the newer era
	// (2026-07-28). A child that offers both keeps to the one it is first spoken
	// to in, and only by handshake can its tools ask for something in the middle
	// of a call.
	Handshake bool `key:"handshake" default:"false"`
	// For a backend of type http that needs a fresh token: a program and its
	// arguments, without a shell, whose standard output is a JSON object of
	// headers. They are sent with every request and go before those in
	// `headers`. It runs before the first request, after `headers_ttl`, and after
	// the backend answered 401 or 403.
	HeadersCommand SecretList `key:"headers_command"`
	// How long its headers are used.
	HeadersTTL time.Duration `key:"headers_ttl" default:"never" never:"true" min:"1s" max:"720h"`
	// How long it may take.
	HeadersTimeout time.Duration `key:"headers_timeout" default:"10s" min:"100ms" max:"5m"`
}

// VerbRule is what applies to the verbs that a glob names. A zero field says
// nothing.
type VerbRule struct {
	// The glob: `*` any text without `/`, `?` one character, `[a-z]` a range.
	Glob string
	// As the backend's `promote_after`.
	PromoteAfter time.Duration `key:"promote_after" never:"true" min:"1s" max:"24h"`
	// As the backend's `call_timeout`.
	CallTimeout time.Duration `key:"call_timeout" min:"100ms" max:"720h"`
	// Seats that one call takes; no more than `max_in_flight`.
	Seats int `key:"seats" min:"1" max:"10000"`
	// How long a job of this verb may stay unfinished before it is reaped;
	// 30 minutes otherwise.
	StaleAfter time.Duration `key:"stale_after" min:"1s" max:"720h"`
	// How the work is followed that a job of this verb leaves in the backend.
	// A verb that answers a handle at once and works on should be in `long`, too.
	Tracks TrackRule `key:"tracks"`
	// Words by which `find` finds the verb, besides those of its own texts.
	Keywords []string `key:"keywords" check:"filled"`
	// Its place inside a selector of a profile; the lower the earlier.
	Rank int `key:"rank" min:"-1000" max:"1000"`
	// What one answer may cost, in tokens, or `whole`: it is never cut.
	ResultTokens shape.Budget `key:"result_tokens"`
	// Makes each call a job and refuses clients that do not take tasks (-32021).
	// Others get the job's handle as a plain result.
	RequireTask bool `key:"require_task"`
}

// TrackRule declares how work that lives in a backend is followed. One without
// a handle is none.
type TrackRule struct {
	// JSON pointer to the handle in the verb's own answer: in its structured
	// content, else in its first text block, which then is JSON. An answer
	// without a handle is the outcome.
	Handle string `key:"handle" check:"pointer" required:"true"`
	// The backend's verb that tells how the work stands, by its own name.
	Verb string `key:"verb" check:"filled" required:"true"`
	// Its argument that takes the handle, as a text.
	Argument string `key:"argument" check:"filled" required:"true"`
	// JSON pointer to the status word in its answer.
	Status string `key:"status" check:"pointer" required:"true"`
	// Words of work that goes on. A word that stands nowhere here is not
	// understood: the work counts as going on, but not as seen, so that it is
	// reaped in the end.
	Running []string `key:"running"`
	// Words of work that ended well.
	Succeeded []string `key:"succeeded" required:"true"`
	// Words of work that failed.
	Failed []string `key:"failed"`
	// Words of work that was cancelled.
	Cancelled []string `key:"cancelled"`
	// Words of work of which the backend does not know what became.
	Lost []string `key:"lost"`
	// JSON pointer to the outcome in the status verb's answer; without it the
	// whole answer is the outcome.
	Result string `key:"result" check:"pointer"`
	// JSON pointer to the reason of a failure.
	Message string `key:"message" check:"pointer"`
}

// StaleAfter gives the limit of an unfinished job of verb, or 0 when no rule
// names one: the verb's own name counts before a pattern, a longer pattern
// before a shorter one.
func (s Settings) StaleAfter(verb string) time.Duration {
	var best VerbRule
	for _, rule := range s.Verbs {
		if fits, err := path.Match(rule.Glob, verb); rule.StaleAfter == 0 || (rule.Glob != verb && (err != nil || !fits)) {
			continue
		}
		if best.StaleAfter == 0 || closer(rule.Glob, best.Glob, verb) {
			best = rule
		}
	}
	return best.StaleAfter
}

// closer reports whether glob a says more of verb than glob b.
func closer(a, b, verb string) bool {
	switch {
	case a == verb || b == verb:
		return a == verb
	case len(a) != len(b):
		return len(a) > len(b)
	}
	return a < b
}

// EffectRule says what the verbs that a glob names do.
type EffectRule struct {
	// A glob over the backend's own names.
	Verb string `key:"verb" check:"glob" required:"true"`
	// What they do: `read`, or any of `session`, `write`, `destroy`, `exec` and
	// `interrupt`.
	Is broker.Effects `key:"is" required:"true"`
	// Conditions on the arguments, all of which must hold. A rule with conditions
	// needs one without after it for the same verbs, and may only say less than it.
	When []ConditionRule `key:"when"`
}

// ConditionRule asks one thing of a call.
type ConditionRule struct {
	// Which argument: `args:` and a JSON Pointer, `*` for each item of a list.
	At string `key:"at" required:"true"`
	// What must be true of it. An absent argument satisfies only `absent`, and a
	// value of another JSON type never does.
	Op string `key:"op" enum:"present|absent|eq|in|prefix|contains" required:"true"`
	// What it is compared with: any value for `eq` and `contains`, a list for
	// `in`, text for `prefix`, none for the others.
	Value json.RawMessage `key:"value"`
}

// Conditions are the rule's, ready to be asked. A configuration that was parsed
// has no error.
func (r EffectRule) Conditions() ([]condition.Condition, error) {
	var out []condition.Condition
	for _, w := range r.When {
		c, err := condition.Parse(w.At, w.Op, w.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}
