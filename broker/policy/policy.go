package policy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/schema"
	"berth/broker/condition"
	"berth/broker/policy/proof"
	"berth/broker/shape"
)

// The keys of `_meta` that are addressed to the broker.
const (
	MetaIdempotencyKey    = "berth/idempotencyKey"
	MetaExpectedRuntimeID = "berth/expectedRuntimeId"
	MetaResultTokens      = "berth/resultTokens"
)

// argumentKey is the argument of long native verbs that carries an idempotency key.
const argumentKey = "idempotencyKey"

// maxKey is the longest idempotency key, in characters (contracts/native.md section 1.10).
const maxKey = 128

// Input is a call as its caller made it.
type Input struct {
	Profile   *catalog.Profile
	Principal broker.Principal
	Name      string          // as the caller wrote it
	Arguments json.RawMessage // absent, null or an object; else refused
	Meta      json.RawMessage // absent, null or an object; else refused

	// Session is the caller's, for proofs that are bound to one; empty without.
	Session string
	// Gate holds writes back; nil: none does.
	Gate Gate

	// Availability says how a backend is; nil: nothing is said of it.
	Availability func(backend string) string

	// options are those of a meta-call that stand in Meta, by their key there.
	options map[string]string
}

// Plan is what policy found out about a call. Of one that is refused it holds
// what was found until then.
type Plan struct {
	Verb    *catalog.Verb  // the target's of a meta-call; nil: there is none of this name
	Name    string         // by which Verb was asked for
	Called  *catalog.Verb  // the verb that was called itself: Verb, or the one that passes it on
	Via     string         // direct, or the verb that passed the call on
	Effects broker.Effects // of this call, once Judged
	Judged  bool
	Lane    broker.Lane
	Long    bool // accepted as a job at once

	// Arguments are what the verb is to receive: those of a native verb
	// normalised (contracts/native.md section 1.7), others as they came, nil
	// when none came.
	Arguments json.RawMessage

	// Proving is what the call has proven and must prove again when it is
	// admitted; nil: nothing.
	Proving *proof.Proving

	ExpectedRuntimeID string
	ResultTokens      shape.Budget // zero: the call does not say
	IdempotencyKey    string       // empty for a verb of the control lane
	// Digest is of verb and arguments. It is set when there is a key: nothing
	// else asks for it, and it costs a pass over the arguments.
	Digest string
}

// step is one check. It reads the input and what earlier steps found, and adds
// what it finds to the plan.
type step struct {
	name string
	run  func(*Input, *Plan) *broker.Refusal
}

// steps is the order of DESIGN section 4, step 2. A meta-call is judged by its
// target from the step of that name on. Limits of the principal, which nothing
// needs yet, come last. A hold, and the replay of a key, are looked at where the
// call is accepted.
var steps = []step{
	{"resolve", resolve},
	{"visible", visible},
	{"read-only", readOnly},
	{"changed", changed},
	{"object", object},
	{"target", target},
	{"arguments", arguments},
	{"effects", effects},
	{"read-only call", readOnlyCall},
	{"call_read", onlyReads},
	{"proofs", proofs},
	{"expectation", expectation},
	{"result budget", resultTokens},
	{"idempotency", idempotency},
}

// Check passes a call through every step, in order. The first refusal is the answer.
func Check(in Input) (Plan, *broker.Refusal) {
	plan := Plan{Via: catalog.ViaDirect}
	for _, s := range steps {
		if refusal := s.run(&in, &plan); refusal != nil {
			return plan, refusal
		}
	}
	return plan, nil
}

// resolve finds the verb by the name as it was given, once.
func resolve(in *Input, plan *Plan) *broker.Refusal {
	plan.Verb, plan.Name = nil, in.Name
	v, ok := in.Profile.Resolve(in.Name)
	if !ok {
		in.Profile = seen(in)
		return unknown(in)
	}
	plan.Verb = v
	if plan.Called == nil {
		plan.Called = v
	}
	return nil
}

