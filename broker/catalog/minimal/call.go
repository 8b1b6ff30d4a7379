package minimal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"berth/broker/catalog/schema"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The bounds.
const (
	MaxDepth  = 6       // containers in one another, the arguments themselves being the first
	MaxSteps  = 1000    // values tried and checked
	MaxBytes  = 4 << 10 // of the arguments as JSON
	maxLength = 1024    // characters of one string
	maxItems  = 64      // items of one array
)

// Impossible is why there is no minimal call. It names no value.
type Impossible struct {
	At     string // the property concerned, by name; empty: the arguments
	Reason string // a clause, to follow "because"
}

func (e *Impossible) Error() string {
	if e.At == "" {
		return "no minimal call: " + e.Reason
	}
	return fmt.Sprintf("no minimal call: %s: %s", e.At, e.Reason)
}

// errSteps ends the whole search.
var errSteps = &Impossible{Reason: "the schema offers more choices than are tried"}

// Call builds the arguments of a minimal call. The error is an *Impossible.
func Call(s *schema.Schema) (args json.RawMessage, err error) {
	// Schemas come from backends; should one of them find a panic in the
	// validator, it has no minimal call and nothing else happens.
	defer func() {
		if p := recover(); p != nil {
			args, err = nil, &Impossible{Reason: "the schema cannot be followed"}
		}
	}()
	b := &builder{}
	v, err := b.value([]*jsonschema.Schema{s.Root(), objectOnly}, "", 0)
	if err != nil {
		return nil, err
	}
	args, err = encode(v)
	if err != nil {
		return nil, err
	}
	if err := Check(s, args); err != nil {
		return nil, err
	}
	return args, nil
}

// Check judges an example that an operator wrote as Call judges its own.
func Check(s *schema.Schema, args json.RawMessage) error {
	if len(args) > MaxBytes {
		return &Impossible{Reason: fmt.Sprintf("it would be longer than %d bytes", MaxBytes)}
	}
	if !bytes.HasPrefix(bytes.TrimSpace(args), []byte("{")) {
		return &Impossible{Reason: "arguments are an object"}
	}
	violations, err := s.Check(args)
	switch {
	case err != nil:
		return &Impossible{Reason: "the schema cannot be checked"}
	case len(violations) > 0:
		return &Impossible{At: violations[0].Pointer, Reason: violations[0].Rule + " wants " + violations[0].Wanted}
	}
	return nil
}

// objectOnly is the schema of what arguments may be.
var objectOnly = func() *jsonschema.Schema {
	var t jsonschema.Types
	t.Add("object")
	return &jsonschema.Schema{DraftVersion: 2020, Types: &t}
}()

func encode(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, &Impossible{Reason: "it cannot be written as JSON"}
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// builder counts what was tried.
type builder struct{ steps int }

func (b *builder) step() error {
	b.steps++
	if b.steps > MaxSteps {
		return errSteps
	}
	return nil
}

// fits reports whether v is valid against each of the schemas.
func (b *builder) fits(v any, all []*jsonschema.Schema) (bool, error) {
	for _, s := range all {
		if err := b.step(); err != nil {
			return false, err
		}
		if s != objectOnly && s.Validate(v) != nil {
			return false, nil
		}
		if _, object := v.(map[string]any); s == objectOnly && !object {
			return false, nil
		}
	}
	return true, nil
}

// value finds a value that fits all schemas; name is the property it is for.
func (b *builder) value(all []*jsonschema.Schema, name string, depth int) (any, error) {
	if err := b.step(); err != nil {
		return nil, err
	}
	p := plan{all: all, name: name, depth: depth}
	for _, s := range all {
		if !p.expand(s, 0) {
			return nil, &Impossible{name, "its definitions refer to one another too often"}
		}
	}
	return b.choose(p)
}

// choose settles the choices of a plan one by one, the first branch that works
// counting, and then builds.
func (b *builder) choose(p plan) (any, error) {
	if len(p.choices) == 0 {
		return b.build(p)
	}
	var last error = &Impossible{p.name, "a choice has no branch"}
	for _, branch := range p.choices[0] {
		if err := b.step(); err != nil {
			return nil, err
		}
		next := p.settled()
		ok := true
		for _, s := range branch {
			ok = ok && next.expand(s, 0)
		}
		if !ok {
			continue
		}
		v, err := b.choose(next)
		if err == nil {
			return v, nil
		}
		if errors.Is(err, errSteps) {
			return nil, err
		}
		last = err
	}
	return nil, last
}

// build makes a value of a plan without choices.
func (b *builder) build(p plan) (any, error) {
	named, only := p.named()
	for _, v := range named {
		if ok, err := b.fits(v, p.all); err != nil || ok {
			return v, err
		}
	}
	if only {
		return nil, &Impossible{p.name, "none of the values that it names fits the rest of the schema"}
	}
	types := p.types()
	if len(types) == 0 {
		return nil, &Impossible{p.name, "its types exclude one another"}
	}
	var last error
	for _, t := range types {
		candidates, err := b.make(t, p)
		if errors.Is(err, errSteps) {
			return nil, err
		}
		if err != nil {
			last = err
			continue
		}
		for _, v := range candidates {
			if ok, err := b.fits(v, p.all); err != nil || ok {
				return v, err
			}
		}
		if last == nil {
			last = &Impossible{p.name, "the smallest " + t + " does not fit the rest of the schema"}
		}
	}
	return nil, last
}

func (b *builder) make(t string, p plan) ([]any, error) {
	switch t {
	case "object":
		return b.object(p)
	case "array":
		return b.array(p)
	case "string":
		return texts(p)
	case "integer", "number":
		return numbers(p, t == "integer")
	case "boolean":
		return []any{false, true}, nil
	}
	return []any{nil}, nil
}
