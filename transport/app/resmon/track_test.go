package resmon

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/broker"
	"berth/transport/app"
	"berth/transport/app/resmontest"
)

func TestWhatIsFollowedOfAStart(t *testing.T) {
	tests := []struct {
		name, document string
		followed       bool
		handle, ticket string
	}{
		{"a run", `{"execution_id":7,"detail":"x"}`, true, "7", ""},
		{"queued without a request id", `{"execution_id":null,"queued":true,"queue_position":1,"routine_id":2}`, false, "", ""},
		{"queued with one", `{"execution_id":null,"queued":true,"routine_id":2,"request_id":"r1"}`, true, "", `{"routine_id":2,"request_id":"r1"}`},
		{"queued with an empty one", `{"queued":true,"routine_id":2,"request_id":""}`, false, "", ""},
		{"queued comes before the id", `{"execution_id":7,"queued":true}`, false, "", ""},
		{"an error", `{"error":"conflict","message":"m","detail":{"execution_id":7}}`, false, "", ""},
		{"no object", `[]`, false, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := started(json.RawMessage(tt.document))
			if ok != tt.followed || got.Handle != tt.handle || string(got.Ticket) != tt.ticket {
				t.Errorf("%v %+v", ok, got)
			}
		})
	}
}

func TestHowARunEnds(t *testing.T) {
	const runtime = foreign
	tests := []struct {
		name, document string
		isError        bool
		good           bool
		end            broker.JobStatus
		reason, says   string
	}{
		{"running", `{"status":"running"}`, false, true, "", "", ""},
		{"an unknown word", `{"status":"paused","end_time":null}`, false, true, "", "", ""},
		{"an unknown word that has ended", `{"status":"archived","end_time":"2026-01-01"}`, false, true, broker.JobLost, "unknown_status", "not known"},
		{"completed", `{"id":7,"status":"completed","result_count":3,"new_result_count":1,"end_time":"2026-01-01","parameters":{}}`, false, true, broker.JobSucceeded, "", ""},
		{"failed", `{"status":"failed","error_message":"HTTP 503"}`, false, true, broker.JobFailed, "upstream_error", "HTTP 503"},
		{"failed without a word", `{"status":"failed","error_message":null}`, false, true, broker.JobFailed, "upstream_error", "no reason"},
		{"cancelled", `{"status":"cancelled"}`, false, true, broker.JobFailed, "cancelled", "cancelled"},
		{"interrupted", `{"status":"interrupted","interrupted_reason":"owner_dead"}`, false, true, broker.JobLost, "interrupted", "owner_dead"},
		{"another process", `{"error":"instance_mismatch"}`, true, true, broker.JobLost, "instance_mismatch", runtime},
		{"no identity", `{"error":"identity_unavailable"}`, true, true, broker.JobLost, "identity_unavailable", "run 7"},
		{"gone", `{"error":"not_found"}`, true, true, broker.JobLost, "not_found", "run 7"},
		{"down", `{"error":"backend_unavailable"}`, true, false, "", "", ""},
		{"broken", `{"error":"upstream_error"}`, true, false, "", "", ""},
		{"nonsense", `7`, false, false, "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := readPoll("7", runtime, json.RawMessage(tt.document), tt.isError)
			if got.Good != tt.good || got.End != tt.end || got.Reason != tt.reason || !strings.Contains(got.Message, tt.says) {
				t.Errorf("%+v", got)
			}
			if tt.end == broker.JobSucceeded && string(got.Result) != `{"execution_id":7,"runtime_id":"`+runtime+`","status":"completed","result_count":3,"new_result_count":1,"finished":"2026-01-01"}` {
				t.Errorf("%s", got.Result)
			}
		})
	}
}

func TestAQueuedRunIsFoundByItsRequestAlone(t *testing.T) {
	r := run(t, resmontest.Options{Data: resmontest.Small, MaxRuns: 1, RequestIDs: true})
	first := r.good("run_routine", `{"routine_id":1}`)
	queued := r.call("run_routine", `{"routine_id":2}`)
	start, ok := started(json.RawMessage(queued.text))
	if !ok || start.Handle != "" || start.Ticket == nil {
		t.Fatalf("%s", queued.text)
	}
	// Earlier runs of that routine are there, and this is none of them.
	find := func() app.Poll {
		a := r.call(tracks.FindVerb, string(start.Ticket))
		return tracks.Find(start.Ticket, json.RawMessage(a.text), a.isError)
	}
	if got := find(); !got.Good || got.Handle != "" {
		t.Errorf("%+v", got)
	}
	id, _ := first["execution_id"].(json.Number).Int64()
	if err := r.fake.Finish(id, "completed"); err != nil {
		t.Fatal(err)
	}
	got := find()
	if !got.Good || got.Handle == "" {
		t.Fatalf("%+v", got)
	}
	a := r.bound(r.fake.RuntimeID(), tracks.Verb, string(tracks.Arguments(got.Handle)))
	if poll := tracks.Read(got.Handle, r.fake.RuntimeID(), json.RawMessage(a.text), a.isError); !poll.Good || poll.End != "" {
		t.Errorf("%+v", poll)
	}
	if p := readFound(nil, json.RawMessage(`{"error":"instance_mismatch"}`), true); p.End != broker.JobLost {
		t.Errorf("%+v", p)
	}
	for _, tool := range r.conn.Incarnation().Tools {
		if tool.Name == tracks.FindVerb {
			t.Error("what only the broker calls is listed")
		}
	}
}
