package broker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/broker"
)

func TestRefusalIsReadInBothForms(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		refusal              *broker.Refusal
		json, native, asText string
	}{
		{
			"bare", broker.Refuse(broker.CodeVerbUnknown, "Tool not found: x", nil),
			`{"code":"verb_unknown","message":"Tool not found: x","retryable":false}`,
			`{"Error":"Tool not found: x","Code":"verb_unknown"}`,
			"verb_unknown: Tool not found: x",
		},
		{
			"with detail, sorted", broker.Refuse(broker.CodeIdempotencyConflict, "Taken.", map[string]any{"b": []string{"x", "y"}, "a": nil, "JobId": "job_1"}),
			`{"code":"idempotency_conflict","message":"Taken.","detail":{"JobId":"job_1","a":null,"b":["x","y"]},"retryable":false}`,
			`{"Error":"Taken.","Code":"idempotency_conflict","JobId":"job_1","a":null,"b":["x","y"]}`,
			"idempotency_conflict: Taken.",
		},
		{
			"retryable without a time", broker.Refuse(broker.CodeShuttingDown, "Stopping.", nil),
			`{"code":"shutting_down","message":"Stopping.","retryable":true}`,
			`{"Error":"Stopping.","Code":"shutting_down","Retryable":true}`,
			"shutting_down: Stopping.",
		},
		{
			"with a time, rounded for people", broker.Refuse(broker.CodeOverloaded, "Full.", map[string]any{"queued": 3}).Retry(1500 * time.Millisecond),
			`{"code":"overloaded","message":"Full.","detail":{"queued":3},"retryable":true,"retry_after_ms":1500}`,
			`{"Error":"Full.","Code":"overloaded","queued":3,"Retryable":true,"RetryAfterSeconds":2}`,
			"overloaded: Full.",
		},
		{
			"soon is not at once", broker.Refuse(broker.CodeInvalidArguments, "No.", nil).Retry(10 * time.Millisecond),
			`{"code":"invalid_arguments","message":"No.","retryable":true,"retry_after_ms":10}`,
			`{"Error":"No.","Code":"invalid_arguments","Retryable":true,"RetryAfterSeconds":1}`,
			"invalid_arguments: No.",
		},
		{
			"text of others keeps its bytes", broker.Refuse(broker.CodeOutcomeUnknown, `a<b> & "c"`, map[string]any{"stderr": "<é>\n", "raw": json.RawMessage(`{"n":1.0,"t":"\u003c<"}`)}),
			`{"code":"outcome_unknown","message":"a<b> & \"c\"","detail":{"raw":{"n":1.0,"t":"\u003c<"},"stderr":"<é>\n"},"retryable":false}`,
			`{"Error":"a<b> & \"c\"","Code":"outcome_unknown","raw":{"n":1.0,"t":"\u003c<"},"stderr":"<é>\n"}`,
			`outcome_unknown: a<b> & "c"`,
		},
		{
			"detail cannot stand in for the refusal's own fields", broker.Refuse(broker.CodeInternal, "No.", map[string]any{"Error": "yes", "Code": "ok", "Retryable": true, "RetryAfterSeconds": 9}),
			`{"code":"internal","message":"No.","detail":{"Code":"ok","Error":"yes","RetryAfterSeconds":9,"Retryable":true},"retryable":false}`,
			`{"Error":"No.","Code":"internal"}`,
			"internal: No.",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(tt.refusal.JSON()); got != tt.json {
				t.Errorf("got  %s\nwant %s", got, tt.json)
			}
			if got := string(tt.refusal.NativeJSON()); got != tt.native {
				t.Errorf("got  %s\nwant %s", got, tt.native)
			}
			if got := tt.refusal.Error(); got != tt.asText {
				t.Errorf("got %q, want %q", got, tt.asText)
			}
		})
	}
}

func TestRefusalWithADetailThatCannotBeEncodedIsStillJSON(t *testing.T) {
	r := broker.Refuse(broker.CodeOverloaded, "Full.", map[string]any{"f": func() {}})
	if got := r.JSON(); !json.Valid(got) || !strings.Contains(string(got), `"code":"internal"`) {
		t.Errorf("%s", got)
	}
	if got := r.NativeJSON(); !json.Valid(got) || !strings.Contains(string(got), `"Code":"overloaded"`) {
		t.Errorf("%s", got)
	}
}

func TestAnErrorThatIsNoRefusalLeaksNothing(t *testing.T) {
	own := broker.Refuse(broker.CodeJobNotFound, "Job not found", nil)
	if got := broker.AsRefusal(fmt.Errorf("look it up: %w", own)); got != own {
		t.Errorf("got %v", got)
	}
	got := broker.AsRefusal(errors.New("open /secret/place: permission denied"))
	if got.Code != broker.CodeInternal || got.Retryable || strings.Contains(string(got.JSON()), "secret") {
		t.Errorf("got %s", got.JSON())
	}
}

