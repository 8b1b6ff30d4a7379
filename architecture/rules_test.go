package architecture

import "strings"

// A rule says what the packages below a path must not import, except for what
// it allows. Patterns are import paths; one that ends in /... also means
// everything below it.
type rule struct {
	name   string
	in     []string // packages that the rule is for
	but    []string // packages among them that it is not for
	deny   []string // imports that are refused
	allow  []string // imports among those that are fine
	always bool     // test files too
	why    string
}

var rules = []rule{
	{
		name: "broker imports broker only",
		in:   []string{"berth/broker/..."}, deny: []string{"berth/..."}, allow: []string{"berth/broker/..."},
		why: "the core is what everything else stands on (DESIGN section 3)",
	},
	{
		name: "the root of broker imports nothing of the module",
		in:   []string{"berth/broker"}, deny: []string{"berth/..."},
		why: "it is the vocabulary that the packages below it share",
	},
	{
		name: "broker does no I/O",
		in:   []string{"berth/broker/..."}, but: []string{"berth/broker/config/gendoc"},
		deny: []string{"os/...", "net/...", "syscall/...", "io/fs", "io/ioutil", "path/filepath", "log", "plugin", "unsafe",
			"golang.org/x/sys/...", "golang.org/x/term/...", "golang.org/x/sync/errgroup"},
		allow: []string{"net/url", "net/netip"},
		why:   "a core without files and sockets is tested without them; they are arguments",
	},
	{
		name: "broker makes no randomness",
		in:   []string{"berth/broker/..."}, deny: []string{"crypto/rand", "math/rand/..."}, allow: []string{"math/rand/v2"},
		why: "randomness is an argument (math/rand/v2 for its types; its global functions are refused below)",
	},
	{
		name: "broker knows no infrastructure",
		in:   []string{"berth/broker/..."},
		deny: []string{"github.com/asynkron/protoactor-go/...", "go.etcd.io/bbolt/...", "github.com/mark3labs/mcp-go/...",
			"github.com/modelcontextprotocol/go-sdk/...", "github.com/spf13/...", "github.com/prometheus/..."},
		why: "how bytes travel, rest and are counted is decided outside",
	},
	{
		name: "journal imports the root of broker only",
		in:   []string{"berth/journal/..."}, deny: []string{"berth/..."}, allow: []string{"berth/broker", "berth/journal/..."},
		why: "a record is made of the vocabulary; the store knows nobody who uses it",
	},
	{
		name: "actors import broker only",
		in:   []string{"berth/actors/..."}, deny: []string{"berth/..."}, allow: []string{"berth/broker/...", "berth/actors/..."},
		why: "actors reach backends and the journal through interfaces that they declare themselves",
	},
	{
		name: "actors do no I/O",
		in:   []string{"berth/actors/..."}, deny: []string{"os/...", "net/...", "syscall/...", "log"}, allow: []string{"net/url", "net/netip"},
		why: "an actor never blocks on I/O; a transport does it",
	},
	{
		name: "transports import actors and broker only",
		in:   []string{"berth/transport/..."}, deny: []string{"berth/..."},
		allow: []string{"berth/broker/...", "berth/actors/...", "berth/transport/..."},
		why:   "cmd wires; a transport that opened the journal would be a second way in",
	},
	{
		name: "the backend side knows broker only",
		in:   []string{"berth/transport/mcpclient/...", "berth/transport/app/...", "berth/transport/guard/...", "berth/transport/statedir/...", "berth/transport/jsonrpc/...", "berth/transport/install/..."},
		deny: []string{"berth/actors/..."},
		why:  "it satisfies Upstream with types of broker, so that actors can be tested without it and it without actors",
	},
	{
		name: "the fake resmon is for tests",
		in:   []string{"berth/..."}, but: []string{"berth/transport/app/resmontest/..."}, deny: []string{"berth/transport/app/resmontest/..."},
		why: "what it answers is made up; only a test and its own command may start one",
	},
	{
		name: "nobody imports cmd",
		in:   []string{"berth/..."}, but: []string{"berth/cmd/..."}, deny: []string{"berth/cmd/..."}, always: true,
		why: "only cmd wires",
	},
	{
		name: "protoactor-go is its actor package",
		in:   []string{"berth/..."}, deny: []string{"github.com/asynkron/protoactor-go/..."}, allow: []string{"github.com/asynkron/protoactor-go/actor"}, always: true,
		why: "the other packages carry the traps of contracts/core.md section 1",
	},
	{
		name: "only actors know protoactor-go",
		in:   []string{"berth/..."}, but: []string{"berth/actors/..."}, deny: []string{"github.com/asynkron/protoactor-go/..."},
		why: "the actor library can be replaced in one place",
	},
	{
		name: "mcp-go's server is for fixtures and tests",
		in:   []string{"berth/..."}, but: fixtures, deny: []string{"github.com/mark3labs/mcp-go/server/..."},
		why: "it is not transparent and leaks (contracts/core.md section 2); the front is our own",
	},
	{
		name: "the official SDK is for fixtures and tests",
		in:   []string{"berth/..."}, but: fixtures, deny: []string{"github.com/modelcontextprotocol/go-sdk/..."},
		why: "it is a counterpart to test against",
	},
	{
		name: "only transports know MCP libraries",
		in:   []string{"berth/..."}, but: append([]string{"berth/transport/..."}, fixtures...), deny: []string{"github.com/mark3labs/mcp-go/..."},
		why: "transport is the only place that knows JSON-RPC and HTTP",
	},
	{
		name: "only the journal knows bbolt",
		in:   []string{"berth/..."}, but: []string{"berth/journal/..."}, deny: []string{"go.etcd.io/bbolt/..."},
		why: "the journal's interface is free of its store's types (DESIGN section 11)",
	},
	{
		name: "only commands know cobra",
		in:   []string{"berth/..."}, but: []string{"berth/cmd/..."}, deny: []string{"github.com/spf13/..."},
		why: "flags are read where a process starts",
	},
	{
		name: "only transport/tracing knows OpenTelemetry",
		in:   []string{"berth/..."}, but: []string{"berth/transport/tracing"}, deny: []string{"go.opentelemetry.io/..."},
		why: "parts of calls are told through actors.Span; who records them can be replaced",
	},
	{
		name: "only transport/metrics knows Prometheus",
		in:   []string{"berth/..."}, but: []string{"berth/transport/metrics"}, deny: []string{"github.com/prometheus/..."},
		why: "the names of the metrics stand in one table",
	},
	{
		name: "only commands know bubbletea",
		in:   []string{"berth/..."}, but: []string{"berth/cmd/..."}, deny: []string{"charm.land/...", "github.com/charmbracelet/..."},
		why: "a terminal is where a process starts",
	},
	{
		name: "slog only",
		in:   []string{"berth/..."}, but: fixtures, deny: []string{"log"},
		why: "one injected logger with typed attributes; the global one goes to stderr unseen",
	},
}

