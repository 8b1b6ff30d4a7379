package rest

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

const openAPIPage = "../../docs/openapi.json"

func TestEveryRouteIsDescribed(t *testing.T) {
	known := map[string]bool{}
	for _, r := range routes {
		key := r.Method + " " + r.Path
		known[key] = true
		d, described := documents[key]
		if !described {
			t.Errorf("the route %q has no row in documents (openapi_table.go): its query, its body and its answer", key)
			continue
		}
		if d.Answer == nil && d.Media == "" {
			t.Errorf("documents[%q] says neither which Go type answers nor which kind of bytes", key)
		}
		for _, name := range wildcard.FindAllStringSubmatch(r.Path, -1) {
			if wildcards[name[1]] == "" {
				t.Errorf("%q: wildcards (openapi.go) does not say what {%s} stands for", key, name[1])
			}
		}
		for _, p := range d.Query {
			if p.Says == "" || p.Type != "string" && p.Type != "integer" && p.Type != "boolean" {
				t.Errorf("documents[%q]: the parameter %s has no type or does not say what it is", key, p.Name)
			}
		}
	}
	for key := range documents {
		if !known[key] {
			t.Errorf("documents describes %q, which is no route", key)
		}
	}
}

func TestTheOpenAPIDocumentIsValidAndItsPageFresh(t *testing.T) {
	text, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(openAPIPage, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(openAPIPage)
	if err != nil || !bytes.Equal(page, text) {
		t.Errorf("docs/openapi.json is not what the routes say (%v); run: go test ./transport/rest -run OpenAPI -update", err)
	}
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Error(err)
	}
	operations := 0
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			operations++
			if _, ok := documents[method+" "+path]; !ok {
				t.Errorf("the document has %s %s, which is no route", method, path)
			}
		}
	}
	if operations != len(routes) {
		t.Errorf("%d operations of %d routes", operations, len(routes))
	}
}
