package broker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"berth/broker"
)

var began = time.Date(2026, 5, 4, 9, 10, 2, 0, time.UTC)

func after(d time.Duration) time.Time { return began.Add(d) }

var statuses = []broker.JobStatus{broker.JobAccepted, broker.JobRunning, broker.JobSucceeded, broker.JobFailed, broker.JobLost}

// edges are those of contracts/native.md section 22, and the annotation of a
// running job, which is no step.
var edges = map[string]bool{
	"Accepted>Running": true, "Accepted>Failed": true, "Accepted>Lost": true,
	"Running>Succeeded": true, "Running>Failed": true, "Running>Lost": true,
	"Running>Running": true,
}

func TestOnlyTheStepsOfTheTableAreTaken(t *testing.T) {
	ends := []broker.JobStatus{broker.JobSucceeded, broker.JobFailed, broker.JobLost}
	for _, from := range append(slices.Clone(statuses), "", "accepted", "Cancelled") {
		for _, to := range append(slices.Clone(statuses), "", "running", "Cancelled") {
			j := broker.Job{ID: "job_1", Status: from, SubmittedAt: began}
			next, events, err := j.Apply(broker.JobChange{To: to, At: after(time.Second)})
			if edges[fmt.Sprintf("%s>%s", from, to)] {
				if err != nil || next.Status != to {
					t.Errorf("%s to %s: %v, %s", from, to, err, next.Status)
				}
				continue
			}
			if err == nil || !reflect.DeepEqual(next, j) || events != nil {
				t.Errorf("%s to %s: took the step, %+v", from, to, next)
			}
			// A status that nobody knows has no exits either.
			if final := slices.Contains(ends, from) || !slices.Contains(statuses, from); errors.Is(err, broker.ErrJobFinal) != final || errors.Is(err, broker.ErrJobStep) == final {
				t.Errorf("%s to %s: %v", from, to, err)
			}
		}
	}
	for _, s := range statuses {
		if s.Final() != slices.Contains(ends, s) {
			t.Errorf("%s is final: %v", s, s.Final())
		}
	}
}

// model is a job as the contract tells it, in words of its own.
type model struct {
	state              string
	started, completed time.Time
	failure, reason    string
	refusal, result    string
	isError            bool
	runtime            string
	tracked            broker.Tracking
}

func (m *model) over() bool { return m.state != "Accepted" && m.state != "Running" }

// step gives the type of the event that the change writes, or "refused".
func (m *model) step(c broker.JobChange) (event string) {
	if m.over() || !edges[m.state+">"+string(c.To)] {
		return "refused"
	}
	if c.To == broker.JobRunning && m.state == "Accepted" {
		m.started = c.At
	}
	m.state = string(c.To)
	if c.RuntimeID != "" {
		m.runtime = c.RuntimeID
	}
	if c.Tracking != nil {
		m.tracked = *c.Tracking
	}
	if !m.over() {
		return ""
	}
	m.completed, m.result, m.isError = c.At, string(c.Result), c.ResultIsError
	if m.state == "Succeeded" {
		return ""
	}
	m.refusal, m.reason, m.failure = string(c.Refusal), string(c.Reason), shortened(c.Message)
	if m.reason == "" {
		m.reason = "operation_failed"
	}
	if strings.TrimSpace(m.failure) == "" {
		m.failure = "Operation failed."
	}
	return "job." + strings.ToLower(m.state)
}

// shortened keeps whole characters as long as they fit into 1024 bytes.
func shortened(text string) string {
	for i, r := range text {
		if size := utf8.RuneLen(r); i+size > 1024 {
			return text[:i]
		}
	}
	return text
}

func (m *model) check(t *rapid.T, j broker.Job) {
	want := broker.Job{
		ID: "job_1", Operation: "fs__slow", Tenant: "acme", User: "ana", ObjectiveID: j.ObjectiveID, SubmittedAt: began,
		Status: broker.JobStatus(m.state), FailureMessage: m.failure, Reason: broker.Code(m.reason), RuntimeID: m.runtime,
		ResultIsError: m.isError, ResultBytes: int64(len(m.result)),
	}
	set := func(at time.Time) *time.Time {
		if at.IsZero() {
			return nil
		}
		return &at
	}
	want.StartedAt, want.CompletedAt = set(m.started), set(m.completed)
	if m.refusal != "" {
		want.Refusal = json.RawMessage(m.refusal)
	}
	if m.result != "" {
		want.Result = json.RawMessage(m.result)
	}
	if m.tracked.Handle != "" {
		want.Tracking = &m.tracked
	}
	if !reflect.DeepEqual(j, want) {
		t.Fatalf("the job is\n%+v\nthe model says\n%+v", j, want)
	}
}

