package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/transport/rest"
)

func jobIDs(t *testing.T, body string) (ids []string, total, unreadable int) {
	t.Helper()
	var list rest.JobPage
	if err := json.Unmarshal([]byte(body), &list); err != nil || !list.Success {
		t.Fatalf("%v in %s", err, body)
	}
	for _, o := range list.Objects {
		var j rest.Job
		if err := json.Unmarshal(o, &j); err != nil {
			t.Fatal(err)
		}
		if j.Result != nil && string(j.Result) != "null" {
			t.Errorf("%s: a list shows a result", j.JobID)
		}
		ids = append(ids, j.JobID)
	}
	return ids, list.TotalRecords, list.UnreadableJournalRecords
}

func TestJobsList(t *testing.T) {
	f := newFake(t)
	other := job("job_5", broker.JobLost, 0)
	other.Operation = "x__y"
	f.jobs = []broker.Job{other, job("job_4", broker.JobRunning, time.Minute), job("job_3", broker.JobSucceeded, time.Hour),
		job("job_2", broker.JobFailed, 2*time.Hour), job("job_1", broker.JobSucceeded, 60*24*time.Hour)}
	for _, tc := range []struct {
		query string
		want  string
		total int
	}{
		{"", "job_5 job_4 job_3 job_2", 4}, // job_1 is past its retention
		{"?status=Running", "job_4", 1},
		{"?status=lost", "job_5", 1},
		{"?operation=x__y", "job_5", 1},
		{"?operation=x__y&status=Running", "", 0},
		{"?pageSize=2", "job_5 job_4", 4},
		{"?pageSize=2&pageNumber=2", "job_3 job_2", 4},
		{"?pageSize=2&pageNumber=9", "", 4},
		{"?pageSize=0&pageNumber=-3", "job_5", 4},                        // clamped to 1 and 1
		{"?pageSize=99999999999999999999", "job_5 job_4 job_3 job_2", 4}, // clamped to the largest page
	} {
		t.Run(tc.query, func(t *testing.T) {
			status, body := ask(t, f.handler(nil), "GET", "/api/v1/jobs"+tc.query, "")
			if status != 200 {
				t.Fatalf("status %d, body %s", status, body)
			}
			ids, total, unreadable := jobIDs(t, body)
			if got := join(ids); got != tc.want || total != tc.total || unreadable != 1 {
				t.Errorf("got %q, total %d, unreadable %d; want %q, total %d", got, total, unreadable, tc.want, tc.total)
			}
		})
	}
}

func join(ids []string) (s string) {
	for i, id := range ids {
		if i > 0 {
			s += " "
		}
		s += id
	}
	return s
}

func TestBadJobRequests(t *testing.T) {
	f := newFake(t)
	f.jobs = []broker.Job{job("job_2", broker.JobRunning, 0), job("job_1", broker.JobSucceeded, 0)}
	for _, tc := range []struct {
		name, method, path, body string
		status                   int
		code, word               string
	}{
		{"unknown status word", "GET", "/api/v1/jobs?status=Done", "", 400, "invalid_status", "BadRequest"},
		{"page that is no number", "GET", "/api/v1/jobs?pageNumber=two", "", 400, "invalid_arguments", "BadRequest"},
		{"wait that is no number", "GET", "/api/v1/jobs/job_1?waitSeconds=soon", "", 400, "invalid_arguments", "BadRequest"},
		{"no such job", "GET", "/api/v1/jobs/job_9", "", 404, "job_not_found", "NotFound"},
		{"no such job, waiting", "GET", "/api/v1/jobs/job_9?waitSeconds=50", "", 404, "job_not_found", "NotFound"},
		{"cancel of no such job", "POST", "/api/v1/jobs/job_9/cancel", `{"Reason":"r"}`, 404, "job_not_found", "NotFound"},
		{"cancel without a reason", "POST", "/api/v1/jobs/job_2/cancel", `{}`, 400, "missing_reason", "BadRequest"},
		{"cancel without a body", "POST", "/api/v1/jobs/job_2/cancel", ``, 400, "missing_reason", "BadRequest"},
		{"cancel with a blank reason", "POST", "/api/v1/jobs/job_2/cancel", `{"Reason":" "}`, 400, "missing_reason", "BadRequest"},
		{"cancel with a reason that is too long", "POST", "/api/v1/jobs/job_2/cancel", `{"Reason":"` + strings.Repeat("é", 501) + `"}`, 400, "invalid_arguments", "BadRequest"},
		{"cancel of a final job", "POST", "/api/v1/jobs/job_1/cancel", `{"Reason":"r"}`, 409, "job_terminal", "Conflict"},
		{"body that is no JSON", "POST", "/api/v1/jobs/job_2/cancel", `{"Reason":`, 400, "invalid_arguments", "DeserializationError"},
		{"body with a tail", "POST", "/api/v1/jobs/job_2/cancel", `{"Reason":"r"} {}`, 400, "invalid_arguments", "DeserializationError"},
		{"reason of another type", "POST", "/api/v1/jobs/job_2/cancel", `{"Reason":7}`, 400, "invalid_arguments", "DeserializationError"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, body := ask(t, f.handler(nil), tc.method, tc.path, tc.body)
			got := object(t, body)
			if status != tc.status || got["Code"] != tc.code || got["Error"] != tc.word {
				t.Fatalf("status %d, body %s", status, body)
			}
			if tc.status == 404 && got["Message"] != "Job not found" {
				t.Errorf("message %v", got["Message"])
			}
		})
	}
	if j, _ := f.Job("job_2"); j.Status != broker.JobRunning {
		t.Errorf("a refused request changed the job: %s", j.Status)
	}
}

