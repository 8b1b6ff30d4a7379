package rest

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"berth/actors"
	"berth/broker"
	"berth/broker/native/board"
	"berth/transport/httpguard"
)

// TestEveryParameterIsReadAsWhatItIs walks the query parameters of all routes:
// what is no boolean, or no whole number, is refused by name before anything is
// asked.
func TestEveryParameterIsReadAsWhatItIs(t *testing.T) {
	wrong := map[string][]string{"boolean": {"maybe", "1", "yes", " true", "null"}, "integer": {"two", "1.5", "0x1", "1e3", " 1", "true"}}
	reached := new(actors.System) // whose methods would panic
	h := New(Options{Guard: httpguard.New(httpguard.Options{Authenticate: httpguard.Bearers(func(string) (broker.Principal, bool) {
		return broker.LocalOperator, true
	})}), Calls: reached, Views: reached, Jobs: reached, Journal: struct{ Journal }{}, Inspect: struct{ Inspect }{},
		Board: (*board.Board)(nil), Events: struct{ Events }{}, Journalled: struct{ Journalled }{}, Drains: struct{ Drains }{}})
	checked := 0
	for _, route := range routes {
		for _, p := range documents[route.Method+" "+route.Path].Query {
			for _, value := range wrong[p.Type] {
				checked++
				path := strings.NewReplacer("{id}", "x", "{name}", "x").Replace(route.Path)
				r := httptest.NewRequest(route.Method, "http://localhost"+path+"?"+p.Name+"="+url.QueryEscape(value), nil)
				r.Header.Set("Authorization", "Bearer t")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				body := w.Body.String()
				if w.Code != http.StatusBadRequest || !strings.Contains(body, `"Code":"invalid_arguments"`) || !strings.Contains(body, `"Name":"`+p.Name+`"`) {
					t.Errorf("%s %s?%s=%s: status %d, %s", route.Method, route.Path, p.Name, value, w.Code, body)
				}
			}
		}
	}
	if checked == 0 {
		t.Fatal("no route has such a parameter")
	}
}

func TestAKeyThatStandsTwiceIsRefused(t *testing.T) {
	type nested struct {
		Inner  struct{ A int }
		List   []struct{ A int }
		ByName map[string]struct{ A int }
		Kept   map[string]any
	}
	for name, tt := range map[string]struct{ body, key string }{
		"another case":              {`{"Inner":{},"inner":{}}`, "inner"},
		"the same case":             {`{"Kept":{},"Kept":{}}`, "Kept"},
		"a letter that folds":       {`{"Kept":{},"\u212Aept":{}}`, "\u212Aept"},
		"a key that nobody reads":   {`{"x":1,"X":2}`, "X"},
		"in an object":              {`{"Inner":{"A":1,"a":2}}`, "a"},
		"in a list":                 {`{"List":[{"A":1},{"a":1,"A":2}]}`, "A"},
		"in an object of a map":     {`{"ByName":{"x":{"a":1,"A":2}}}`, "A"},
		"a name of a map":           {`{"ByName":{"x":{},"x":{}}}`, "x"},
		"names of a map have cases": {`{"ByName":{"x":{},"X":{}}}`, ""},
		"once each":                 {`{"inner":{"a":1},"list":[{"a":1},{"a":2}],"byname":{},"kept":null}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var v nested
			err := decode(strings.NewReader(tt.body), &v)
			if tt.key == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			refusal := broker.AsRefusal(err)
			if refusal.Code != broker.CodeInvalidArguments || refusal.Detail["Name"] != tt.key || !strings.Contains(refusal.Message, tt.key) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("what is kept as it came is not looked into", func(t *testing.T) {
		var c CallRequest
		if err := decode(strings.NewReader(`{"Name":"x","Arguments":{"a":1,"A":2,"a":3}}`), &c); err != nil {
			t.Error(err)
		}
	})
}