func drawChange(t *rapid.T, at time.Time) broker.JobChange {
	maybe := func(name string, raw string) json.RawMessage {
		if rapid.Bool().Draw(t, name) {
			return json.RawMessage(raw)
		}
		return nil
	}
	c := broker.JobChange{
		To: rapid.SampledFrom([]broker.JobStatus{broker.JobAccepted, broker.JobRunning, broker.JobRunning, broker.JobRunning,
			broker.JobSucceeded, broker.JobFailed, broker.JobLost, "", "Cancelled"}).Draw(t, "to"),
		At:            at,
		RuntimeID:     rapid.SampledFrom([]string{"", "", "life-1", "life-2"}).Draw(t, "runtime"),
		Result:        maybe("result", `{"content":[],"n":1.0}`),
		ResultIsError: rapid.Bool().Draw(t, "isError"),
		Reason:        rapid.SampledFrom([]broker.Code{"", broker.CodeCancelled, broker.CodeOutcomeUnknown}).Draw(t, "reason"),
		Refusal:       maybe("refusal", `{"code":"outcome_unknown"}`),
		Message:       drawMessage(t),
	}
	if rapid.Bool().Draw(t, "tracks") {
		c.Tracking = &broker.Tracking{Handle: "h", Verb: "job_status", LastGood: at}
	}
	return c
}

// drawMessage draws messages around the limit, of characters of every width.
func drawMessage(t *rapid.T) string {
	letter := rapid.SampledFrom([]string{"a", "é", "漢", "𝛑", " ", "\n"})
	return strings.Repeat(letter.Draw(t, "letter"), rapid.SampledFrom([]int{0, 1, 255, 256, 341, 342, 1021}).Draw(t, "times")) +
		strings.Join(rapid.SliceOfN(letter, 0, 6).Draw(t, "tail"), "")
}

func TestLifeOfAJobIsThatOfTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objective := rapid.SampledFrom([]string{"", "obj_1"}).Draw(t, "objective")
		j := broker.Job{ID: "job_1", Operation: "fs__slow", Status: broker.JobAccepted, SubmittedAt: began, Tenant: "acme", User: "ana", ObjectiveID: objective}
		m := &model{state: "Accepted"}
		ends := 0
		for i := range rapid.IntRange(1, 8).Draw(t, "steps") {
			c := drawChange(t, after(time.Duration(i+1)*time.Minute))
			before := j
			next, events, err := j.Apply(c)
			if !reflect.DeepEqual(j, before) {
				t.Fatal("the receiver was changed")
			}
			event := m.step(c)
			if (event == "refused") != (err != nil) {
				t.Fatalf("%s to %s: %v", j.Status, c.To, err)
			}
			if err != nil && j.Status.Final() != errors.Is(err, broker.ErrJobFinal) {
				t.Fatalf("%s to %s: %v", j.Status, c.To, err)
			}
			if c.Tracking != nil { // the caller's to use again
				c.Tracking.Handle = "another"
			}
			m.check(t, next)
			ends += len(events)
			checkEvent(t, events, event, next, c.At)
			j = next
		}
		if want := map[bool]int{true: 1, false: 0}[m.state == "Failed" || m.state == "Lost"]; ends != want {
			t.Fatalf("%d events of the end of a job that is %s", ends, m.state)
		}
	})
}

func checkEvent(t *rapid.T, events []broker.Event, kind string, j broker.Job, at time.Time) {
	if kind == "" || kind == "refused" {
		if len(events) > 0 {
			t.Fatalf("events %+v", events)
		}
		return
	}
	entity, id := "job", j.ID
	if j.ObjectiveID != "" {
		entity, id = "objective", j.ObjectiveID
	}
	want := []broker.Event{{EventType: kind, EntityType: entity, EntityID: id, TenantID: "acme", CreatedAt: at, Message: j.ID + ": " + j.FailureMessage}}
	if !reflect.DeepEqual(events, want) {
		t.Fatalf("events %+v, want %+v", events, want)
	}
}

