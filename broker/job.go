package broker

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// JobStatus is where a job stands. Succeeded, Failed and Lost are final.
type JobStatus string

// The statuses of a job.
const (
	JobAccepted  JobStatus = "Accepted"
	JobRunning   JobStatus = "Running"
	JobSucceeded JobStatus = "Succeeded"
	JobFailed    JobStatus = "Failed"
	JobLost      JobStatus = "Lost"
)

// jobTransitions is the one transition table of jobs (contracts/native.md
// section 22). A status that is not a key has no exits. Running to Running is
// an annotation: a handle to follow, or a good poll.
var jobTransitions = map[JobStatus][]JobStatus{
	JobAccepted: {JobRunning, JobFailed, JobLost},
	JobRunning:  {JobRunning, JobSucceeded, JobFailed, JobLost},
}

// Final reports whether s has no exits.
func (s JobStatus) Final() bool { return len(jobTransitions[s]) == 0 }

// ErrJobFinal and ErrJobStep are the ways in which a change does not fit.
var (
	ErrJobFinal = fmt.Errorf("the job is final")
	ErrJobStep  = fmt.Errorf("the step is not in the transition table")
)

// MaxFailureMessage is the length, in bytes, at which a failure message is cut
// (contracts/native.md section 2).
const MaxFailureMessage = 1024

// Tracking is the handle of work that lives in a backend and is followed by
// polling it.
type Tracking struct {
	Kind   TrackKind `json:"kind,omitempty"`
	Handle string    `json:"handle"`         // the backend's own job id
	Verb   string    `json:"verb,omitempty"` // upstream name of its status verb
	Rule   *Track    `json:"rule,omitempty"` // of TrackVerb, as it was when the work began
	// Of TrackApp: Verb is the one that began the work. Ticket finds it while it
	// is queued; then there is no handle yet. Answer is what the verb answered,
	// where it is to be answered again.
	Ticket   json.RawMessage `json:"ticket,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"`
	LastGood time.Time       `json:"lastGood"`
}

// Job is the record of an accepted call. It is self-contained: nothing else is
// needed to show or to end it.
type Job struct {
	ID          string     `json:"id"`
	Operation   string     `json:"operation"` // canonical name of the verb
	Status      JobStatus  `json:"status"`
	SubmittedAt time.Time  `json:"submittedAt"`
	StartedAt   *time.Time `json:"startedAt,omitempty"`
	CompletedAt *time.Time `json:"completedAt,omitempty"`

	FailureMessage string          `json:"failureMessage,omitempty"`
	Reason         Code            `json:"reason,omitempty"`
	Refusal        json.RawMessage `json:"refusal,omitempty"`
	ObjectiveID    string          `json:"objectiveId,omitempty"`
	VesselID       string          `json:"vesselId,omitempty"`

	Tenant  string `json:"tenant"`
	User    string `json:"user"`
	Session string `json:"session,omitempty"`
	CallID  string `json:"callId,omitempty"`

	IdempotencyKey string `json:"idempotencyKey,omitempty"`
	Digest         string `json:"digest,omitempty"` // of verb and arguments, with the key

	// Instance names what the caller's session was bound to, where that was not
	// the configured backend. Its idempotency keys are apart from others.
	Instance string `json:"instance,omitempty"`

	Backend   string        `json:"backend"`
	RuntimeID string        `json:"runtimeId,omitempty"` // incarnation that runs it
	Promoted  bool          `json:"promoted,omitempty"`  // began as a call
	Limit     time.Duration `json:"limit,omitempty"`     // staleness limit; zero is the default
	Tracking  *Tracking     `json:"tracking,omitempty"`

	// Result is what the backend answered: a JSON-RPC result. A journal may
	// keep it apart; ResultBytes is set whether or not it was read.
	Result      json.RawMessage `json:"-"`
	ResultBytes int64           `json:"resultBytes,omitempty"`
	// ResultIsError is true when Result is a tool result with isError.
	ResultIsError bool `json:"resultIsError,omitempty"`
}

// Scope is what an idempotency key is unique in.
func (j Job) Scope() string {
	scope := j.Tenant + "\x00" + j.User
	if j.Instance != "" {
		scope += "\x00" + j.Instance
	}
	return scope
}

// JobChange is one step in a job's life, as data. A journal applies it with
// [Job.Apply] inside its transaction, so the table is asked where it counts.
type JobChange struct {
	To        JobStatus
	At        time.Time
	RuntimeID string    // kept when empty
	Tracking  *Tracking // kept when nil

	// Outcome of a final step.
	Result        json.RawMessage
	ResultIsError bool
	Reason        Code
	Message       string
	Refusal       json.RawMessage

	// Cause is the event that led to a step that ends as Failed or Lost; it is
	// written with that step, before the event of the end.
	Cause *Event
}

