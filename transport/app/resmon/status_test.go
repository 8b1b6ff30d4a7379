package resmon

import (
	"net/http"
	"strings"
	"testing"

	"berth/transport/app/resmontest"
)

func TestWhatAStatusIsSaidToBe(t *testing.T) {
	const said = "A sentence of resmon."
	plain := func(code int) resmontest.Fault { return resmontest.Plain(code, said) }
	object := func(code int, v any) resmontest.Fault { return resmontest.Body(code, v) }
	reasons := map[string]any{"detail": map[string]any{"reason": "r", "message": said}}
	tests := []struct {
		name    string
		fault   resmontest.Fault
		code    string
		message string // empty: one of ours
		detail  string
	}{
		{"404 with a sentence", plain(404), "not_found", said, `{}`},
		{"404 without one", object(404, map[string]any{}), "not_found", "", `{}`},
		{"404 of the route", resmontest.RouteMissing(), "upstream_error", "", `{"route_missing":true}`},
		{"404 that says more", object(404, map[string]any{"detail": "Not Found", "more": 1}), "not_found", "Not Found", `{}`},
		{"400", plain(400), "invalid_argument", said, `{}`},
		{"422 with a sentence", plain(422), "invalid_argument", said, `{}`},
		{"422 without one", object(422, map[string]any{"detail": map[string]any{"input": "MARK"}}), "invalid_argument", "", `{}`},
		{"409", plain(409), "conflict", said, `{}`},
		{"409 without a sentence", object(409, []int{}), "conflict", "", `{}`},
		{"429", plain(429), "conflict", said, `{"retry_after_s":5}`},
		{"403 of the guard", object(403, reasons), "internal_error", said, `{"status":403}`},
		{"405", plain(405), "internal_error", said, `{"status":405}`},
		{"413", object(413, map[string]any{}), "internal_error", "", `{"status":413}`},
		{"415", object(415, reasons), "internal_error", said, `{"status":415}`},
		{"500", resmontest.Status(500), "upstream_error", "", `{"status":500}`},
		{"502", resmontest.Status(502), "upstream_error", "", `{"status":502}`},
		{"503 with a sentence", plain(503), "upstream_error", said, `{"status":503}`},
		{"302", resmontest.Redirect("http://127.0.0.1:1"), "upstream_error", "", `{"status":302}`},
		{"a text", resmontest.NotJSON(), "upstream_error", "", `{"reason":"not_json"}`},
		{"an array", resmontest.WrongType(), "upstream_error", "", `{"reason":"wrong_type"}`},
		{"33 MiB", resmontest.Huge(), "upstream_error", "", `{"reason":"too_large"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := small(t)
			r.fake.Inject(tt.fault, resmontest.Scope{Template: "/api/documents/{doc_id}/why"})
			a := r.call("explain_match", `{"doc_id":1}`)
			got := a.refusal(t)
			if got.Error != tt.code || tt.message != "" && got.Message != tt.message || strings.Contains(a.text, "MARK") {
				t.Errorf("%+v", got)
			}
			got.detail(t, tt.detail)
			if got.Tried != nil || got.NoPortNamed != nil {
				t.Errorf("an answer that came says that something was tried: %s", a.text)
			}
		})
	}
}

func TestARunLimitSaysWhenToComeBack(t *testing.T) {
	r := run(t, resmontest.Options{Data: resmontest.Small, MaxRuns: 1})
	r.good("run_sweep", `{"query":"x","sources":["arxiv"]}`)
	got := r.refused("run_sweep", `{"query":"x","sources":["arxiv"]}`)
	if got.Error != "conflict" || !strings.Contains(got.Message, "maximum of 1 concurrent") {
		t.Errorf("%+v", got)
	}
	got.detail(t, `{"retry_after_s":5}`)
}

func TestAValidationErrorNamesPlacesAndNoValues(t *testing.T) {
	const marker = "hunter2-marker"
	r := small(t)
	r.fake.Inject(resmontest.List422(marker), resmontest.Scope{Template: "/api/search/sweep"})
	a := r.call("run_sweep", `{"query":"x","sources":["arxiv"]}`)
	got := a.refusal(t)
	fields, _ := got.Detail["fields"].([]any)
	if got.Error != "invalid_argument" || strings.Contains(a.text, marker) || len(fields) == 0 || len(fields) > 10 {
		t.Errorf("%s", a.text)
	}
	for _, f := range fields {
		if !strings.HasPrefix(f.(string), "body.") || !strings.HasSuffix(f.(string), ")") {
			t.Errorf("a place: %v", f)
		}
	}
	if got.Detail["outcome_unknown"] != nil {
		t.Error("it was told no, and doubts it")
	}
}

func TestAValidationErrorNamesTenPlacesAtMost(t *testing.T) {
	r := small(t)
	var rows []map[string]any
	for i := range 15 {
		rows = append(rows, map[string]any{"loc": []any{"body", "sources", i}, "type": "string_type", "input": "MARK"})
	}
	r.fake.Inject(resmontest.Body(422, map[string]any{"detail": rows}), resmontest.Scope{Template: "/api/search/sweep"})
	got := r.refused("run_sweep", `{"query":"x","sources":["arxiv"]}`)
	if fields, _ := got.Detail["fields"].([]any); len(fields) != 10 || fields[9] != "body.sources.9 (string_type)" {
		t.Errorf("%v", got.Detail)
	}
}

func TestRelayedTextIsCutAndHoldsNoToken(t *testing.T) {
	for _, code := range []int{400, 403, 404, 409, 422, 500} {
		r := small(t)
		r.fake.Inject(resmontest.Echo(code), resmontest.Scope{Template: "/api/routines"})
		a := r.call("list_routines", `{}`)
		if strings.Contains(a.text, r.fake.Token()) || !a.isError {
			t.Errorf("%d: %s", code, a.text)
		}
		r.fake.Clear()
		r.fake.Inject(resmontest.Plain(code, strings.Repeat("é", 5000)), resmontest.Scope{Template: "/api/routines"})
		if got := r.refused("list_routines", `{}`); strings.Count(got.Message, "é") > 1000 {
			t.Errorf("%d: %d characters", code, len(got.Message))
		}
	}
}

func TestAnUnknownToolIsARefusedArgument(t *testing.T) {
	r := small(t)
	for _, name := range []string{"", "job_status", "HEALTH", "resmon__health", "delete_routine", strings.Repeat("x", 500)} {
		got := r.refused(name, `{}`)
		if got.Error != "invalid_argument" || len(got.Message) > 300 {
			t.Errorf("%q: %+v", name, got)
		}
	}
	if n := len(r.fake.Requests()); n > 0 {
		t.Errorf("%d requests", n)
	}
}

func TestAnAnswerWithoutItsPromisedIDIsNotPassedOn(t *testing.T) {
	tests := []struct{ name, arguments, template string }{
		{"run_sweep", `{"query":"x","sources":["arxiv"]}`, "/api/search/sweep"},
		{"run_routine", `{"routine_id":3}`, "/api/routines/{routine_id}/run"},
		{"create_routine", `{"name":"n","keywords":["a"],"sources":["arxiv"],"schedule":"0 8 * * *"}`, "/api/routines"},
		{"create_watch_profile", `{"name":"Jane"}`, "/api/profiles"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := small(t)
			r.fake.Inject(resmontest.Body(http.StatusOK, map[string]any{"detail": "ok"}), resmontest.Scope{Method: "POST", Template: tt.template})
			got := r.refused(tt.name, tt.arguments)
			if got.Error != "upstream_error" {
				t.Errorf("%+v", got)
			}
			got.detail(t, `{"outcome_unknown":true,"reason":"id_missing"}`)
		})
	}
}
