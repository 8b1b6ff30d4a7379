package broker_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"berth/broker"
)

func TestPointedFollowsAJSONPointer(t *testing.T) {
	const document = `{"a":{"b/c":[10,{"~":"x"}],"":1.0},"n":null,"s":"text"}`
	for _, tt := range []struct {
		pointer, want string // empty: nothing
	}{
		{"", document}, {"/a/b~1c/0", "10"}, {"/a/b~1c/1/~0", `"x"`}, {"/a/", "1.0"}, {"/n", "null"},
		{"/s", `"text"`}, {"/a/b~1c/2", ""}, {"/a/b~1c/-1", ""}, {"/a/b~1c/00", ""}, {"/a/b~1c/-", ""}, {"/s/0", ""}, {"/n/x", ""}, {"/x", ""}, {"a", ""},
	} {
		got, ok := broker.Pointed(json.RawMessage(document), tt.pointer)
		if string(got) != tt.want || ok != (tt.want != "") {
			t.Errorf("%q: %s, %v", tt.pointer, got, ok)
		}
	}
	if _, ok := broker.Pointed(nil, ""); ok {
		t.Error("something was found in nothing")
	}
}

func TestToolDocument(t *testing.T) {
	for _, tt := range []struct{ name, result, want string }{
		{"structured", `{"content":[{"type":"text","text":"{}"}],"structuredContent":{"a":1.0}}`, `{"a":1.0}`},
		{"text", `{"content":[{"type":"image"},{"type":"text","text":"plain"},{"type":"text","text":"{\"a\":1}"}]}`, `{"a":1}`},
		{"structured null", `{"content":[{"type":"text","text":"[1]"}],"structuredContent":null}`, `[1]`},
		{"plain text", `{"content":[{"type":"text","text":"plain"}]}`, ""},
		{"no tool result", `[1]`, ""},
	} {
		if got := broker.ToolDocument(json.RawMessage(tt.result)); string(got) != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

func tool(document string) json.RawMessage {
	return json.RawMessage(`{"content":[{"type":"text","text":` + strconv.Quote(document) + `}]}`)
}

func TestTrackReadsTheBackendsWords(t *testing.T) {
	track := broker.Track{Handle: "/build/id", Verb: "build_status", Argument: "build_id", Status: "/state",
		Running: []string{"queued", "2"}, Succeeded: []string{"done"}, Failed: []string{"broken"}, Cancelled: []string{"stopped"}, Lost: []string{"interrupted"},
		Result: "/out", Message: "/why"}
	for _, tt := range []struct{ in, want string }{
		{`{"build":{"id":"b-1"}}`, "b-1"}, {`{"build":{"id":17}}`, "17"}, {`{"build":{"id":12345678901234567890}}`, "12345678901234567890"},
		{`{"build":{"id":""}}`, ""}, {`{"build":{"id":null}}`, ""}, {`{"build":{}}`, ""}, {`plain`, ""}, {`{"build":{"id":{}}}`, ""},
	} {
		if got, ok := track.HandleIn(tool(tt.in)); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, %v", tt.in, got, ok)
		}
	}
	if got := string(track.Arguments(`a"b`)); got != `{"build_id":"a\"b"}` {
		t.Error(got)
	}
	for _, tt := range []struct {
		in      string
		known   bool
		to      broker.JobStatus // empty: it goes on
		reason  broker.Code
		message string
		result  string
	}{
		{`{"state":"queued"}`, true, "", "", "", ""},
		{`{"state":2}`, true, "", "", "", ""},
		{`{"state":"done","out":{"n":1.0}}`, true, broker.JobSucceeded, "", "", `{"n":1.0}`},
		{`{"state":"done"}`, true, broker.JobSucceeded, "", "", string(tool(`{"state":"done"}`))},
		{`{"state":"broken","why":"it rained"}`, true, broker.JobFailed, broker.CodeOperationFailed, "it rained", ""},
		{`{"state":"stopped"}`, true, broker.JobFailed, broker.CodeCancelled, "The work was cancelled in its backend.", ""},
		{`{"state":"interrupted"}`, true, broker.JobLost, broker.CodeTrackedWorkLost, "The backend reports this work as interrupted; what became of it is unknown.", ""},
		{`{"state":"Done"}`, false, "", "", "", ""},
		{`{"state":""}`, false, "", "", "", ""},
		{`{"state":true}`, false, "", "", "", ""},
		{`{}`, false, "", "", "", ""},
		{`plain`, false, "", "", "", ""},
	} {
		change, known := track.Change(tool(tt.in))
		if known != tt.known || (change == nil) != (tt.to == "") {
			t.Errorf("%s: %+v, %v", tt.in, change, known)
			continue
		}
		if change != nil && (change.To != tt.to || change.Reason != tt.reason || change.Message != tt.message || string(change.Result) != tt.result) {
			t.Errorf("%s: %+v", tt.in, change)
		}
	}
}

// FuzzTrack: whatever a backend answers is read without a panic, and what is
// found is JSON.
func FuzzTrack(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"{\"a\":{\"b\":[1]}}"}]}`), "/a/b/0", "1")
	f.Add([]byte(`{"structuredContent":{"s":"done"}}`), "/s", "done")
	f.Add([]byte(`{"structuredContent":[[[]]]}`), "/0/0/~01", "")
	f.Fuzz(func(t *testing.T, result []byte, pointer, word string) {
		track := broker.Track{Handle: pointer, Status: pointer, Succeeded: []string{word}, Result: pointer}
		if handle, ok := track.HandleIn(result); ok && handle == "" {
			t.Error("an empty handle")
		}
		if change, known := track.Change(result); known && change != nil && !json.Valid(change.Result) {
			t.Errorf("%s", change.Result)
		}
	})
}