const (
	// maxEcho is how much of an unknown name is repeated, in bytes.
	maxEcho        = 128
	maxSuggestions = 3
)

// suggested is a verb that an unknown name may have meant.
type suggested struct {
	Name         string `json:"name"`
	Via          string `json:"via"`
	Visibility   string `json:"visibility"`
	Availability string `json:"availability,omitempty"`
	Why          string `json:"why"`
}

// unknown is the answer for a name that is not in the profile, in the words of
// contracts/catalog.md section 7.
func unknown(in *Input) *broker.Refusal {
	name, near := in.Name, in.Profile.Suggestions(in.Name, maxSuggestions)
	if len(name) > maxEcho {
		n := maxEcho
		for n > 0 && !utf8.RuneStart(name[n]) {
			n--
		}
		name = name[:n] + "..."
	}
	message := "Tool not found: " + name
	suggestions, names := make([]suggested, 0, len(near)), make([]string, 0, len(near))
	for _, s := range near {
		line := suggested{Name: s.Name, Via: in.Profile.Via(s.Verb), Visibility: string(in.Profile.VisibilityOf(s.Verb)), Why: s.Why.String()}
		if in.Availability != nil {
			line.Availability = in.Availability(s.Verb.Backend)
		}
		suggestions, names = append(suggestions, line), append(names, s.Name)
	}
	if len(near) > 0 {
		message += ". Did you mean: " + strings.Join(names, ", ") + "?"
	}
	detail := map[string]any{"name": name, "suggestions": suggestions}
	if !in.Profile.Exact() {
		detail["catalog"] = in.Profile.Fingerprint()
		if help, ok := in.Profile.Named(helpVerb); ok {
			detail["help"] = map[string]any{"name": help.Name, "arguments": map[string]string{"name": name}}
		}
	}
	return broker.Refuse(broker.CodeVerbUnknown, message, detail)
}

// helpVerb is who explains an unknown name, where it is visible.
const helpVerb = "help"

// seen is the profile as the principal has it; nobody is anonymous here.
func seen(in *Input) *catalog.Profile {
	return in.Profile.As(catalog.Class{Role: cmp.Or(in.Principal.Role, nobody)})
}

// nobody is no role.
const nobody broker.Role = "nobody"

// visible refuses a verb that the principal's role may not see in the words of
// an unknown name, as if it did not exist.
func visible(in *Input, plan *Plan) *broker.Refusal {
	in.Profile = seen(in)
	if _, ok := in.Profile.Resolve(in.Name); ok {
		return nil
	}
	if plan.Called == plan.Verb {
		plan.Called = nil
	}
	plan.Verb = nil
	return unknown(in)
}

// changed refuses a verb of a pinned backend that is not what was accepted.
func changed(in *Input, plan *Plan) *broker.Refusal {
	if plan.Verb.Changed == "" {
		return nil
	}
	return catalog.ChangedRefusal(in.Profile.Outward(plan.Verb), plan.Verb.Backend, plan.Verb.OwnDigest(), plan.Verb.Changed)
}

// readOnly refuses a verb of which no call is permitted, before its arguments
// are looked at.
func readOnly(in *Input, plan *Plan) *broker.Refusal {
	if !in.Profile.Denied(plan.Verb) {
		return nil
	}
	return broker.Refuse(broker.CodeReadOnly, "Only verbs that read may be called here, and "+in.Profile.Outward(plan.Verb)+" does more; nothing was sent.",
		map[string]any{"verb": in.Profile.Outward(plan.Verb), "effects": plan.Verb.Effects.Names(), "read_only": true})
}

// onlyReads refuses what the verb that passes reads on would have to pass on as
// more.
func onlyReads(_ *Input, plan *Plan) *broker.Refusal {
	if plan.Via != string(catalog.PassReads) || plan.Effects.ReadOnly() {
		return nil
	}
	return broker.Refuse(broker.CodeEffectsExceedRead, plan.Via+" passes on what changes nothing, and this call of "+plan.Verb.Name+" does more; nothing was sent. Use "+string(catalog.PassAll)+".",
		map[string]any{"verb": plan.Verb.Name, "effects": plan.Effects.Names(), "use": string(catalog.PassAll)})
}

