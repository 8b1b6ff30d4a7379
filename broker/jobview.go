package broker

import (
	"encoding/json"
	"slices"
	"time"
)

// jobView is the record as it is shown: PascalCase, null for what is not there
// (contracts/native.md section 2). Owner and idempotency key are never shown.
type jobView struct {
	JobID          string          `json:"JobId"`
	Operation      string          `json:"Operation"`
	Status         JobStatus       `json:"Status"`
	SubmittedAtUTC string          `json:"SubmittedAtUtc"`
	StartedAtUTC   *string         `json:"StartedAtUtc"`
	CompletedAtUTC *string         `json:"CompletedAtUtc"`
	Result         json.RawMessage `json:"Result"`
	FailureMessage *string         `json:"FailureMessage"`
	ObjectiveID    *string         `json:"ObjectiveId"`
	VesselID       *string         `json:"VesselId"`
	Reason         *string         `json:"Reason"`
	Refusal        json.RawMessage `json:"Refusal"`
	Replayed       bool            `json:"Replayed,omitempty"`
}

// statusView is the shape of job_status: only what the status has.
type statusView struct {
	JobID          string          `json:"JobId"`
	Operation      string          `json:"Operation"`
	Status         JobStatus       `json:"Status"`
	SubmittedAtUTC string          `json:"SubmittedAtUtc"`
	StartedAtUTC   *string         `json:"StartedAtUtc"`
	Warning        string          `json:"Warning,omitempty"`
	CompletedAtUTC *string         `json:"CompletedAtUtc,omitempty"`
	Result         json.RawMessage `json:"Result,omitempty"`
	FailureMessage string          `json:"FailureMessage,omitempty"`
	Reason         Code            `json:"Reason,omitempty"`
	Refusal        json.RawMessage `json:"Refusal,omitempty"`
}

// FormatTime is the form of every time that leaves Berth: UTC, ending in Z.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999Z") }

// native is the backend of the broker's own verbs.
const native = "berth"

// shownResult is the result as a record shows it: that of one of the broker's own
// verbs is what the verb answered, without the protocol's wrapping.
func (j Job) shownResult() json.RawMessage {
	if j.Backend != native || j.Promoted || j.ResultIsError {
		return j.Result
	}
	var result struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(j.Result, &result); err != nil || len(result.StructuredContent) == 0 {
		return j.Result
	}
	return result.StructuredContent
}

func formatTimePtr(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := FormatTime(*t)
	return &s
}

func textPtr(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// jobRow is a record in a list: no result.
type jobRow struct {
	JobID          string          `json:"JobId"`
	Operation      string          `json:"Operation"`
	Status         JobStatus       `json:"Status"`
	SubmittedAtUTC string          `json:"SubmittedAtUtc"`
	StartedAtUTC   *string         `json:"StartedAtUtc"`
	CompletedAtUTC *string         `json:"CompletedAtUtc"`
	FailureMessage *string         `json:"FailureMessage"`
	ObjectiveID    *string         `json:"ObjectiveId"`
	VesselID       *string         `json:"VesselId"`
	Reason         *string         `json:"Reason"`
	Refusal        json.RawMessage `json:"Refusal"`
}

// Row is the record as enumerate lists it.
func (j Job) Row() json.RawMessage {
	return marshal(jobRow{JobID: j.ID, Operation: j.Operation, Status: j.Status,
		SubmittedAtUTC: FormatTime(j.SubmittedAt), StartedAtUTC: formatTimePtr(j.StartedAt), CompletedAtUTC: formatTimePtr(j.CompletedAt),
		FailureMessage: textPtr(j.FailureMessage), ObjectiveID: textPtr(j.ObjectiveID), VesselID: textPtr(j.VesselID),
		Reason: textPtr(string(j.Reason)), Refusal: j.Refusal})
}

// Handle is the full record, as a caller gets it when the job was accepted and
// as the operator API shows it. replayed marks the answer to a repeated
// idempotency key.
func (j Job) Handle(replayed bool) json.RawMessage {
	reason := string(j.Reason)
	return marshal(jobView{
		JobID: j.ID, Operation: j.Operation, Status: j.Status,
		SubmittedAtUTC: FormatTime(j.SubmittedAt), StartedAtUTC: formatTimePtr(j.StartedAt), CompletedAtUTC: formatTimePtr(j.CompletedAt),
		Result: j.shownResult(), FailureMessage: textPtr(j.FailureMessage),
		ObjectiveID: textPtr(j.ObjectiveID), VesselID: textPtr(j.VesselID),
		Reason: textPtr(reason), Refusal: j.Refusal, Replayed: replayed,
	})
}

// unfinishedView is a line of a list of unfinished jobs.
type unfinishedView struct {
	JobID          string    `json:"JobId"`
	Operation      string    `json:"Operation"`
	Status         JobStatus `json:"Status"`
	SubmittedAtUTC string    `json:"SubmittedAtUtc"`
	StartedAtUTC   *string   `json:"StartedAtUtc"`
	ObjectiveID    *string   `json:"ObjectiveId"`
	VesselID       *string   `json:"VesselId"`
}

// UnfinishedView is a job that is not final, in a list of what is under way.
func (j Job) UnfinishedView() json.RawMessage {
	return marshal(unfinishedView{j.ID, j.Operation, j.Status, FormatTime(j.SubmittedAt), formatTimePtr(j.StartedAt), textPtr(j.ObjectiveID), textPtr(j.VesselID)})
}

// UnfinishedViews are jobs that came newest first, oldest first.
func UnfinishedViews(jobs []Job) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(jobs))
	for _, j := range slices.Backward(jobs) {
		out = append(out, j.UnfinishedView())
	}
	return out
}

// StatusView is the answer of job_status. delayed says that an outcome is
// known but not yet durable.
func (j Job) StatusView(delayed bool) json.RawMessage {
	v := statusView{JobID: j.ID, Operation: j.Operation, Status: j.Status,
		SubmittedAtUTC: FormatTime(j.SubmittedAt), StartedAtUTC: formatTimePtr(j.StartedAt)}
	if delayed {
		v.Warning = "journal_delayed"
	}
	if j.Status.Final() {
		v.CompletedAtUTC = formatTimePtr(j.CompletedAt)
		v.Result = j.shownResult()
	}
	if j.Status == JobFailed || j.Status == JobLost {
		v.FailureMessage, v.Reason, v.Refusal = j.FailureMessage, j.Reason, j.Refusal
	}
	return marshal(v)
}
