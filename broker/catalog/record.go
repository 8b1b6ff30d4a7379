package catalog

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/catalog/schema"
	"berth/broker/shape"
)

// Rules is the configuration of one backend that the catalog needs. Globs are
// path.Match patterns over upstream names; where several match, an exact name
// counts before a pattern, a longer pattern before a shorter one. In the tables
// the empty glob is the backend's own value, for verbs that no other selects.
type Rules struct {
	TrustAnnotations bool
	Effects          []EffectRule
	Long             []string                 // verbs that are accepted as a job at once
	PromoteAfter     map[string]time.Duration // absent: as for the client; negative: never
	CallTimeout      map[string]time.Duration
	Seats            map[string]int
	Tracks           map[string]*broker.Track // how the work that a verb starts is followed
	RequireTask      []string                 // verbs that only a client which takes tasks may call
	ReadOnly         bool                     // verbs that do more than read are refused
	Essential        []string                 // verbs of the essential tier
	Keywords         map[string][]string      // extra words for search
	Ranks            map[string]int           // place inside a selector; the lower the earlier
	ResultTokens     map[string]shape.Budget  // what one answer may cost; shape.Whole: it is never cut
	Pin              bool                     // a verb that changed is not called until it is accepted
	Unguided         bool                     // error results are passed on without a minimal call
	Line             string                   // the operator's line for the instructions
}

// Source is what is known of one backend.
type Source struct {
	Backend string
	Native  bool
	Listed  bool // false: nothing is known yet
	Stale   bool // listed by an earlier broker; not confirmed since
	Server  broker.ServerInfo
	Tools   []broker.Tool
	Rules   Rules

	Surface *Surface // of a local app; nil for what is passed through

	// Native families and surfaces declare these.
	Effects map[string]broker.Effects // of every verb
	// Conditional holds, by verb, rules that narrow Effects for some arguments.
	Conditional map[string][]EffectRule
	Control     []string // verbs of the control lane: never queued, no seat

	// Held are verbs of a native family that an operator's stop holds.
	Held []string
	// Checks judge the arguments of a native verb, by its name, where they say more
	// than its schema can: a refusal has a detail. They look at nothing else, and
	// leave what they cannot read to the schema, as invalid_arguments.
	Checks map[string]func(arguments json.RawMessage) *broker.Refusal

	// Facts is what they say of a verb besides its entry, by its name.
	Facts map[string]Facts

	// Accepted is what a pinned backend listed when an operator last took it;
	// nil: whatever it lists is taken.
	Accepted []broker.Tool

	// The rest is for native families only.
	// Handlers are the verbs that the family's code answers.
	Handlers []string
	Family   string            // of every verb that Facts gives no other; native verbs need one
	Aliases  map[string]string // alias -> verb
	Beside   []string          // verbs that stand in every backend's exact profile too
	Passes   map[string]Pass   // verbs that pass a call on
	// MergedOnly are verbs that no exact profile has, the family's own included.
	MergedOnly []string
}

// The families that the catalog itself knows.
const (
	// FamilyCatalog are the verbs that find and call others. They are part of
	// every profile's required set.
	FamilyCatalog = "catalog"
	FamilyHealth  = "health"
)

// Transport is how a call comes.
type Transport string

// The transports.
const (
	OverMCP  Transport = "mcp"  // streamable HTTP, and stdio, which is a bridge to it
	OverREST Transport = "rest" // the operator API
)

// Transports lists every transport.
var Transports = []Transport{OverMCP, OverREST}

// Facts is what the owner of a verb says of it besides its entry. The zero
// value says nothing.
type Facts struct {
	Family       string
	Keywords     []string
	Rank         int
	Essential    bool // in the essential tier
	Required     bool // in the required set of every profile that is not exact
	ResultTokens shape.Budget
	Scope        []broker.Role // who sees it; empty: every authenticated caller
	// Participants: a caller that takes part in the board sees it, whatever Scope says.
	Participants bool
	// OwnRecords: it answers of its caller's own records only, so that everybody
	// sees it in a profile that holds more than the broker's own verbs.
	OwnRecords bool
	Transports []Transport // where it is served; empty: everywhere
	Next       []Next
}

// Next is a verb that is worth calling afterwards.
type Next struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// maxNext is how many of them a verb has at most.
const maxNext = 3

// The sources of a verb's effects (contracts/catalog.md section 4).
const (
	FromOperator   = "operator"
	FromAnnotation = "annotation"
	FromNative     = "native"
	FromSurface    = "surface"
	FromUnknown    = "unknown"
)