// readOnlyCall refuses a call whose arguments make it more than a read, where
// another call of the verb would be allowed, and says which.
func readOnlyCall(in *Input, plan *Plan) *broker.Refusal {
	if !in.Profile.DeniedFor(plan.Verb, plan.Effects) {
		return nil
	}
	_, permitted := plan.Verb.Permits()
	when := make([][]condition.Condition, 0, len(permitted))
	for _, rule := range permitted {
		when = append(when, rule.When)
	}
	return broker.Refuse(broker.CodeReadOnly, "Only calls that read are allowed here, and with these arguments "+in.Profile.Outward(plan.Verb)+" does more; nothing was sent.",
		map[string]any{"verb": in.Profile.Outward(plan.Verb), "effects": plan.Effects.Names(), "read_only": true, "reads_when": when})
}

// object refuses arguments and `_meta` that are no object, in every profile.
func object(in *Input, plan *Plan) *broker.Refusal {
	if !absent(in.Arguments) && !isObject(in.Arguments) {
		return unfit(plan, "", "type", "object")
	}
	if !absent(in.Meta) && !isObject(in.Meta) {
		return unfit(plan, "/_meta", "type", "object")
	}
	return nil
}

// arguments normalises those of a native verb and checks them against the
// schema; in an exact profile a backend checks its own, and a surface always.
func arguments(in *Input, plan *Plan) *broker.Refusal {
	plan.Arguments = plan.Verb.NormaliseArguments(in.Arguments)
	if plan.Verb.Surface != nil || (in.Profile.Exact() && !plan.Verb.Native) {
		return nil
	}
	return plan.Verb.CheckArguments(plan.Arguments)
}

// effects judges the call by what its arguments select.
func effects(_ *Input, plan *Plan) *broker.Refusal {
	plan.Effects, plan.Judged = plan.Verb.EffectsFor(plan.Arguments), true
	return nil
}

// Gate is what holds a write back until its caller has seen what it changes.
type Gate interface {
	Rules() *proof.Rules
	Look(backend string, who proof.Caller, d proof.Demand) []proof.Unproven
}

// proofs refuses a call that changes what its caller has not seen. It only looks;
// the marks are taken when the call is admitted.
func proofs(in *Input, plan *Plan) *broker.Refusal {
	if in.Gate == nil {
		return nil
	}
	rules := in.Gate.Rules()
	demand := rules.Demand(plan.Verb.Name, plan.Effects, plan.Arguments)
	if demand.Empty() {
		return nil
	}
	profile := in.Profile
	demand.Called = profile.Outward(plan.Verb)
	plan.Proving = &proof.Proving{Rules: rules, Demand: demand, Callable: func(v *catalog.Verb) (name, via string, ok bool) {
		name = profile.Outward(v) // an exact profile has it under the backend's own
		if known, ok := profile.Resolve(name); !ok || known != v {
			return "", "", false
		}
		return name, profile.Via(v), !profile.Denied(v)
	}}
	if unproven := in.Gate.Look(plan.Verb.Backend, proof.Caller{Principal: in.Principal, Session: in.Session}, demand); len(unproven) > 0 {
		return plan.Proving.Refuse(unproven)
	}
	return nil
}

// expectation reads the incarnation that the caller expects to answer.
func expectation(in *Input, plan *Plan) *broker.Refusal {
	raw, ok := member(in.Meta, MetaExpectedRuntimeID)
	if !ok {
		return nil
	}
	id, isText := shape.Text(raw)
	if !isText || id == "" {
		return unfit(plan, in.place(MetaExpectedRuntimeID), "type", "a runtime id: a string that is not empty")
	}
	plan.ExpectedRuntimeID = id
	return nil
}