func TestAJournalInTroubleIsToldApart(t *testing.T) {
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("list: %w", broker.ErrJournalBusy), 503, "job_journal_unavailable"},
		{broker.Refuse(broker.CodeShuttingDown, "The broker stops.", nil), 503, "shutting_down"},
		{errors.New("page 7 is torn"), 503, "job_journal_unavailable"}, // contracts/native.md section 21
	} {
		f := newFake(t)
		f.err = tc.err
		for _, path := range []string{"/api/v1/jobs", "/api/v1/jobs/job_1"} {
			if status, body := ask(t, f.handler(nil), "GET", path, ""); status != tc.status || object(t, body)["Code"] != tc.code || strings.Contains(body, "torn") {
				t.Errorf("%s: status %d, body %s", path, status, body)
			}
		}
	}
}

func TestCancelKeepsReasonAndCaller(t *testing.T) {
	f := newFake(t)
	f.jobs = []broker.Job{job("job_1", broker.JobRunning, 0)}
	status, body := ask(t, f.handler(nil), "POST", "/api/v1/jobs/job_1/cancel", `{"reason":"wrong branch"}`)
	got := object(t, body)
	if status != 200 || got["Status"] != "Failed" || got["Reason"] != "cancelled" || got["FailureMessage"] != "default/operator: wrong branch" {
		t.Fatalf("status %d, body %s", status, body)
	}
}

func TestJobShowsTheWholeRecord(t *testing.T) {
	f := newFake(t)
	done := job("job_1", broker.JobSucceeded, time.Hour)
	done.IdempotencyKey = "secret-key"
	f.jobs = []broker.Job{done}
	status, body := ask(t, f.handler(nil), "GET", "/api/v1/jobs/job_1", "")
	got := object(t, body)
	if status != 200 || got["Result"] == nil || got["FailureMessage"] != nil {
		t.Fatalf("status %d, body %s", status, body)
	}
	if want := object(t, okResult); !reflect.DeepEqual(got["Result"], any(want)) {
		t.Errorf("the result is %v, want %v", got["Result"], want)
	}
	for _, hidden := range []string{"Tenant", "User", "IdempotencyKey", "Digest"} {
		if _, shown := got[hidden]; shown {
			t.Errorf("%s is shown", hidden)
		}
	}
}

// wait runs GET /api/v1/jobs/job_1?waitSeconds=n in the bubble and gives when
// it answered and with which status of the job.
func wait(t *testing.T, f *fake, ctx context.Context, seconds string, meanwhile func()) (time.Duration, string) {
	t.Helper()
	h := f.handler(nil)
	r := httptest.NewRequest("GET", "http://localhost/api/v1/jobs/job_1?waitSeconds="+seconds, http.NoBody).WithContext(ctx)
	r.Header.Set("Authorization", "Bearer t0")
	w := httptest.NewRecorder()
	done := make(chan struct{})
	started := time.Now()
	go func() {
		defer close(done)
		h.ServeHTTP(w, r)
	}()
	synctest.Wait()
	if meanwhile != nil {
		meanwhile()
	}
	<-done
	var j rest.Job
	if err := json.Unmarshal(w.Body.Bytes(), &j); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return time.Since(started), string(j.Status)
}