// Apply gives the job after a change and the events to write with it, in the
// same transaction; their ids are for the journal to fill in. A change that
// meets a final status is ErrJobFinal, one that is not in the table ErrJobStep;
// the job is then returned as it was.
func (j Job) Apply(c JobChange) (Job, []Event, error) {
	if j.Status.Final() {
		return j, nil, fmt.Errorf("%w: %s is %s, not changed to %s", ErrJobFinal, j.ID, j.Status, c.To)
	}
	allowed := false
	for _, to := range jobTransitions[j.Status] {
		allowed = allowed || to == c.To
	}
	if !allowed {
		return j, nil, fmt.Errorf("%w: %s from %s to %s", ErrJobStep, j.ID, j.Status, c.To)
	}
	next := j
	at := c.At
	if c.RuntimeID != "" {
		next.RuntimeID = c.RuntimeID
	}
	if c.Tracking != nil {
		t := *c.Tracking
		next.Tracking = &t
	}
	next.Status = c.To
	if c.To == JobRunning && j.Status == JobAccepted {
		next.StartedAt = &at
	}
	if !c.To.Final() {
		return next, nil, nil
	}
	next.CompletedAt = &at
	next.Result, next.ResultBytes, next.ResultIsError = c.Result, int64(len(c.Result)), c.ResultIsError
	if c.To == JobSucceeded {
		return next, nil, nil
	}
	next.Reason, next.Refusal = c.Reason, c.Refusal
	if next.Reason == "" {
		next.Reason = CodeOperationFailed
	}
	next.FailureMessage = cutText(c.Message, MaxFailureMessage)
	if strings.TrimSpace(next.FailureMessage) == "" {
		next.FailureMessage = "Operation failed."
	}
	if c.Cause != nil {
		return next, []Event{*c.Cause, next.endEvent(at)}, nil
	}
	return next, []Event{next.endEvent(at)}, nil
}

func (j Job) endEvent(at time.Time) Event {
	e := Event{EventType: EventJobFailed, EntityType: "job", EntityID: j.ID, TenantID: j.Tenant,
		Message: j.ID + ": " + j.FailureMessage, CreatedAt: at}
	if j.Status == JobLost {
		e.EventType = EventJobLost
	}
	if j.ObjectiveID != "" {
		e.EntityType, e.EntityID = "objective", j.ObjectiveID
	}
	return e
}

// LostOnRestart is the change that a start makes to every job that was left
// unfinished; tracked jobs are the caller's to leave alone.
func LostOnRestart(at time.Time) JobChange {
	return JobChange{To: JobLost, At: at, Reason: CodeJobLostOnRestart,
		Message: "job_lost_on_restart: the broker stopped before this job finished and nothing will resume it. Check whether its effect exists, then submit it again."}
}

// DefaultStaleAfter is how long a job may be Accepted, or Running, before it
// is reaped (contracts/native.md section 2).
const DefaultStaleAfter = 30 * time.Minute

// StaleAt gives the time from which the job counts as stale: its limit after
// submission, after its start, or, when tracked, after its last good poll.
func (j Job) StaleAt() time.Time {
	limit := j.Limit
	if limit <= 0 {
		limit = DefaultStaleAfter
	}
	since := j.SubmittedAt
	if j.StartedAt != nil {
		since = *j.StartedAt
	}
	if j.Tracking != nil && j.Tracking.LastGood.After(since) {
		since = j.Tracking.LastGood
	}
	return since.Add(limit)
}

// Reaped is the change that ends a stale job.
func Reaped(j Job, at time.Time) JobChange {
	return JobChange{To: JobFailed, At: at, Reason: CodeReapedAsStale,
		Message: fmt.Sprintf("The job was %s past its limit and was reaped as stale; its operation was cancelled.", j.Status)}
}

// Retention is how long a final job is kept after its completion.
const Retention = 14 * 24 * time.Hour

// Expired reports whether a final job is past its retention.
func (j Job) Expired(now time.Time) bool {
	return j.Status.Final() && j.CompletedAt != nil && now.Sub(*j.CompletedAt) >= Retention
}

// cutText cuts s to at most n bytes without splitting a character.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// ErrJobNotFound is a lookup of an id that the journal never held or that was
// pruned.
var ErrJobNotFound = fmt.Errorf("no such job")

// ErrJournalBusy is a creation that was refused because too many wait; nothing
// was written.
var ErrJournalBusy = fmt.Errorf("the journal has too many writes waiting")
