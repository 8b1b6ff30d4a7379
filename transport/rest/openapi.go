package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"berth/transport/httpguard"
)

// document is what the OpenAPI document says of a route beside what the route
// itself says. Body and Answer are values of the Go types that are read and
// written; their JSON schemas follow from the types.
type document struct {
	Query  []param
	Body   any // nil: none is read
	Answer any // nil with a Media: bytes of that kind
	Media  string
	Status int // zero is 200
	// Accepted is the answer with status 202, where there is one beside; Stream
	// what each message holds of an answer that is a stream on demand.
	Accepted, Stream any
}

// param is a parameter of the query, or a header.
type param struct {
	Name   string
	Type   string // string, integer or boolean
	Words  []string
	Says   string
	Header bool
}

// wildcards says what the parts of a path stand for.
var wildcards = map[string]string{
	"id":   "The Id of the record.",
	"name": "The name of the backend or profile.",
}

var wildcard = regexp.MustCompile(`\{(\w+)\}`)

// OpenAPI is the OpenAPI 3.1 document of the operator API, from the one table
// of routes. Its version is of the API, not of the program, so that it changes
// only when the API does.
func OpenAPI() ([]byte, error) {
	s := schemas{}
	if _, err := s.of(httpguard.ErrorBody{}); err != nil {
		return nil, err
	}
	paths := map[string]map[string]any{}
	for _, r := range routes {
		operation, err := s.operation(r, documents[r.Method+" "+r.Path])
		if err != nil {
			return nil, fmt.Errorf("describe %s %s: %w", r.Method, r.Path, err)
		}
		if paths[r.Path] == nil {
			paths[r.Path] = map[string]any{}
		}
		paths[r.Path][strings.ToLower(r.Method)] = operation
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "Berth operator API", "version": "1",
			"description": "The operator API of a Berth broker. Names are PascalCase, request keys match in any letter case, times are UTC and end in Z, null is not known. Every refusal has the body ErrorBody, whose Code is stable."},
		"paths": paths,
		"components": map[string]any{"schemas": s,
			"securitySchemes": map[string]any{
				"bearer":  map[string]any{"type": "http", "scheme": "bearer", "description": "A credential's token, or the state directory's."},
				"session": map[string]any{"type": "apiKey", "in": "header", "name": "X-Token", "description": "A session token of POST /api/v1/authenticate."},
				"apiKey":  map[string]any{"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "The broker's API key."}}},
		"security": []any{map[string]any{"bearer": []any{}}, map[string]any{"session": []any{}}, map[string]any{"apiKey": []any{}}},
	})
	return out.Bytes(), err
}

// operation describes one route.
func (s schemas) operation(r Route, d document) (map[string]any, error) {
	parameters := []any{}
	for _, name := range wildcard.FindAllStringSubmatch(r.Path, -1) {
		parameters = append(parameters, map[string]any{"name": name[1], "in": "path", "required": true,
			"description": wildcards[name[1]], "schema": map[string]any{"type": "string"}})
	}
	for _, p := range d.Query {
		schema, in := map[string]any{"type": p.Type}, "query"
		if p.Words != nil {
			schema["examples"] = p.Words // not an enum: letter case is free
		}
		if p.Header {
			in = "header"
		}
		parameters = append(parameters, map[string]any{"name": p.Name, "in": in, "description": p.Says, "schema": schema})
	}
	refused := map[string]any{"description": "A refusal.", "content": map[string]any{"application/json": map[string]any{"schema": ref("ErrorBody")}}}
	good, err := s.good(d)
	if err != nil {
		return nil, err
	}
	status := d.Status
	if status == 0 {
		status = http.StatusOK
	}
	operation := map[string]any{"operationId": operationID(r), "summary": r.Summary, "parameters": parameters,
		"responses": map[string]any{fmt.Sprint(status): good, "default": refused}}
	if r.Scope == Everyone {
		operation["security"] = []any{}
	} else {
		operation["responses"].(map[string]any)["401"] = refused
		operation["responses"].(map[string]any)["403"] = refused
	}
	if d.Accepted != nil {
		accepted, err := s.good(document{Answer: d.Accepted})
		if err != nil {
			return nil, err
		}
		accepted["description"] = "It was accepted and goes on."
		operation["responses"].(map[string]any)["202"] = accepted
	}
	if d.Body != nil {
		name, err := s.of(d.Body)
		if err != nil {
			return nil, err
		}
		operation["requestBody"] = map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": ref(name)}}}
	}
	return operation, nil
}

// good describes the answer that is no refusal.
func (s schemas) good(d document) (map[string]any, error) {
	content := map[string]any{}
	good := map[string]any{"description": "The answer.", "content": content}
	message := d.Stream
	switch {
	case d.Media != "":
		content[d.Media] = map[string]any{"schema": map[string]any{"type": "string"}}
		message = d.Answer
	case d.Answer != nil:
		name, err := s.of(d.Answer)
		if err != nil {
			return nil, err
		}
		content["application/json"] = map[string]any{"schema": ref(name)}
	}
	if d.Stream != nil {
		content["text/event-stream"] = map[string]any{"schema": map[string]any{"type": "string"}}
	}
	if message != nil {
		name, err := s.of(message)
		if err != nil {
			return nil, err
		}
		good["description"] = "Each message holds a " + name + " as JSON."
		if d.Stream != nil {
			good["description"] = "The answer; of a stream, each message holds a " + name + " as JSON."
		}
	}
	return good, nil
}

// operationID is such as getApiV1JobsById.
func operationID(r Route) string {
	id := strings.ToLower(r.Method)
	for part := range strings.FieldsFuncSeq(wildcard.ReplaceAllString(r.Path, "by-$1"), func(c rune) bool { return c == '/' || c == '-' || c == '.' }) {
		id += strings.ToUpper(part[:1]) + part[1:]
	}
	return id
}

func ref(name string) map[string]any { return map[string]any{"$ref": "#/components/schemas/" + name} }

// schemas are the components, by name of the type.
type schemas map[string]*jsonschema.Schema

// of makes the schema of a value's type a component and gives its name.
func (s schemas) of(value any) (string, error) {
	t := reflect.TypeOf(value)
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if _, made := s[name]; made {
		return name, nil
	}
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {}, // any JSON
	}})
	if err != nil {
		return "", err
	}
	open(schema)
	s[name] = schema
	return name, nil
}

// open says what a Go type does not, and lets objects have members that are not named: a later broker may add
// some, and nobody's client is to break by that.
func open(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	switch {
	case s.Properties != nil:
		s.AdditionalProperties = nil
	case s.Type == "object": // a map, which may be nil
		s.Type, s.Types = "", []string{"null", "object"}
	}
	if list := s.Properties["Objects"]; list != nil && list.Items != nil {
		list.Type, list.Types = "array", nil // a page is never without one
	}
	for _, p := range s.Properties {
		open(p)
	}
	open(s.Items)
	open(s.AdditionalProperties)
}

func (a *api) openAPI(w http.ResponseWriter, r *http.Request) {
	text, err := a.described()
	if err != nil {
		a.fail(w, r, err)
		return
	}
	httpguard.Deadline(w)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a client that is gone cannot be told
}