func TestWaitForAJob(t *testing.T) {
	for _, tc := range []struct {
		name      string
		status    broker.JobStatus
		seconds   string
		meanwhile func(t *testing.T, f *fake)
		after     time.Duration
		want      string
	}{
		{"final at once", broker.JobSucceeded, "50", nil, 0, "Succeeded"},
		{"no wait asked", broker.JobRunning, "0", nil, 0, "Running"},
		{"time is over", broker.JobRunning, "7", nil, 7 * time.Second, "Running"},
		{"more than the limit is clamped", broker.JobRunning, "5000", nil, 50 * time.Second, "Running"},
		{"early on the outcome", broker.JobRunning, "50", func(t *testing.T, f *fake) {
			time.AfterFunc(3*time.Second, func() { change(t, f, broker.JobChange{To: broker.JobSucceeded, At: at}) })
		}, 3 * time.Second, "Succeeded"},
		{"early on any change of status", broker.JobAccepted, "50", func(t *testing.T, f *fake) {
			time.AfterFunc(3*time.Second, func() { change(t, f, broker.JobChange{To: broker.JobRunning, At: at}) })
		}, 3 * time.Second, "Running"},
		{"a signal without a change of status does not end it", broker.JobRunning, "9", func(t *testing.T, f *fake) {
			time.AfterFunc(3*time.Second, func() {
				change(t, f, broker.JobChange{To: broker.JobRunning, At: at, Tracking: &broker.Tracking{LastGood: at}})
			})
		}, 9 * time.Second, "Running"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				f.jobs = []broker.Job{job("job_1", tc.status, 0)}
				var meanwhile func()
				if tc.meanwhile != nil {
					meanwhile = func() { tc.meanwhile(t, f) }
				}
				took, status := wait(t, f, t.Context(), tc.seconds, meanwhile)
				if took != tc.after || status != tc.want {
					t.Errorf("answered %s after %s, want %s after %s", status, took, tc.want, tc.after)
				}
			})
		})
	}
}

func change(t *testing.T, f *fake, c broker.JobChange) {
	if _, err := f.change("job_1", c); err != nil {
		t.Error(err)
	}
}

func TestAWaitEndsWithItsCallersConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.jobs = []broker.Job{job("job_1", broker.JobRunning, 0)}
		ctx, cancel := context.WithCancel(t.Context())
		if took, _ := wait(t, f, ctx, "50", cancel); took != 0 {
			t.Errorf("the wait went on for %s", took)
		}
	})
}

func TestWaitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.jobs = []broker.Job{job("job_1", broker.JobRunning, 0)}
		h := f.handler(nil, func(o *rest.Options) { o.MaxWaiting = 1 })
		first := make(chan int)
		go func() {
			status, _ := ask(t, h, "GET", "/api/v1/jobs/job_1?waitSeconds=5", "")
			first <- status
		}()
		synctest.Wait()
		for _, second := range [][2]string{{"GET", "/api/v1/jobs/job_1?waitSeconds=5"}, {"POST", "/api/v1/calls"}} {
			if status, body := ask(t, h, second[0], second[1], `{"Name":"files__read"}`); status != 429 || object(t, body)["Code"] != "overloaded" {
				t.Errorf("%s: status %d, body %s", second[1], status, body)
			}
		}
		if status, _ := ask(t, h, "GET", "/api/v1/jobs/job_1", ""); status != 200 {
			t.Errorf("a read that does not wait: status %d", status)
		}
		if status := <-first; status != 200 {
			t.Errorf("the wait that was let in: status %d", status)
		}
		if status, _ := ask(t, h, "GET", "/api/v1/jobs/job_1?waitSeconds=1", ""); status != 200 {
			t.Errorf("the place did not come back: status %d", status)
		}
	})
}
