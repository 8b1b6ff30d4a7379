package broker

import (
	"fmt"
	"time"
)

// nextSteps is what to do about a job that ended with a reason.
var nextSteps = map[Code]string{
	CodeJobLostOnRestart:   "Check whether its effect exists, then submit it again; nothing resumes it.",
	CodeTrackedWorkLost:    "Check whether its effect exists, then submit it again.",
	CodeReapedAsStale:      "Check what it did. Raise stale_after for a verb that takes so long.",
	CodeCancelled:          "Nothing; but check what it had done before it was cancelled.",
	CodeOperationFailed:    "Read its message and its result; check what it did before you submit it again.",
	CodeOutcomeUnknown:     "Check whether its effect exists before you submit it again.",
	CodeTrackingExpired:    "Ask the backend; the work may go on there.",
	CodeBackendUnavailable: "Submit it again when the backend is up; see berth backends.",
}

// Explain tells in sentences what happened to a job, from its record and the
// event of its end (nil: none is kept). runs says whether a broker runs it now.
// What the record does not say is called unknown.
func (j Job) Explain(end *Event, now time.Time, runs bool) (told []string, next string) {
	say := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	if j.Promoted {
		say("A call of %s by %s/%s was taken in at %s and became this job when it outlasted its client's patience.", j.Operation, j.Tenant, j.User, FormatTime(j.SubmittedAt))
	} else {
		say("It was accepted at %s as a job of %s for %s/%s.", FormatTime(j.SubmittedAt), j.Operation, j.Tenant, j.User)
	}
	j.explainRun(say, now)
	if t := j.Tracking; t != nil {
		seen := "unknown"
		if !t.LastGood.IsZero() {
			seen = FormatTime(t.LastGood)
		}
		if t.Handle != "" {
			say("Its work lives in the backend as %q and is followed there; it was last seen at: %s.", t.Handle, seen)
		} else {
			say("Its work lives in the backend, which has not given it a name yet; it was last seen at: %s.", seen)
		}
	}
	if !j.Status.Final() {
		return told, j.explainOpen(say, now, runs)
	}
	return told, j.explainEnd(say, end)
}

func (j Job) explainRun(say func(string, ...any), now time.Time) {
	until, ended := now, j.Status.Final() && j.CompletedAt != nil
	if ended {
		until = *j.CompletedAt
	}
	switch {
	case j.StartedAt != nil:
		say("It waited %s before it ran; whether for a seat of %s or for %s to come up is unknown.", lasted(j.SubmittedAt, *j.StartedAt), j.Backend, j.Backend)
	case ended:
		say("It never ran: it waited %s for a seat of %s or for %s to come up, and ended there.", lasted(j.SubmittedAt, until), j.Backend, j.Backend)
	default:
		say("It has waited %s for a seat of %s or for %s to come up.", lasted(j.SubmittedAt, until), j.Backend, j.Backend)
	}
	if j.StartedAt == nil {
		return
	}
	life := "which incarnation is unknown"
	if j.RuntimeID != "" {
		life = "incarnation " + j.RuntimeID
	}
	say("It began to run at %s on %s, %s.", FormatTime(*j.StartedAt), j.Backend, life)
}

func (j Job) explainOpen(say func(string, ...any), now time.Time, runs bool) (next string) {
	switch {
	case !runs && j.Tracking != nil:
		say("It is %s in the journal, and no broker runs: what its work does is unknown.", j.Status)
		return "Start the broker: it asks the backend and goes on following the work."
	case !runs:
		say("It is %s in the journal, and no broker runs: whether it took effect is unknown.", j.Status)
		return "The next start records it as Lost. Check whether its effect exists, then submit it again."
	case now.After(j.StaleAt()):
		say("It is %s and past its limit since %s.", j.Status, FormatTime(j.StaleAt()))
		return "It is about to be reaped as stale."
	}
	say("It is %s. If nothing changes it counts as stale at %s.", j.Status, FormatTime(j.StaleAt()))
	return "Wait for it (berth jobs wait), or cancel it (berth jobs cancel)."
}

func (j Job) explainEnd(say func(string, ...any), end *Event) (next string) {
	at := "an unknown time"
	if j.CompletedAt != nil {
		at = FormatTime(*j.CompletedAt)
		if j.StartedAt != nil {
			at += ", " + lasted(*j.StartedAt, *j.CompletedAt) + " after it began to run"
		}
	}
	if j.Status == JobSucceeded {
		word := "is no error"
		if j.ResultIsError {
			word = "says that it is an error"
		}
		say("It ended Succeeded at %s. Its result has %d bytes and %s.", at, j.ResultBytes, word)
		return "Read its result (berth jobs show)."
	}
	say("It ended %s at %s, with the reason %s: %s", j.Status, at, j.Reason, j.FailureMessage)
	if end != nil {
		say("The event %s of %s tells of it.", end.ID, FormatTime(end.CreatedAt))
	} else {
		say("No event of its end is kept.")
	}
	if next = nextSteps[j.Reason]; next == "" {
		next = "See docs/refusals.md for " + string(j.Reason) + "; check whether it took effect before you submit it again."
	}
	return next
}

func lasted(from, to time.Time) string { return max(0, to.Sub(from)).Round(time.Millisecond).String() }