// resultTokens reads what the answer may cost.
func resultTokens(in *Input, plan *Plan) *broker.Refusal {
	raw, ok := member(in.Meta, MetaResultTokens)
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 1 {
		return unfit(plan, in.place(MetaResultTokens), "type", "a number of tokens: an integer of 1 or more")
	}
	plan.ResultTokens = shape.Budget(n)
	return nil
}

// idempotency reads the key and settles how the call is accepted: a verb that
// is long, and any call with a key, becomes a job at once.
func idempotency(in *Input, plan *Plan) *broker.Refusal {
	var keys []json.RawMessage
	if raw, ok := member(in.Meta, MetaIdempotencyKey); ok {
		keys = append(keys, raw)
	}
	hashed := plan.Arguments
	if plan.Verb.Native && plan.Verb.Long {
		if raw, ok := member(plan.Arguments, argumentKey); ok {
			keys = append(keys, raw)
			hashed = without(plan.Arguments, argumentKey)
		}
	}
	for _, raw := range keys {
		key, isText := shape.Text(raw)
		if n := utf8.RuneCountInString(key); !isText || n < 1 || n > maxKey {
			return broker.Refuse(broker.CodeIdempotencyKey, "An idempotency key is a string of 1 to 128 characters.", nil)
		}
		if plan.IdempotencyKey != "" && plan.IdempotencyKey != key {
			return broker.Refuse(broker.CodeIdempotencyKey, "The call carries two different idempotency keys.", nil)
		}
		plan.IdempotencyKey = key
	}
	if plan.Verb.Control {
		// It is answered at once and changes nothing: there is nothing to repeat.
		plan.Lane, plan.IdempotencyKey = broker.LaneControl, ""
		return nil
	}
	if plan.IdempotencyKey != "" {
		plan.Digest = Digest(plan.Verb.Name, hashed)
	}
	if plan.Long = plan.Verb.Long || plan.IdempotencyKey != ""; plan.Long {
		plan.Lane = broker.LaneJobs
	}
	return nil
}

// Digest names what a call would do: SHA-256, in hexadecimal, of the verb and
// of its arguments in one canonical spelling (members sorted, number text
// kept). Absent arguments are the empty object.
func Digest(verb string, arguments json.RawMessage) string {
	if absent(arguments) {
		arguments = json.RawMessage("{}")
	}
	canonical, err := shape.Canonical(arguments)
	if err != nil {
		canonical = arguments // deeper than the canoniser goes: the same bytes are the same call
	}
	h := sha256.New()
	h.Write([]byte(verb))
	h.Write([]byte{0})
	h.Write(canonical)
	return hex.EncodeToString(h.Sum(nil))
}

// unfit refuses a part of the call in the words of arguments that do not fit.
func unfit(plan *Plan, pointer, rule, wanted string) *broker.Refusal {
	return plan.Verb.Misfit("The call is malformed; nothing was sent.", schema.Violation{Pointer: pointer, Rule: rule, Wanted: wanted})
}

// place is where the caller wrote a key of `_meta`: there, or as an option.
func (in *Input) place(key string) string {
	if option, ok := in.options[key]; ok {
		return "/options/" + option
	}
	return "/_meta/" + strings.ReplaceAll(key, "/", "~1")
}

func absent(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

func isObject(raw json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))
}

// member finds the last member of an object that has a name.
func member(object json.RawMessage, name string) (value json.RawMessage, ok bool) {
	if absent(object) || !bytes.Contains(object, []byte("{")) {
		return nil, false
	}
	members, err := shape.Members(object)
	if err != nil {
		return nil, false
	}
	for _, m := range members {
		if m.Name == name {
			value, ok = m.Value, true
		}
	}
	return value, ok
}

// without gives an object without the members of a name.
func without(object json.RawMessage, name string) json.RawMessage {
	members, err := shape.Members(object)
	if err != nil {
		return object
	}
	out := []byte{'{'}
	for _, m := range members {
		if m.Name == name {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.Raw...), ':'), m.Value...)
	}
	return append(out, '}')
}
