package app

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"berth/broker"
)

func TestARefusalOfTheBrokerIsSaidAsTheSurfaceDoes(t *testing.T) {
	base := "http://127.0.0.1:7"
	tests := []struct {
		name    string
		refusal *broker.Refusal
		tried   []string
		want    string
	}{
		{"an unknown name", broker.Refuse(broker.CodeVerbUnknown, "Tool not found: x", map[string]any{"name": "x", "suggestions": []string{"y"}}), nil,
			`{"error":"invalid_argument","message":"There is no tool x here.","detail":{"name":"x","suggestions":["y"]}}`},
		{"read-only", broker.Refuse("read_only_session", "No.", map[string]any{"read_only": true, "more": 1}), nil,
			`{"error":"invalid_argument","message":"Read-only.","detail":{"read_only":true}}`},
		{"overloaded", broker.Refuse(broker.CodeOverloaded, "Full.", map[string]any{"in_flight": 4}).Retry(1500 * time.Millisecond), nil,
			`{"error":"conflict","message":"Full.","detail":{"berth":{"code":"overloaded","in_flight":4,"retry_after_ms":1500}}}`},
		{"waited too long", broker.Refuse(broker.CodeQueueTimeout, "Waited.", nil), nil, `{"error":"conflict","message":"Waited.","detail":{"berth":{"code":"queue_timeout"}}}`},
		{"a key with other arguments", broker.Refuse(broker.CodeIdempotencyConflict, "Other.", nil), nil, `{"error":"conflict","message":"Other.","detail":{"berth":{"code":"idempotency_conflict"}}}`},
		{"no journal", broker.Refuse(broker.CodeJobJournal, "Disk.", nil), nil, `{"error":"conflict","message":"Disk.","detail":{"berth":{"code":"job_journal_unavailable"}}}`},
		{"a code of tomorrow", broker.Refuse("dispatch_held", "Held.", nil), nil, `{"error":"conflict","message":"Held.","detail":{"berth":{"code":"dispatch_held"}}}`},
		{"a run past its limit", broker.Refuse(broker.CodeCallTimeout, "Too late.", map[string]any{"outcome_unknown": true}), []string{base},
			`{"error":"backend_unavailable","message":"` + base + ` stopped. Too late.","tried":["` + base + `"],"detail":{"berth":{"code":"call_timeout","outcome_unknown":true},"outcome_unknown":true,"reason":"timeout","tried":["` + base + `"]}}`},
		{"nobody knows where", broker.Refuse(broker.CodeIdleTimeout, "Silent.", nil), nil,
			`{"error":"backend_unavailable","message":"Silent.","tried":[],"detail":{"berth":{"code":"idle_timeout"},"reason":"timeout","tried":[]}}`},
		{"nobody knows what came of it", broker.Refuse(broker.CodeOutcomeUnknown, "Gone.", nil), nil,
			`{"error":"backend_unavailable","message":"Gone.","tried":[],"detail":{"berth":{"code":"outcome_unknown"},"outcome_unknown":true,"reason":"closed","tried":[]}}`},
		{"another incarnation", broker.Refuse(broker.CodeInstanceMismatch, "Other.", map[string]any{"backend": "b", "expected_runtime_id": "e", "actual_runtime_id": "a"}), nil,
			`{"error":"instance_mismatch","message":"Other.","detail":{"actual_runtime_id":"a","expected_runtime_id":"e"}}`},
		{"malformed", broker.Refuse(broker.CodeInvalidArguments, "Malformed.", map[string]any{"errors": []string{"e"}}), nil,
			`{"error":"invalid_argument","message":"Malformed.","detail":{"errors":["e"]}}`},
		{"a failure of ours", broker.Refuse(broker.CodeInternal, "Failed.", nil), nil,
			`{"error":"internal_error","message":"Failed.","detail":{"berth":{"code":"internal"},"reason":"broker"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(notes.Refuse("x", tt.refusal, tt.tried...)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Whatever the broker refuses with is one of the eight codes of the contract.
func TestEveryRefusalHasACodeOfTheContract(t *testing.T) {
	for _, code := range broker.Codes() {
		var got struct {
			Error, Message string
			Tried          []string
			Detail         map[string]any
		}
		raw := notes.Refuse(strings.Repeat("x", 1000), broker.Refuse(code, "A sentence.", nil))
		if err := json.Unmarshal(raw, &got); err != nil || got.Detail == nil || got.Message == "" {
			t.Errorf("%s: %s", code, raw)
		}
		switch got.Error {
		case BackendUnavailable:
			if got.Tried == nil || got.Detail["tried"] == nil {
				t.Errorf("%s does not say what was tried: %s", code, raw)
			}
		case NotFound, InvalidArgument, Conflict, UpstreamError, InternalError, InstanceMismatch, IdentityUnavailable:
		default:
			t.Errorf("%s: %s", code, raw)
		}
		if len(raw) > 500 {
			t.Errorf("%s echoes a long name", code)
		}
	}
}
