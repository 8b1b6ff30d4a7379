package rest_test

import (
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"berth/transport/rest"
)

// FuzzCallBody: whatever the body is, it is refused or handed on whole.
func FuzzCallBody(f *testing.F) {
	for _, seed := range []string{
		`{"Name":"files__build","Arguments":{"a":1e400,"a":2}}`, `{"name":"files__build","PromoteAfterSeconds":-0.5}`, `{"Name":null}`,
		`{"Name":"files__build","Arguments":null}`, `[]`, `null`, ``, `{"Name":"files__build"}x`, `{"Name":"files__build","IdempotencyKey":"\ud800"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		broker := newFake(t)
		r := httptest.NewRequest("POST", "http://localhost/api/v1/calls", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer t0")
		w := httptest.NewRecorder()
		broker.handler(nil).ServeHTTP(w, r)
		if w.Code != 200 && w.Code != 400 {
			t.Fatalf("status %d, body %s", w.Code, w.Body)
		}
		if len(broker.requests) == 0 {
			return
		}
		var sent rest.CallRequest
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Fatalf("a body that does not decode was handed on: %v", err)
		}
		var params struct{ Arguments json.RawMessage }
		if err := json.Unmarshal(broker.requests[0].Call.Params, &params); err != nil {
			t.Fatal(err)
		}
		if len(sent.Arguments) == 0 || string(sent.Arguments) == "null" {
			sent.Arguments = json.RawMessage(`{}`)
		}
		if !reflect.DeepEqual(numbersKept(t, sent.Arguments), numbersKept(t, params.Arguments)) {
			t.Fatalf("sent %s, handed on %s", sent.Arguments, params.Arguments)
		}
	})
}

func numbersKept(t *testing.T, raw json.RawMessage) (v any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
