package broker_test

import (
	"testing"
	"time"

	"berth/broker"
)

func TestJobFilter(t *testing.T) {
	done := after(time.Hour)
	running := broker.Job{Tenant: "acme", User: "ana", Operation: "fs__slow", Backend: "fs", Status: broker.JobRunning, SubmittedAt: began}
	failed := broker.Job{Tenant: "acme", User: "bob", Operation: "fs__echo", Backend: "other", Status: broker.JobFailed, SubmittedAt: began, CompletedAt: &done}
	for _, tt := range []struct {
		name            string
		filter          broker.JobFilter
		running, failed bool
	}{
		{"everything", broker.JobFilter{}, true, true},
		{"tenant", broker.JobFilter{Tenant: "acme"}, true, true},
		{"another tenant", broker.JobFilter{Tenant: "other"}, false, false},
		{"user", broker.JobFilter{User: "ana"}, true, false},
		{"a user of another tenant", broker.JobFilter{Tenant: "other", User: "ana"}, false, false},
		{"status", broker.JobFilter{Status: broker.JobFailed}, false, true},
		{"status in another case", broker.JobFilter{Status: "failed"}, false, false},
		{"operation", broker.JobFilter{Operation: "fs__slow"}, true, false},
		{"backend", broker.JobFilter{Backend: "fs"}, true, false},
		{"part of an operation", broker.JobFilter{Operation: "fs__"}, false, false},
		{"unfinished", broker.JobFilter{Unfinished: true}, true, false},
		{"completed before", broker.JobFilter{CompletedBy: done.Add(-1)}, false, false},
		{"completed by", broker.JobFilter{CompletedBy: done}, false, true},
		{"completed after", broker.JobFilter{CompletedAfter: done}, false, true},
		{"completed after that", broker.JobFilter{CompletedAfter: done.Add(1)}, false, false},
		{"submitted at or after", broker.JobFilter{SubmittedAfter: began}, true, true},
		{"submitted after that", broker.JobFilter{SubmittedAfter: began.Add(1)}, false, false},
		{"submitted before", broker.JobFilter{SubmittedBefore: began}, false, false},
		{"submitted before that", broker.JobFilter{SubmittedBefore: began.Add(1)}, true, true},
		{"vessel", broker.JobFilter{VesselID: "vsl_1"}, false, false},
		{"kept until now", broker.JobFilter{KeptAt: done.Add(broker.Retention)}, true, false},
		{"kept still", broker.JobFilter{KeptAt: done.Add(broker.Retention - 1)}, true, true},
		{"unfinished and completed", broker.JobFilter{Unfinished: true, CompletedBy: done}, false, false},
		{"page is the lister's", broker.JobFilter{Limit: 1, Offset: 7}, true, true},
	} {
		if got := tt.filter.Match(running); got != tt.running {
			t.Errorf("%s: running: %v", tt.name, got)
		}
		if got := tt.filter.Match(failed); got != tt.failed {
			t.Errorf("%s: failed: %v", tt.name, got)
		}
	}
}