// fixtures are programs that tests and the demo talk to, and what measures.
var fixtures = []string{"berth/fixture/...", "berth/fixtures/...", "berth/internal/fixture/...", "berth/internal/fixtures/...", "berth/test/...", "berth/demo/...", "berth/bench/...",
	"berth/cmd/berth-fixture", "berth/cmd/berth-demo"}

// pure are the packages that may not start a goroutine or read a clock.
var pure = rule{in: []string{"berth/broker/..."}, but: []string{"berth/broker/config/gendoc"}}

// impure are functions that a pure package must not use, and what they do.
var impure = map[string]map[string]string{
	"time": {
		"Now": "read a clock", "Since": "read a clock", "Until": "read a clock", "Sleep": "wait", "After": "start a timer",
		"AfterFunc": "start a timer", "Tick": "start a timer", "NewTimer": "start a timer", "NewTicker": "start a timer",
	},
	"context": {
		"WithTimeout": "start a timer", "WithTimeoutCause": "start a timer", "WithDeadline": "start a timer",
		"WithDeadlineCause": "start a timer", "AfterFunc": "start a goroutine",
	},
	"math/rand/v2": {
		"Int": "make randomness", "IntN": "make randomness", "Int64": "make randomness", "Int64N": "make randomness", "Int32": "make randomness",
		"Int32N": "make randomness", "Uint32": "make randomness", "Uint32N": "make randomness", "Uint64": "make randomness", "Uint64N": "make randomness",
		"UintN": "make randomness", "N": "make randomness", "Float32": "make randomness", "Float64": "make randomness", "Perm": "make randomness",
		"Shuffle": "make randomness", "NormFloat64": "make randomness", "ExpFloat64": "make randomness", "Uint": "make randomness",
	},
}

// bannedNames say nothing about what is in a package.
var bannedNames = map[string]bool{"util": true, "utils": true, "common": true, "helper": true, "helpers": true, "types": true, "models": true, "misc": true, "shared": true}

// within reports whether path is one of patterns.
func within(path string, patterns []string) bool {
	for _, p := range patterns {
		tree, below := strings.CutSuffix(p, "/...")
		if path == tree || (below && strings.HasPrefix(path, tree+"/")) {
			return true
		}
	}
	return false
}

// breaks reports whether pkg may not import path in this file.
func (r rule) breaks(pkg, path string, test bool) bool {
	if test && !r.always {
		return false
	}
	return within(pkg, r.in) && !within(pkg, r.but) && within(path, r.deny) && !within(path, r.allow)
}
