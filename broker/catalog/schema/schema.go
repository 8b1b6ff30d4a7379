package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// location names the one document of a compiler. It is no file and no host.
const location = "berth:///arguments.json"

// maxExponent is the largest exponent of a number that is checked: the
// validator computes exactly, so 1e999999 would cost megabytes.
const maxExponent = 400

// Schema is one compiled input schema.
type Schema struct {
	compiled   *jsonschema.Schema
	properties map[string]property
	required   []string
}

// property is what the argument rules of native verbs need of a property.
type property struct {
	types             []string
	emptyStringClears bool
	mayBeBlank        bool // minLength 0 is written out: a required text may be empty
}

// ErrNotObject is a schema that is no JSON object.
var ErrNotObject = errors.New("the schema is not a JSON object")

// Compile compiles raw. The error says in one sentence why it cannot be used.
func Compile(raw json.RawMessage) (s *Schema, err error) {
	// The compiler is fed by backends; should one of them find a panic in it,
	// that schema is unusable and nothing else.
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("compile schema: %v", p)
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("decode schema: %w", err)
	}
	root, ok := doc.(map[string]any)
	if !ok {
		return nil, ErrNotObject
	}
	if cost := new(size); !cost.within(root, 0) {
		if cost.remote {
			return nil, fmt.Errorf("compile schema: %w", ErrRemote)
		}
		return nil, ErrTooLarge
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	dialect, _ := root["$schema"].(string)
	loader := &offline{dialect: strings.TrimSuffix(dialect, "#")}
	c.UseLoader(loader)
	c.UseRegexpEngine(lenientRegexp)
	c.AssertFormat() // keeps formats in the compiled form; what they assert is always true
	for _, name := range formatNames {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	if err := c.AddResource(location, doc); err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	compiled, err := c.Compile(location)
	switch {
	case err != nil && loader.remote:
		return nil, fmt.Errorf("compile schema: %w: %w", ErrRemote, err)
	case err != nil && loader.unknown:
		return nil, fmt.Errorf("compile schema: %w: %w", ErrDialect, err)
	case err != nil:
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	s = &Schema{compiled: compiled, properties: map[string]property{}}
	s.describe(root)
	return s, nil
}

// Root is the compiled form, for packages that read what a schema asks for. It
// is shared and must not be changed.
func (s *Schema) Root() *jsonschema.Schema { return s.compiled }

// describe reads what the argument rules need from the top of the schema.
func (s *Schema) describe(root map[string]any) {
	props, _ := root["properties"].(map[string]any)
	for name, v := range props {
		def, _ := v.(map[string]any)
		var p property
		switch t := def["type"].(type) {
		case string:
			p.types = []string{t}
		case []any:
			for _, e := range t {
				if name, ok := e.(string); ok {
					p.types = append(p.types, name)
				}
			}
		}
		p.emptyStringClears, _ = def["emptyStringClears"].(bool)
		least, said := def["minLength"].(json.Number)
		p.mayBeBlank = said && least == "0"
		s.properties[name] = p
	}
	list, _ := root["required"].([]any)
	for _, e := range list {
		if name, ok := e.(string); ok {
			s.required = append(s.required, name)
		}
	}
}

// ErrRemote is a schema that refers to another document.
var ErrRemote = errors.New("the schema refers to another document")

// ErrDialect is a schema that is written in a dialect which the validator does
// not know: that says nothing about the schema.
var ErrDialect = errors.New("the schema is in a dialect that is not known here")

// The bounds of a schema that is compiled: the objects in it, and how deep they
// stand. The compiler takes time by the square of either.
const (
	maxObjects = 2000
	maxDepth   = 100
)

// ErrTooLarge is a schema that would take seconds to compile.
var ErrTooLarge = errors.New("the schema has more in it than is compiled")

// size counts what makes a schema dear.
type size struct {
	objects int
	over    bool
	remote  bool // it may refer to another document
}

// within reports whether a decoded schema is in bounds. It looks at all of it:
// one that is not compiled is searched for references.
func (s *size) within(v any, depth int) bool {
	s.over = s.over || depth > maxDepth
	switch v := v.(type) {
	case map[string]any:
		s.objects++
		s.over = s.over || s.objects > maxObjects
		for name, e := range v {
			to, isText := e.(string)
			s.remote = s.remote || (isText && (name == "$ref" || name == "$dynamicRef") && !strings.HasPrefix(to, "#"))
			s.within(e, depth+1)
		}
	case []any:
		for _, e := range v {
			s.within(e, depth+1)
		}
	}
	return !s.over
}

// offline refuses every document but the schema itself.
type offline struct {
	dialect string // what the schema says that it is written in; not knowing it is another matter
	remote  bool
	unknown bool // the dialect itself was asked for
}

func (o *offline) Load(url string) (any, error) {
	o.remote, o.unknown = o.remote || url != o.dialect, o.unknown || url == o.dialect
	return nil, errors.New("a reference to another document is not followed")
}

// formatNames are the formats that the validator knows. "format" is an
// annotation here: older dialects leave it open whether it is asserted, and a
// backend that takes a value must not be guarded by our idea of an e-mail address.
var formatNames = []string{
	"json-pointer", "relative-json-pointer", "uuid", "duration", "period", "ipv4", "ipv6", "hostname",
	"email", "date", "time", "date-time", "uri", "iri", "uri-reference", "iri-reference", "uri-template", "semver",
}

// anything stands for a pattern that our engine (RE2) does not know, such as
// one with a look-ahead: it is left to the backend, and the rest of the schema counts.
type anything string

func (anything) MatchString(string) bool { return true }
func (a anything) String() string        { return string(a) }

func lenientRegexp(pattern string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return anything(pattern), nil
	}
	return re, nil
}

// ErrUncheckable is a value that is not checked, because an exact check would
// cost more than a call may cost.
var ErrUncheckable = errors.New("a number is too large to be checked")

// decode reads arguments; absent and null are the empty object.
func decode(args json.RawMessage) (any, error) {
	if trimmed := bytes.TrimSpace(args); len(trimmed) == 0 || string(trimmed) == "null" {
		return map[string]any{}, nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return nil, fmt.Errorf("decode arguments: %w", err)
	}
	if !Checkable(v) {
		return nil, ErrUncheckable
	}
	return v, nil
}

// Checkable reports whether a decoded value holds only numbers that can be
// checked at a bounded cost.
func Checkable(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if !Checkable(e) {
				return false
			}
		}
	case []any:
		for _, e := range v {
			if !Checkable(e) {
				return false
			}
		}
	case json.Number:
		if i := strings.IndexAny(string(v), "eE"); i >= 0 {
			n, err := strconv.Atoi(string(v[i+1:]))
			return err == nil && n <= maxExponent && n >= -maxExponent
		}
	}
	return true
}