// An answer of backend_unavailable claims that nothing was changed, so it is
// said only when that is certain (DESIGN section 4, Outcome).
func TestFailureClaimsNoMoreThanIsKnown(t *testing.T) {
	for _, tt := range []struct {
		effects                   broker.Effects
		notDispatched, dispatched broker.Code
	}{
		{broker.Read, broker.CodeBackendUnavailable, broker.CodeBackendUnavailable},
		{broker.Session, broker.CodeBackendUnavailable, broker.CodeOutcomeUnknown},
		{broker.Write, broker.CodeBackendUnavailable, broker.CodeOutcomeUnknown},
		{broker.Destroy, broker.CodeBackendUnavailable, broker.CodeOutcomeUnknown},
		{broker.Exec, broker.CodeBackendUnavailable, broker.CodeOutcomeUnknown},
		{broker.Interrupt, broker.CodeBackendUnavailable, broker.CodeOutcomeUnknown},
		{broker.UnknownEffects, broker.CodeBackendUnavailable, broker.CodeOutcomeUnknown},
	} {
		call := &broker.Call{Backend: "fs", Verb: "fs__x", Effects: tt.effects}
		for dispatched, want := range map[bool]broker.Code{false: tt.notDispatched, true: tt.dispatched} {
			for _, more := range []broker.Failure{{}, {Gone: true}, {Abandoned: true}, {Gone: true, Abandoned: true}} {
				f := more
				f.Dispatched, f.Cause, f.Stderr = dispatched, "it ended", "last words"
				got := f.Refuse(call)
				if got.Code != want || got.Retryable != (want == broker.CodeBackendUnavailable) {
					t.Errorf("%v, dispatched %v: got %s, retryable %v", tt.effects.Names(), dispatched, got.Code, got.Retryable)
				}
				if got.Detail["backend"] != "fs" || got.Detail["verb"] != "fs__x" || got.Detail["cause"] != "it ended" || got.Detail["stderr"] != "last words" {
					t.Errorf("detail %v", got.Detail)
				}
			}
		}
	}
}

func TestFailureWithItsOwnRefusalIsThatRefusal(t *testing.T) {
	own := broker.Refuse(broker.CodeAnswerTooLarge, "Too large.", nil)
	f := &broker.Failure{Dispatched: true, Cause: "the answer is over the limit", Refusal: own}
	if got := f.Refuse(&broker.Call{Effects: broker.Write}); got != own || f.Error() != "the answer is over the limit" {
		t.Errorf("got %v, %v", got, f)
	}
	if got := (&broker.Failure{Cause: "c"}).Refuse(&broker.Call{}); got.Detail["stderr"] != nil {
		t.Errorf("a stderr that nobody saw: %v", got.Detail)
	}
}

func TestToolErrorIsReadFromTheResult(t *testing.T) {
	for result, want := range map[string]bool{
		`{"content":[],"isError":true}`: true, `{"isError":false}`: false, `{"content":[]}`: false, ``: false, `[]`: false,
		`{"isError":"true"}`: false, `{"isError":null}`: false, `{"nested":{"isError":true}}`: false,
	} {
		if got := (broker.Answer{Result: json.RawMessage(result)}).ToolError(); got != want {
			t.Errorf("%s: %v", result, got)
		}
	}
}

func TestTheMessageOfARefusedJobIsItsBodyCutAsJSON(t *testing.T) {
	long := strings.Repeat("é", 700)
	for _, tt := range []struct {
		name   string
		detail map[string]any
		has    []string
		lacks  []string
	}{
		{"whole", map[string]any{"SetBy": "ops-1"}, []string{"SetBy"}, nil},
		{"the preview goes first", map[string]any{"SetBy": "ops-1", "List": []string{"a"}, "Preview": long}, []string{"SetBy", "List"}, []string{"Preview"}},
		{"then lists", map[string]any{"SetBy": "ops-1", "List": []string{long}, "Preview": long}, []string{"SetBy"}, []string{"Preview", "List"}},
		{"then the rest", map[string]any{"SetBy": long}, nil, []string{"SetBy"}},
		{"nothing beside it", nil, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for message, whole := range map[string]bool{"Held.": true, strings.Repeat("<", 3000): false} {
				r := broker.Refuse(broker.CodeDispatchHold, message, tt.detail)
				text := r.FailureText(broker.MaxFailureMessage)
				var body map[string]any
				if err := json.Unmarshal([]byte(text), &body); err != nil || len(text) > broker.MaxFailureMessage || body["Code"] != "dispatch_hold_active" {
					t.Fatalf("%d bytes, %v: %s", len(text), err, text)
				}
				if said, _ := body["Error"].(string); said == "" || whole != (said == message) {
					t.Errorf("the sentence is %q", said)
				}
				for _, name := range tt.lacks {
					if body[name] != nil {
						t.Errorf("%s is there", name)
					}
				}
				for _, name := range tt.has {
					if whole && body[name] == nil {
						t.Errorf("%s is not there: %s", name, text)
					}
				}
				if len(r.Detail) != len(tt.detail) {
					t.Error("the refusal itself was changed")
				}
			}
		})
	}
}
