package actors

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/shape"
)

// TestARefusalOfABrokersVerbEndsItsJobWithItsCode: the whole body is the
// record's, its message is cut and still JSON.
func TestARefusalOfABrokersVerbEndsItsJobWithItsCode(t *testing.T) {
	now := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	refusal := broker.Refuse(broker.CodeIndexUpdating, "An update runs.", map[string]any{"VesselId": "vsl_1", "Preview": strings.Repeat("x", 3000)}).Retry(7 * time.Second)
	answer := &broker.Answer{Result: shape.Structured(refusal.NativeJSON(), true)}
	for _, tt := range []struct {
		name    string
		native  bool
		result  json.RawMessage
		reason  broker.Code
		refusal bool
	}{
		{"a verb of the broker", true, answer.Result, broker.CodeIndexUpdating, true},
		{"a backend's", false, answer.Result, broker.CodeOperationFailed, false},
		{"an error that is no refusal", true, shape.Structured(json.RawMessage(`{"Error":"It broke."}`), true), broker.CodeOperationFailed, false},
		{"an error that is no JSON", true, json.RawMessage(`{"content":[{"type":"text","text":"It broke."}],"isError":true}`), broker.CodeOperationFailed, false},
	} {
		c := outcomeChange(&outcome{answer: &broker.Answer{Result: tt.result}}, tt.native, now)
		if c.To != broker.JobFailed || c.Reason != tt.reason || (len(c.Refusal) > 0) != tt.refusal || c.ResultIsError == tt.refusal {
			t.Errorf("%s: %s %.80s", tt.name, c.Reason, c.Refusal)
		}
		if !tt.refusal {
			continue
		}
		var message, whole map[string]any
		if json.Unmarshal([]byte(c.Message), &message) != nil || json.Unmarshal(c.Refusal, &whole) != nil || len(c.Message) > broker.MaxFailureMessage {
			t.Fatalf("%s", c.Message)
		}
		if message["Code"] != string(tt.reason) || message["VesselId"] != "vsl_1" || message["Preview"] != nil || len(whole["Preview"].(string)) != 3000 || whole["RetryAfterSeconds"] != 7.0 || whole["Retryable"] != true {
			t.Errorf("the message is %s, the refusal %.100s", c.Message, c.Refusal)
		}
	}
}

func TestWhoeverMadeSomethingForAJobHearsOfItsCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		defer close(gate)
		var told atomic.Pointer[broker.Job]
		var times atomic.Int64
		w := start(t, &upstream{call: func(ctx context.Context, _ *broker.Call, _ broker.Peer) (broker.Answer, error) {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return broker.Answer{Result: text("x")}, nil
		}}, func(o *Options) {
			o.Cancelled = func(_ context.Context, job broker.Job, by broker.Principal) {
				if by != broker.LocalOperator {
					t.Errorf("cancelled by %v", by)
				}
				times.Add(1)
				told.Store(&job)
			}
		})
		id := w.do(long).Job.ID
		synctest.Wait()
		if _, err := w.CancelJob(t.Context(), id, "enough", broker.LocalOperator); err != nil {
			t.Fatal(err)
		}
		_, _ = w.CancelJob(t.Context(), id, "once more", broker.LocalOperator)
		synctest.Wait()
		if j := told.Load(); times.Load() != 1 || j == nil || j.ID != id || j.Status != broker.JobFailed || j.Reason != broker.CodeCancelled {
			t.Errorf("told %d times of %+v", times.Load(), j)
		}
	})
}
