package resmon

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/transport/app"
	"berth/transport/app/resmontest"
)

// FuzzRecords holds what is made of records of the app: whatever comes, what
// leaves is JSON and holds no destination that stood in its settings.
func FuzzRecords(f *testing.F) {
	f.Add(`{"storage_settings":{"export_directory":"/home/u/planted"},"ai_settings":"{\"endpoint\":\"http://planted\"}","progress_events":"[1,2]","parameters":"{}"}`)
	f.Add(`{"progress_events":[{}],"error_message":"x","parameters":"{\"ai_settings\":{\"url\":\"planted@x.org\"}}"}`)
	f.Add(`{"storage_settings":[[{"path":["~/planted"]}]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		row, ok := app.ReadObject(json.RawMessage(text))
		if !ok {
			return
		}
		if got := executionWhole(row).JSON(); !json.Valid(got) && json.Valid([]byte(text)) {
			t.Errorf("%s became %s", text, got)
		}
	})
}

// FuzzDelivery holds the summary of deliveries: no address of the rows is in it.
func FuzzDelivery(f *testing.F) {
	f.Add("a@example.org", "550 refused a@example.org")
	f.Add("/home/u/x y", "No such directory: /home/u/x y")
	f.Add("https://h/p?q=1", "POST https://h/p?q=1 failed")
	f.Fuzz(func(t *testing.T, snapshot, message string) {
		snapshot = strings.TrimSpace(strings.ToValidUTF8(snapshot, ""))
		if len(snapshot) < 3 || strings.Contains("<target><address>***", snapshot) || holdsJSON(snapshot) {
			return
		}
		body := app.JSON(map[string]any{"deliveries": []any{map[string]any{"target_snapshot": snapshot}},
			"summary": map[string]any{"targets": map[string]int{"email": 1}, "last": map[string]any{"last_error": message, "state": "failed"}}})
		got, ok := delivery(body)
		if !ok {
			t.Fatalf("%s", body)
		}
		if e := got.Text("last_error"); strings.Contains(e, snapshot) && strings.Contains(message, snapshot) {
			// Only a destination that arose from what was put in the place of
			// another could be left.
			if !strings.Contains(strings.NewReplacer(target, "", address, "").Replace(e), snapshot) {
				return
			}
			t.Errorf("%q is in %q", snapshot, e)
		}
	})
}

// FuzzPolls holds the reading of answers about tracked work.
func FuzzPolls(f *testing.F) {
	f.Add(`{"status":"completed","id":1}`, false)
	f.Add(`{"error":"not_found"}`, true)
	f.Add(`{"queued":true,"request_id":"x","routine_id":1}`, false)
	f.Fuzz(func(t *testing.T, text string, isError bool) {
		p := readPoll("1", foreign, json.RawMessage(text), isError)
		if p.End != "" && (!p.Good || p.Message == "" && p.Result == nil) {
			t.Errorf("%s: %+v", text, p)
		}
		if p.Result != nil && !json.Valid(p.Result) && json.Valid([]byte(text)) {
			t.Errorf("%s: %s", text, p.Result)
		}
		if s, ok := started(json.RawMessage(text)); ok && (s.Handle == "") == (s.Ticket == nil) {
			t.Errorf("%s: %+v", text, s)
		}
		readFound(nil, json.RawMessage(text), isError)
	})
}

// FuzzAnswers gives each read whatever the app may say: it must come out as one
// JSON document, an answer or a refusal, and never as a panic.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{`{}`, `[]`, `null`, `[{}]`, `{"results":[{}],"sort":"similarity"}`, `{"neighbours":[{"id":1}]}`, `{"findings":[{"muted":1}]}`, `{"profiles":[{"names":["a",{"value":1}],"identifiers":{"orcid":"x"}}]}`,
		`{"summary":{"targets":{"email":"x"},"last":7}}`, `{"settings":{"a":1}}`, `{"identity":{}}`, `[{"id":1},7]`, `"x`} {
		f.Add(seed)
	}
	fake := resmontest.Run(f, resmontest.Options{Data: resmontest.Small})
	f.Fuzz(func(t *testing.T, body string) {
		r := reach(t, fake, app.Options{Env: fake.Env()})
		r.call("list_routines", `{}`)
		in := fake.Inject(resmontest.Body(200, rawText(body)), resmontest.Scope{})
		defer in.Off()
		for _, c := range every {
			a := r.call(c[0], c[1])
			if a.isError && strings.Contains(a.text, `"panic"`) {
				t.Errorf("%s on %q: %s", c[0], body, a.text)
			}
		}
	})
}

// rawText is a body that need not be JSON: as a string where it is none.
func rawText(s string) any {
	if json.Valid([]byte(s)) {
		return rawJSON(s)
	}
	return s
}
