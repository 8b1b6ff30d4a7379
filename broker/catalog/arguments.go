package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"berth/broker"
	"berth/broker/catalog/minimal"
	"berth/broker/catalog/schema"
	"berth/broker/catalog/search"
	"berth/broker/shape"
)

// MaxCheckedArguments is the size, in bytes, above which the arguments of an
// upstream verb are passed on unchecked: the backend checks them anyway, and a
// check costs several times their size.
const MaxCheckedArguments = 1 << 20

// readSchema compiles the input schema, and says why the verb cannot be served
// with it. One that is no object schema would make strict clients refuse the
// whole list, and models' providers do the same with one that does not compile.
func (v *Verb) readSchema(known *schema.Cache) string {
	if v.InputSchema == nil {
		return "Its inputSchema is not an object."
	}
	if typ := typeOf(v.InputSchema); typ != nil && string(typ) != `"object"` {
		return "Its inputSchema does not describe an object."
	}
	v.schema, v.unreadable = known.Compile(v.InputSchema)
	switch {
	case errors.Is(v.unreadable, schema.ErrRemote):
		return "The input schema refers to another document, which is not fetched."
	case (errors.Is(v.unreadable, schema.ErrDialect) || errors.Is(v.unreadable, schema.ErrTooLarge)) && !v.Native, v.unreadable == nil:
		return ""
	}
	return "The input schema cannot be used: " + v.unreadable.Error() + "."
}

// typeOf is the type that a schema names at its top, as it is written; nil: none.
func typeOf(raw json.RawMessage) (typ json.RawMessage) {
	members, _ := shape.Members(raw)
	for _, m := range members {
		if m.Name == "type" {
			typ = m.Value
		}
	}
	return typ
}

// Minimal is the smallest call that the input schema takes, as its arguments,
// or why there is none; of a surface's verb it may be the surface's example. It is
// made at first use.
func (v *Verb) Minimal() (json.RawMessage, error) { return v.minimal() }

func (v *Verb) lazilyMinimal() func() (json.RawMessage, error) {
	return sync.OnceValues(func() (json.RawMessage, error) {
		if v.Surface != nil && v.Surface.Examples[v.Upstream] != nil {
			return v.Surface.Examples[v.Upstream], nil
		}
		s, err := v.Schema()
		if err != nil {
			return nil, fmt.Errorf("no minimal call: %w", err)
		}
		return minimal.Call(s)
	})
}

// Unchecked says why the arguments of v are not checked against its schema; it
// is empty when they are.
func (v *Verb) Unchecked() string {
	if v.unreadable != nil {
		return v.unreadable.Error()
	}
	return ""
}

// Schema is the compiled input schema; it is an error when its dialect is not
// known, or it is too large.
func (v *Verb) Schema() (*schema.Schema, error) { return v.schema, v.unreadable }

// Parameters lists the properties at the top of the input schema, by name.
func (v *Verb) Parameters() []string { return parameters(v.InputSchema) }

// NormaliseArguments gives the arguments as the verb is to receive them: those
// of a native verb by the rules of contracts/native.md section 1.7, others unchanged.
func (v *Verb) NormaliseArguments(args json.RawMessage) json.RawMessage {
	if !v.Native || v.schema == nil {
		return args
	}
	return v.schema.Normalise(args)
}

// judge is the refusal of a native verb's arguments. What the verb says itself
// goes before what its schema says, whose codes tell less; of arguments that the
// verb cannot read the schema knows the place.
func (v *Verb) judge(args json.RawMessage) *broker.Refusal {
	var own *broker.Refusal
	if v.check != nil {
		own = v.check(args)
	}
	if own != nil && own.Code != broker.CodeInvalidArguments {
		return own
	}
	if refusal := v.schema.NativeRefusal(args); refusal != nil {
		return refusal
	}
	return own
}

// CheckArguments judges arguments by the verb's input schema; those of a
// native verb are normalised first. Absent arguments are an empty object. It
// is nil when they fit, or when the schema cannot be used. The refusal names
// at most five places, each with its rule and what was wanted, never a value.
func (v *Verb) CheckArguments(args json.RawMessage) *broker.Refusal {
	if v.schema == nil || (!v.Native && len(args) > MaxCheckedArguments) {
		return nil
	}
	s := v.schema
	if v.Native {
		refusal := v.judge(s.Normalise(args))
		if call, err := v.Minimal(); refusal != nil && err == nil {
			refusal.Detail["MinimalCall"] = call
		}
		return refusal
	}
	violations, err := s.Check(args)
	if err != nil || len(violations) == 0 {
		return nil // what cannot be judged here is the backend's to judge
	}
	for i := range violations {
		v.nearest(&violations[i])
	}
	return v.Misfit("The arguments do not fit the input schema of "+v.Name+"; nothing was sent.", violations...)
}

// Misfit refuses a call of the verb that does not fit, with a call that does:
// in the words of contracts/native.md for one of the broker's own, else in those
// of contracts/catalog.md section 3.
func (v *Verb) Misfit(message string, violations ...schema.Violation) *broker.Refusal {
	call, err := v.Minimal()
	if v.Native {
		refusal := schema.Violated(violations...)
		if err == nil {
			refusal.Detail["MinimalCall"] = call
		}
		return refusal
	}
	detail := map[string]any{"verb": v.Name, "errors": violations, "minimal_call": nil}
	if err == nil {
		detail["minimal_call"] = call
	} else {
		detail["no_minimal_call"] = err.Error()
	}
	return broker.Refuse(broker.CodeInvalidArgument, message, detail)
}

// nearest names the property that one which the schema does not admit may have
// been meant for.
func (v *Verb) nearest(wrong *schema.Violation) {
	name, isTop := strings.CutPrefix(wrong.Pointer, "/")
	if wrong.Rule != "additionalProperties" || !isTop || strings.Contains(name, "/") {
		return
	}
	if near, ok := search.Nearest(strings.NewReplacer("~1", "/", "~0", "~").Replace(name), parameters(v.InputSchema)); ok {
		wrong.Wanted += "; the nearest is " + near
	}
}
