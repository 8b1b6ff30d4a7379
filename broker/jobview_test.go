package broker_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"berth/broker"
)

// private fills what a record keeps and nobody is shown.
func private(j broker.Job) broker.Job {
	j.Tenant, j.User, j.Session, j.CallID = "tenant-x", "user-x", "session-x", "call-x"
	j.IdempotencyKey, j.Digest, j.Backend, j.RuntimeID = "key-x", "digest-x", "backend-x", "life-x"
	j.Promoted, j.Limit, j.Tracking = true, time.Hour, &broker.Tracking{Handle: "handle-x", Verb: "verb-x"}
	return j
}

func viewed(status broker.JobStatus, change func(*broker.Job)) broker.Job {
	j := private(broker.Job{ID: "job_mpkd6cu0_Uuql5kDlrM4", Operation: "fs__slow", Status: status, SubmittedAt: began})
	if change != nil {
		change(&j)
	}
	return j
}

func at(d time.Duration) *time.Time {
	v := after(d).In(time.FixedZone("CEST", 2*3600)) // shown in UTC all the same
	return &v
}

const head = `{"JobId":"job_mpkd6cu0_Uuql5kDlrM4","Operation":"fs__slow","Status":`

func TestViewsOfAJob(t *testing.T) {
	failed := func(j *broker.Job) {
		j.StartedAt, j.CompletedAt = at(time.Second), at(1500*time.Millisecond)
		j.Reason, j.FailureMessage, j.Refusal = broker.CodeOutcomeUnknown, `<gone> & "lost"`, json.RawMessage(`{"code":"outcome_unknown","n":1.0,"t":"<\u003c"}`)
		j.ObjectiveID, j.VesselID = "obj_1", "vsl_1"
	}
	for _, tt := range []struct {
		name           string
		job            broker.Job
		handle, status string
	}{
		{
			"Accepted", viewed(broker.JobAccepted, nil),
			head + `"Accepted","SubmittedAtUtc":"2026-05-04T09:10:02Z","StartedAtUtc":null,"CompletedAtUtc":null,"Result":null,"FailureMessage":null,"ObjectiveId":null,"VesselId":null,"Reason":null,"Refusal":null}`,
			head + `"Accepted","SubmittedAtUtc":"2026-05-04T09:10:02Z","StartedAtUtc":null}`,
		},
		{
			"Running", viewed(broker.JobRunning, func(j *broker.Job) { j.StartedAt = at(10 * time.Millisecond) }),
			head + `"Running","SubmittedAtUtc":"2026-05-04T09:10:02Z","StartedAtUtc":"2026-05-04T09:10:02.01Z","CompletedAtUtc":null,"Result":null,"FailureMessage":null,"ObjectiveId":null,"VesselId":null,"Reason":null,"Refusal":null}`,
			head + `"Running","SubmittedAtUtc":"2026-05-04T09:10:02Z","StartedAtUtc":"2026-05-04T09:10:02.01Z"}`,
		},
		{
			"Succeeded keeps the bytes of its result", viewed(broker.JobSucceeded, func(j *broker.Job) {
				j.StartedAt, j.CompletedAt = at(0), at(time.Minute)
				j.Result = json.RawMessage(`{"z":1.0,"a":[9007199254740993],"t":"<b> & \u003c\u2028é"}`)
			}),
			head + `"Succeeded","SubmittedAtUtc":"2026-05-04T09:10:02Z","StartedAtUtc":"2026-05-04T09:10:02Z","CompletedAtUtc":"2026-05-04T09:11:02Z","Result":{"z":1.0,"a":[9007199254740993],"t":"<b> & \u003c\u2028é"},"FailureMessage":null,"ObjectiveId":null,"VesselId":null,"Reason":null,"Refusal":null}`,
			head + `"Succeeded","SubmittedAtUtc":"2026-05-04T09:10:02Z","StartedAtUtc":"2026-05-04T09:10:02Z","CompletedAtUtc":"2026-05-04T09:11:02Z","Result":{"z":1.0,"a":[9007199254740993],"t":"<b> & \u003c\u2028é"}}`,
		},
		{
			"Failed with a refusal", viewed(broker.JobFailed, failed),
			head + `"Failed","SubmittedAtUtc":"2026-05-04T09:10:02Z","StartedAtUtc":"2026-05-04T09:10:03Z","CompletedAtUtc":"2026-05-04T09:10:03.5Z","Result":null,"FailureMessage":"<gone> & \"lost\"","ObjectiveId":"obj_1","VesselId":"vsl_1","Reason":"outcome_unknown","Refusal":{"code":"outcome_unknown","n":1.0,"t":"<\u003c"}}`,
			head + `"Failed","SubmittedAtUtc":"2026-05-04T09:10:02Z","StartedAtUtc":"2026-05-04T09:10:03Z","CompletedAtUtc":"2026-05-04T09:10:03.5Z","FailureMessage":"<gone> & \"lost\"","Reason":"outcome_unknown","Refusal":{"code":"outcome_unknown","n":1.0,"t":"<\u003c"}}`,
		},
		{
			"Failed with the backend's own error as its result", viewed(broker.JobFailed, func(j *broker.Job) {
				j.StartedAt, j.CompletedAt = at(0), at(time.Second)
				j.Reason, j.FailureMessage, j.Result, j.ResultIsError = broker.CodeOperationFailed, "no", json.RawMessage(`{"isError":true}`), true
			}),
			head + `"Failed","SubmittedAtUtc":"2026-05-04T09:10:02Z","StartedAtUtc":"2026-05-04T09:10:02Z","CompletedAtUtc":"2026-05-04T09:10:03Z","Result":{"isError":true},"FailureMessage":"no","ObjectiveId":null,"VesselId":null,"Reason":"operation_failed","Refusal":null}`,
			head + `"Failed","SubmittedAtUtc":"2026-05-04T09:10:02Z","StartedAtUtc":"2026-05-04T09:10:02Z","CompletedAtUtc":"2026-05-04T09:10:03Z","Result":{"isError":true},"FailureMessage":"no","Reason":"operation_failed"}`,
		},
		{
			"Lost before it started", viewed(broker.JobLost, func(j *broker.Job) {
				j.CompletedAt, j.Reason, j.FailureMessage = at(time.Hour), broker.CodeJobLostOnRestart, "job_lost_on_restart: it stopped."
			}),
			head + `"Lost","SubmittedAtUtc":"2026-05-04T09:10:02Z","StartedAtUtc":null,"CompletedAtUtc":"2026-05-04T10:10:02Z","Result":null,"FailureMessage":"job_lost_on_restart: it stopped.","ObjectiveId":null,"VesselId":null,"Reason":"job_lost_on_restart","Refusal":null}`,
			head + `"Lost","SubmittedAtUtc":"2026-05-04T09:10:02Z","StartedAtUtc":null,"CompletedAtUtc":"2026-05-04T10:10:02Z","FailureMessage":"job_lost_on_restart: it stopped.","Reason":"job_lost_on_restart"}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			replayed := strings.TrimSuffix(tt.handle, "}") + `,"Replayed":true}`
			delayed := strings.Replace(tt.status, `,"CompletedAtUtc"`, `,"Warning":"journal_delayed","CompletedAtUtc"`, 1)
			if delayed == tt.status {
				delayed = strings.TrimSuffix(tt.status, "}") + `,"Warning":"journal_delayed"}`
			}
			for _, v := range []struct{ name, got, want string }{
				{"handle", string(tt.job.Handle(false)), tt.handle}, {"handle of a replay", string(tt.job.Handle(true)), replayed},
				{"status", string(tt.job.StatusView(false)), tt.status}, {"status with an unwritten outcome", string(tt.job.StatusView(true)), delayed},
			} {
				if v.got != v.want {
					t.Errorf("%s\ngot  %s\nwant %s", v.name, v.got, v.want)
				}
				if !json.Valid([]byte(v.got)) {
					t.Errorf("%s is no JSON", v.name)
				}
				if strings.Contains(v.got, "-x") {
					t.Errorf("%s shows what is private: %s", v.name, v.got)
				}
			}
		})
	}
}