func TestFailureMessageIsCutAtACharacter(t *testing.T) {
	for _, tt := range []struct{ name, message, want string }{
		{"none", "", "Operation failed."},
		{"blank", " \t\n", "Operation failed."},
		{"as long as it may be", strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		{"one byte more", strings.Repeat("x", 1025), strings.Repeat("x", 1024)},
		{"a character across the limit", strings.Repeat("x", 1023) + "é", strings.Repeat("x", 1023)},
		{"a wide character across the limit", strings.Repeat("x", 1021) + "𝛑", strings.Repeat("x", 1021)},
		{"a wide character up to the limit", strings.Repeat("x", 1020) + "𝛑y", strings.Repeat("x", 1020) + "𝛑"},
		{"blank once it is cut", strings.Repeat(" ", 2000) + "x", "Operation failed."},
		{"broken text", strings.Repeat("x", 1023) + "\xff\xff", strings.Repeat("x", 1023) + "\xff"},
		{"continuation bytes only", strings.Repeat("\x80", 2000), "Operation failed."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, to := range []broker.JobStatus{broker.JobFailed, broker.JobLost} {
				j, _, err := broker.Job{Status: broker.JobRunning}.Apply(broker.JobChange{To: to, Message: tt.message})
				if err != nil || j.FailureMessage != tt.want {
					t.Errorf("%v, got %d bytes %.20q", err, len(j.FailureMessage), j.FailureMessage)
				}
			}
		})
	}
}

func TestSucceededJobHasNoFailure(t *testing.T) {
	j, events, err := broker.Job{Status: broker.JobRunning}.Apply(broker.JobChange{To: broker.JobSucceeded, At: after(0),
		Message: "text", Reason: broker.CodeInternal, Refusal: json.RawMessage(`{}`), Result: json.RawMessage(`{"a":1}`)})
	if err != nil || j.FailureMessage != "" || j.Reason != "" || j.Refusal != nil || events != nil || string(j.Result) != `{"a":1}` || j.ResultBytes != 7 {
		t.Errorf("%v %+v %v", err, j, events)
	}
}

