package proof

import (
	"cmp"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/condition"
)

const (
	// MaxRepair is how many calls a refusal proposes.
	MaxRepair = 10
	// maxShown is how many unproven targets a refusal names, and maxShownText
	// how much of each, in bytes.
	maxShown     = 20
	maxShownText = 256
)

// shownTarget is one entry of `unproven`.
type shownTarget struct {
	Target  string `json:"target,omitempty"`
	Pointer string `json:"at,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Reason  Reason `json:"reason"`
}

// lacks says of one target, and of several, what a reason says against them.
var lacks = map[Reason][2]string{
	NoMark:           {"has not been read by you", "have not been read by you"},
	Expired:          {"was read by you too long ago", "were read by you too long ago"},
	Used:             {"was read by you for an earlier call, which used that up", "were read by you for an earlier call, which used that up"},
	VersionChanged:   {"is not of the version that you have read", "are not of the version that you have read"},
	WrittenSince:     {"was written by somebody else since you read it", "were written by somebody else since you read them"},
	OtherIncarnation: {"was read by you before its backend was started anew", "were read by you before their backend was started anew"},
}

// lacking says it for targets that may lack different things.
func lacking(reasons map[Reason]bool, several bool) string {
	said := [2]string{"cannot be taken as read by you", "cannot be taken as read by you"}
	for reason := range reasons {
		if words, known := lacks[reason]; known && len(reasons) == 1 {
			said = words
		}
	}
	if several {
		return said[1]
	}
	return said[0]
}

// Call is a call that earns a mark.
type Call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Via       string          `json:"via"`
}

// Refuse is the refusal of a call whose demand is not met. callable says by
// which name and how the caller may call a verb (direct, call_read, call_write),
// if at all.
func (r *Rules) Refuse(d Demand, unproven []Unproven, callable func(*catalog.Verb) (name, via string, ok bool)) *broker.Refusal {
	verb := cmp.Or(d.Called, d.Verb)
	shown := []shownTarget{}
	repairs := []Call{}
	kind, named, grantable := "", 0, false
	seen, reasons := map[string]bool{}, map[Reason]bool{}
	for _, u := range unproven {
		if u.Target.Text != "" {
			named++
			reasons[u.Reason] = true
		}
		if kind == "" {
			kind = u.Target.Kind
		}
		if len(shown) < maxShown {
			shown = append(shown, shownTarget{cut(u.Target.Text), cut(u.Pointer), u.Target.Kind, u.Reason})
		}
		if u.Target.Text == "" {
			continue
		}
		grantable = grantable || len(r.repairs[u.Target.Kind]) > 0
		if len(repairs) == MaxRepair {
			continue
		}
		if c, ok := r.repair(u.Target, callable); ok && !seen[c.Name+string(c.Arguments)] {
			seen[c.Name+string(c.Arguments)] = true
			repairs = append(repairs, c)
		}
	}
	if kind == "" {
		kind = r.kindOf(d.Verb)
	}
	total := len(d.Targets) + len(d.Faults)
	then := "repeat the call unchanged"
	var message string
	switch {
	case named < len(unproven): // some fault
		message = fmt.Sprintf("The targets of %s cannot be told from its arguments, so nobody can have seen them.", verb)
		then = "name every target, or use another verb"
		if len(repairs) > 0 {
			then = "name every target, and repeat the call"
		}
	case total == 1:
		message = fmt.Sprintf("The target of %s %s.", verb, lacking(reasons, false))
	default:
		message = fmt.Sprintf("%d of %d targets of %s %s.", named, total, verb, lacking(reasons, named > 1))
	}
	if len(repairs) == 0 && named > 0 {
		if grantable {
			message += " No call that you may make can be proposed."
		} else {
			message += " No verb grants this kind of proof."
		}
	}
	return broker.Refuse(broker.CodeTargetsNotReady, message, map[string]any{"verb": verb, "kind": kind, "targets": total,
		"unproven": shown, "repair": repairs, "then": then})
}

func (r *Rules) kindOf(verb string) string {
	for _, n := range r.needs[verb] {
		return n.kind
	}
	return ""
}

// repair is a call that shows the target: of the first grant rule that can be
// filled with it, whose call fits its schema, and which the caller may use.
func (r *Rules) repair(t Target, callable func(*catalog.Verb) (name, via string, ok bool)) (Call, bool) {
	for _, way := range r.repairs[t.Kind] {
		if way.grant.onError {
			continue // nobody calls to be told no; the call that may succeed does that too
		}
		arguments, ok := way.grant.fill(r.spelling(t))
		if !ok || way.verb.CheckArguments(arguments) != nil {
			continue
		}
		if name, via, ok := callable(way.verb); ok {
			return Call{Name: name, Arguments: arguments, Via: via}, true
		}
	}
	return Call{}, false
}

// spelling is how a target stands in a proposed call: a path absolute, since
// each verb may have its own idea of what it is relative to, else as it was written.
func (r *Rules) spelling(t Target) json.RawMessage {
	if r.kinds[t.Kind].Canonical == "path" || t.value == nil {
		return json.RawMessage(quote(t.Text))
	}
	return t.value
}

// fill makes the arguments of a grant's call that shows one target.
func (g grant) fill(target json.RawMessage) (json.RawMessage, bool) {
	if len(g.targets) != 1 || g.targets[0].Origin != condition.Arguments {
		return nil, false
	}
	var root any = map[string]any{}
	put := func(p condition.Pointer, value json.RawMessage) bool {
		var ok bool
		root, ok = set(root, p.Tokens, value)
		return ok
	}
	var asked []condition.Condition
	for _, c := range g.when {
		if c.At.Origin != condition.Arguments {
			continue
		}
		asked = append(asked, c)
		if c.Op == condition.Eq && !put(c.At, c.Value) {
			return nil, false
		}
	}
	if !put(g.targets[0], target) {
		return nil, false
	}
	arguments, err := json.Marshal(root)
	if err != nil || !condition.All(asked, condition.Call{Arguments: arguments}) {
		return nil, false
	}
	return arguments, true
}

// set puts a value where tokens point, making objects and arrays of one item.
func set(node any, tokens []string, value json.RawMessage) (any, bool) {
	if len(tokens) == 0 {
		return value, true
	}
	if tokens[0] == condition.Each || tokens[0] == "0" {
		items, ok := node.([]any)
		if !ok && node != nil {
			return nil, false
		}
		var first any
		if len(items) > 0 {
			first = items[0]
		}
		child, ok := set(first, tokens[1:], value)
		return []any{child}, ok
	}
	object, ok := node.(map[string]any)
	if !ok {
		if node != nil {
			return nil, false
		}
		object = map[string]any{}
	}
	child, ok := set(object[tokens[0]], tokens[1:], value)
	object[tokens[0]] = child
	return object, ok
}

// cut keeps a text short, at a character.
func cut(s string) string {
	if len(s) <= maxShownText {
		return s
	}
	n := maxShownText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// Proving is a demand on its way to the actor that owns the marks.
type Proving struct {
	Rules  *Rules
	Demand Demand
	// Callable says under which name and how the caller may call a verb, as [Rules.Refuse] asks.
	Callable func(*catalog.Verb) (name, via string, ok bool)
}

// Refuse is the refusal for what is unproven of the demand.
func (p *Proving) Refuse(unproven []Unproven) *broker.Refusal {
	return p.Rules.Refuse(p.Demand, unproven, p.Callable)
}
