package broker

import (
	"strings"
	"testing"
	"time"
)

func TestAJobIsExplainedFromItsRecord(t *testing.T) {
	at := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	accepted := Job{ID: "job_1", Operation: "demo__build", Backend: "demo", Tenant: "default", User: "ops", Status: JobAccepted, SubmittedAt: at}
	step := func(j Job, c JobChange, after time.Duration) Job {
		c.At = at.Add(after)
		next, _, err := j.Apply(c)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	running := step(accepted, JobChange{To: JobRunning, RuntimeID: "life-1"}, 2*time.Second)
	nameless := step(accepted, JobChange{To: JobRunning}, 2*time.Second)
	tracked := step(running, JobChange{To: JobRunning, Tracking: &Tracking{Handle: "h-1"}}, 3*time.Second)
	promoted := running
	promoted.Promoted = true
	for _, tt := range []struct {
		name string
		job  Job
		end  *Event
		now  time.Duration
		runs bool
		want []string
		not  string
	}{
		{"waiting", accepted, nil, time.Minute, true, []string{"accepted at 2026-05-04T09:00:00Z as a job of demo__build for default/ops", "has waited 1m0s", "Wait for it"}, "incarnation"},
		{"running", running, nil, time.Minute, true, []string{"waited 2s before it ran", "unknown", "incarnation life-1", "stale at 2026-05-04T09:30:02Z"}, "Lost"},
		{"running on nobody knows what", nameless, nil, time.Minute, true, []string{"which incarnation is unknown"}, "life"},
		{"promoted", promoted, nil, time.Minute, true, []string{"A call of demo__build", "became this job"}, "accepted"},
		{"past its limit", running, nil, time.Hour, true, []string{"past its limit since 2026-05-04T09:30:02Z", "reaped"}, "cancel"},
		{"no broker", running, nil, time.Minute, false, []string{"no broker runs: whether it took effect is unknown", "records it as Lost"}, "Wait"},
		{"no broker, work elsewhere", tracked, nil, time.Minute, false, []string{`as "h-1"`, "last seen at: unknown", "goes on following"}, "Lost"},
		{"succeeded", step(running, JobChange{To: JobSucceeded, Result: []byte(`{}`)}, 5*time.Second), nil, time.Hour, true, []string{"Succeeded at 2026-05-04T09:00:05Z, 3s after it began", "2 bytes and is no error", "jobs show"}, "event"},
		{"succeeded with an error", step(running, JobChange{To: JobSucceeded, Result: []byte(`{}`), ResultIsError: true}, 5*time.Second), nil, time.Hour, true, []string{"says that it is an error"}, "no error"},
		{"lost", step(running, LostOnRestart(at), 5*time.Second), &Event{ID: "evt_1", CreatedAt: at}, time.Hour, true, []string{"ended Lost", "job_lost_on_restart", "The event evt_1", "nothing resumes it"}, "No event"},
		{"failed before it ran", step(accepted, JobChange{To: JobFailed, Reason: CodeCancelled, Message: "by ops"}, 5*time.Second), nil, time.Hour, true, []string{"never ran: it waited 5s", "reason cancelled: by ops", "No event", "Nothing; but check"}, "began to run"},
		{"a reason of somebody else", step(running, JobChange{To: JobFailed, Reason: "their_code"}, 5*time.Second), nil, time.Hour, true, []string{"docs/refusals.md for their_code"}, "Nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			told, next := tt.job.Explain(tt.end, at.Add(tt.now), tt.runs)
			text := strings.Join(append(told, next), "\n")
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in\n%s", want, text)
				}
			}
			if strings.Contains(text, tt.not) {
				t.Errorf("%q is in\n%s", tt.not, text)
			}
		})
	}
}