func TestStaleness(t *testing.T) {
	at := func(d time.Duration) *time.Time { v := after(d); return &v }
	good := func(d time.Duration) *broker.Tracking { return &broker.Tracking{Handle: "h", LastGood: after(d)} }
	const half = 30 * time.Minute
	for _, tt := range []struct {
		name string
		job  broker.Job
		want time.Time
	}{
		{"Accepted counts from its submission", broker.Job{Status: broker.JobAccepted}, after(half)},
		{"Running counts from its start", broker.Job{Status: broker.JobRunning, StartedAt: at(20 * time.Minute)}, after(20*time.Minute + half)},
		{"promoted without a start counts from its submission", broker.Job{Status: broker.JobRunning, Promoted: true}, after(half)},
		{"tracked counts from its last good poll", broker.Job{Status: broker.JobRunning, StartedAt: at(time.Minute), Tracking: good(time.Hour)}, after(time.Hour + half)},
		{"a poll before the start does not count", broker.Job{Status: broker.JobRunning, StartedAt: at(time.Hour), Tracking: good(time.Minute)}, after(time.Hour + half)},
		{"tracked and never polled well counts from its start", broker.Job{Status: broker.JobRunning, StartedAt: at(time.Minute), Tracking: &broker.Tracking{}}, after(time.Minute + half)},
		{"a verb may say otherwise", broker.Job{Status: broker.JobRunning, StartedAt: at(time.Minute), Limit: 2 * time.Hour}, after(time.Minute + 2*time.Hour)},
		{"a limit that is none is the default", broker.Job{Status: broker.JobAccepted, Limit: -1}, after(half)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.job.SubmittedAt = began
			if got := tt.job.StaleAt(); !got.Equal(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestGoodPollsKeepAJobFresh(t *testing.T) {
	j := broker.Job{Status: broker.JobAccepted, SubmittedAt: began}
	step := func(c broker.JobChange) {
		t.Helper()
		c.To = broker.JobRunning
		var err error
		if j, _, err = j.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	step(broker.JobChange{At: after(time.Minute)})
	for i := range 10 {
		at := after(time.Duration(i+1) * 20 * time.Minute)
		if !at.Before(j.StaleAt()) {
			t.Fatalf("poll %d: stale since %v", i, j.StaleAt())
		}
		step(broker.JobChange{At: at, Tracking: &broker.Tracking{Handle: "h", LastGood: at}})
	}
	if want := after(230 * time.Minute); !j.StaleAt().Equal(want) || !j.StartedAt.Equal(after(time.Minute)) {
		t.Errorf("stale at %v, started %v", j.StaleAt(), j.StartedAt)
	}
}

func TestEndsThatTheBrokerMakes(t *testing.T) {
	start := after(time.Minute)
	running := broker.Job{ID: "job_1", Status: broker.JobRunning, SubmittedAt: began, StartedAt: &start, ObjectiveID: "obj_1", VesselID: "vsl_1", RuntimeID: "life-1"}
	accepted := broker.Job{ID: "job_2", Status: broker.JobAccepted, SubmittedAt: began}
	for _, tt := range []struct {
		name         string
		job          broker.Job
		change       broker.JobChange
		status       broker.JobStatus
		reason       broker.Code
		said, entity string
	}{
		{"restart, Running", running, broker.LostOnRestart(after(time.Hour)), broker.JobLost, broker.CodeJobLostOnRestart, "job_lost_on_restart: ", "objective"},
		{"restart, Accepted", accepted, broker.LostOnRestart(after(time.Hour)), broker.JobLost, broker.CodeJobLostOnRestart, "submit it again", "job"},
		{"reaped, Running", running, broker.Reaped(running, after(time.Hour)), broker.JobFailed, broker.CodeReapedAsStale, "Running past its limit and was reaped as stale", "objective"},
		{"reaped, Accepted", accepted, broker.Reaped(accepted, after(time.Hour)), broker.JobFailed, broker.CodeReapedAsStale, "Accepted past its limit and was reaped as stale", "job"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j, events, err := tt.job.Apply(tt.change)
			if err != nil || j.Status != tt.status || j.Reason != tt.reason || !strings.Contains(j.FailureMessage, tt.said) || !j.CompletedAt.Equal(after(time.Hour)) {
				t.Fatalf("%v %+v", err, j)
			}
			if j.StartedAt != tt.job.StartedAt || j.ObjectiveID != tt.job.ObjectiveID || j.VesselID != tt.job.VesselID || j.RuntimeID != tt.job.RuntimeID {
				t.Errorf("not kept: %+v", j)
			}
			if len(events) != 1 || events[0].EntityType != tt.entity || !strings.Contains(events[0].Message, j.ID) || !strings.Contains(events[0].Message, j.FailureMessage) {
				t.Errorf("events %+v", events)
			}
			if _, _, err := j.Apply(tt.change); !errors.Is(err, broker.ErrJobFinal) {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}

func TestOnlyFinalJobsExpire(t *testing.T) {
	done := began
	const fortnight = 14 * 24 * time.Hour
	for _, tt := range []struct {
		name string
		job  broker.Job
		age  time.Duration
		want bool
	}{
		{"just before", broker.Job{Status: broker.JobSucceeded, CompletedAt: &done}, fortnight - 1, false},
		{"Succeeded", broker.Job{Status: broker.JobSucceeded, CompletedAt: &done}, fortnight, true},
		{"Lost", broker.Job{Status: broker.JobLost, CompletedAt: &done}, fortnight, true},
		{"Running for a year", broker.Job{Status: broker.JobRunning, SubmittedAt: began}, 365 * 24 * time.Hour, false},
		{"Accepted for a year", broker.Job{Status: broker.JobAccepted, SubmittedAt: began}, 365 * 24 * time.Hour, false},
		{"final without a time is kept", broker.Job{Status: broker.JobFailed}, 365 * 24 * time.Hour, false},
	} {
		if got := tt.job.Expired(after(tt.age)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
