package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// MaxViolations is how many violations are reported at most.
const MaxViolations = 5

// maxText bounds each text of a violation, in bytes.
const maxText = 200

// Violation is one way in which arguments do not fit. It never holds a value.
type Violation struct {
	Pointer string `json:"pointer"` // RFC 6901, from the arguments
	Rule    string `json:"rule"`    // the schema's keyword
	Wanted  string `json:"wanted"`  // what the schema asks for
}

// Check gives the first violations of args, in order of their pointers. The
// error is set when the arguments could not be judged.
func (s *Schema) Check(args json.RawMessage) (out []Violation, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("check arguments: %v", p)
		}
	}()
	v, err := decode(args)
	if err != nil {
		return nil, err
	}
	err = s.compiled.Validate(v)
	if err == nil {
		return nil, nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil, fmt.Errorf("check arguments: %w", err)
	}
	out = collect(nil, invalid)
	slices.SortFunc(out, func(a, b Violation) int {
		if c := strings.Compare(a.Pointer, b.Pointer); c != 0 {
			return c
		}
		if c := strings.Compare(a.Rule, b.Rule); c != 0 {
			return c
		}
		return strings.Compare(a.Wanted, b.Wanted)
	})
	out = slices.Compact(out)
	return out[:min(len(out), MaxViolations)], nil
}

// maxCollected bounds the work on arguments with thousands of faults.
const maxCollected = 1000

// collect appends the leaves of e. A choice (anyOf, oneOf) is reported as one
// violation: the complaints of all its branches would contradict each other.
func collect(out []Violation, e *jsonschema.ValidationError) []Violation {
	if len(out) >= maxCollected {
		return out
	}
	at := pointer(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		return append(out, Violation{at, "anyOf", "a value that fits at least one of the alternatives"})
	case *kind.OneOf:
		return append(out, Violation{at, "oneOf", "a value that fits exactly one of the alternatives"})
	case *kind.Required:
		for _, name := range k.Missing {
			out = append(out, Violation{pointer(append(slices.Clone(e.InstanceLocation), name)), "required", "a value"})
		}
		return out
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			out = append(out, Violation{pointer(append(slices.Clone(e.InstanceLocation), name)), "additionalProperties", "no such property"})
		}
		return out
	}
	if len(e.Causes) > 0 {
		for _, cause := range e.Causes {
			out = collect(out, cause)
		}
		return out
	}
	rule, wanted := describe(e.ErrorKind)
	return append(out, Violation{at, rule, cut(wanted)})
}

// describe names the keyword and what it wants, from the schema's side only.
func describe(k jsonschema.ErrorKind) (rule, wanted string) {
	rule = "schema"
	if path := k.KeywordPath(); len(path) > 0 {
		rule = path[0]
	}
	switch k := k.(type) {
	case *kind.Type:
		return rule, strings.Join(k.Want, " or ")
	case *kind.Enum:
		return rule, "one of " + asJSON(k.Want)
	case *kind.Const:
		return rule, asJSON(k.Want)
	case *kind.Pattern:
		return rule, "text that matches " + k.Want
	case *kind.Minimum:
		return rule, "at least " + number(k.Want)
	case *kind.Maximum:
		return rule, "at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return rule, "more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return rule, "less than " + number(k.Want)
	case *kind.MultipleOf:
		return rule, "a multiple of " + number(k.Want)
	case *kind.MinLength:
		return rule, fmt.Sprintf("at least %d characters", k.Want)
	case *kind.MaxLength:
		return rule, fmt.Sprintf("at most %d characters", k.Want)
	case *kind.MinItems:
		return rule, fmt.Sprintf("at least %d items", k.Want)
	case *kind.MaxItems:
		return rule, fmt.Sprintf("at most %d items", k.Want)
	case *kind.MinProperties:
		return rule, fmt.Sprintf("at least %d properties", k.Want)
	case *kind.MaxProperties:
		return rule, fmt.Sprintf("at most %d properties", k.Want)
	case *kind.UniqueItems:
		return rule, "no item twice"
	case *kind.DependentRequired:
		return rule, "also " + strings.Join(k.Missing, ", ")
	case *kind.Dependency:
		return rule, "also " + strings.Join(k.Missing, ", ")
	case *kind.FalseSchema:
		return "false", "no value here"
	case *kind.Not:
		return "not", "a value that the schema does not exclude"
	}
	return rule, "a value that fits the schema"
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "a value of the schema"
	}
	return string(b)
}

func pointer(path []string) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(p))
		if b.Len() > maxText {
			break
		}
	}
	return cut(b.String())
}

// cut keeps a text within maxText bytes, at a character.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := maxText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