// Verb is one record of the catalog.
type Verb struct {
	Name     string // canonical: native bare, upstream backend__verb
	Upstream string // what the backend calls it, byte for byte
	Backend  string
	Native   bool
	Surface  *Surface // whose contract it is; nil for none of its own
	Aliases  []string // sorted; callable, never listed

	Family       string
	Summary      string // first sentence of the description, at most 120 characters
	Keywords     []string
	Rank         int
	Essential    bool
	Required     bool
	ResultTokens shape.Budget
	Scope        []broker.Role
	Participants bool
	OwnRecords   bool
	Transports   []Transport
	Next         []Next
	// Changed is the digest of what a pinned backend lists now; empty: it lists
	// what was accepted. Calls are refused then.
	Changed string

	Effects       broker.Effects // upper bound: what some arguments may do
	EffectsSource string
	Conditional   []EffectRule // what narrower arguments do, in order; see EffectsFor

	Long         bool
	Tracks       *broker.Track // nil: not declared
	RequireTask  bool          // called only by clients that take tasks; Long then
	OwnTask      TaskSupport   // what the backend's own entry says
	Control      bool
	Follow       *broker.Follow // nil: it starts no work that a surface follows
	Held         bool           // a hold stops its calls
	Pass         Pass           // it passes a call on
	Unguided     bool           // its error results are passed on as they are
	ReadOnly     bool           // of a backend that may only read
	Seats        int            // at least 1
	PromoteAfter *time.Duration
	CallTimeout  *time.Duration

	HasOutputSchema bool
	InputSchema     json.RawMessage // as it came; nil when the entry has no object there
	Own             json.RawMessage // the backend's entry, byte for byte
	Listed          json.RawMessage // the entry of the merged list

	description string
	schema      *schema.Schema // nil: unreadable says why
	check       func(json.RawMessage) *broker.Refusal
	unreadable  error
	unfit       string // why no merged list can hold it; empty: one can
	minimal     func() (json.RawMessage, error)
	digest      func() string
	pinned      func() *broker.PinnedEntry // nil: its backend is not pinned
}

// Extent says how far a quarantine reaches.
type Extent string

// The extents.
const (
	// Noted: the verb is served all the same.
	Noted Extent = "noted"
	// OutOfMerged: the verb is only in its backend's exact profile.
	OutOfMerged Extent = "merged"
	// OutOfAll: the verb is in no list and not callable.
	OutOfAll Extent = "all"
)

// The registration refusals (contracts/catalog.md section 1).
const (
	CodeNameInvalid    = "verb_name_invalid"
	CodeDuplicate      = "verb_duplicate"
	CodeAliasShadows   = "alias_shadows_verb"
	CodeAliasOfNothing = "alias_of_nothing"
	CodeNoEffects      = "verb_without_effects"
	CodeSchemaInvalid  = "verb_schema_invalid"
	CodeBackendName    = "backend_name_invalid"
	CodeGlobInvalid    = "glob_invalid"
	CodeEffectsWidens  = "effects_rule_widens"
	CodePointer        = "pointer_unresolvable"
	CodeNoFamily       = "verb_without_family"
	CodeNotServed      = "verb_not_served"
	CodeMinimalInvalid = "minimal_call_invalid"
	CodeVerbChanged    = "verb_changed"
	CodeParity         = "parity"

	// Of profiles.
	CodeProfileTooSmall  = "profile_too_small"
	CodeProfileNameTaken = "profile_name_taken"
	CodeSelectsNothing   = "selects_nothing"
	CodeInstructionsCap  = "instructions_over_cap"
)

// Quarantined is something of a source that is not served, or served with a
// reservation.
type Quarantined struct {
	Backend string
	Verb    string // upstream name, or the alias concerned; empty for the whole backend
	Profile string // that is not as it is configured
	Pattern string // of the configuration, that selects nothing
	Code    string
	Reason  string // one sentence
	Extent  Extent
	// Fatal is true for the broker's own verbs and for names that configuration
	// must not use: the process must not start, a swap must not happen.
	Fatal bool
}

// Subject says what it is about, in a few words.
func (q Quarantined) Subject() string {
	switch {
	case q.Profile != "":
		return "profile " + q.Profile
	case q.Pattern != "":
		return strings.TrimSpace(q.Backend + " " + strconv.Quote(q.Pattern))
	}
	return strings.TrimSpace(q.Backend + " " + q.Verb)
}
