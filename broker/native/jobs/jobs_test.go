package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/schema"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store holds jobs in memory and tells watchers of each change.
type store struct {
	mu      sync.Mutex
	jobs    map[string]broker.Job
	delayed map[string]bool
	watches map[string][]chan struct{}
	open    int // watches not given up
	fail    error
	last    broker.JobFilter
	noise   bool // every watch is closed at once
}

func newStore(jobs ...broker.Job) *store {
	s := &store{jobs: map[string]broker.Job{}, delayed: map[string]bool{}, watches: map[string][]chan struct{}{}}
	for _, j := range jobs {
		s.jobs[j.ID] = j
	}
	return s
}

func (s *store) Job(id string) (broker.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return broker.Job{}, s.fail
	}
	j, ok := s.jobs[id]
	if !ok {
		return broker.Job{}, fmt.Errorf("%w: %s", broker.ErrJobNotFound, id)
	}
	return j, nil
}

func (s *store) Jobs(filter broker.JobFilter) (broker.JobPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = filter
	var page broker.JobPage
	for i := range len(s.jobs) {
		if j, ok := s.jobs[id(i)]; ok && filter.Match(j) {
			page.Total++
			if len(page.Jobs) < filter.Limit {
				page.Jobs = append(page.Jobs, j)
			}
		}
	}
	return page, nil
}

func (s *store) Watch(id string) (<-chan struct{}, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	ch := make(chan struct{})
	if s.noise {
		close(ch)
	} else {
		s.watches[id] = append(s.watches[id], ch)
	}
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
	}
}

func (s *store) Delayed(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delayed[id]
}

func (s *store) put(j broker.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[j.ID] = j
	for _, ch := range s.watches[j.ID] {
		close(ch)
	}
	delete(s.watches, j.ID)
}

func id(i int) string { return fmt.Sprintf("job_%d", i) }

var (
	bob    = broker.Principal{Tenant: "default", User: "bob", Role: broker.User}
	submit = time.Date(2026, 5, 4, 9, 10, 2, 0, time.UTC)
)

func job(i int, user string, status broker.JobStatus) broker.Job {
	j := broker.Job{ID: id(i), Operation: "x__slow", Status: status, SubmittedAt: submit, Tenant: "default", User: user}
	if status != broker.JobAccepted {
		j.StartedAt = &submit
	}
	if status.Final() {
		j.CompletedAt = &submit
	}
	return j
}

// answer is a tool result, taken apart.
type answer struct {
	body    map[string]any
	text    string
	isError bool
	err     error
	after   time.Duration
}

func ask(t *testing.T, ctx context.Context, s Store, who broker.Principal, arguments string) answer {
	t.Helper()
	f := New(s, Options{RuntimeID: "r1", Now: time.Now, After: func(d time.Duration) (<-chan time.Time, func()) {
		timer := time.NewTimer(d)
		return timer.C, func() { timer.Stop() }
	}})
	c, err := f.Open(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	return call(t, ctx, c, who, arguments)
}

// judged does what policy does before a call comes here.
func judged(t *testing.T, arguments string) (string, *broker.Refusal) {
	t.Helper()
	var e struct{ InputSchema json.RawMessage }
	if err := json.Unmarshal([]byte(entry), &e); err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(e.InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	if arguments == "" || arguments == "null" {
		arguments = "{}"
	}
	normal := s.Normalise(json.RawMessage(arguments))
	return string(normal), s.NativeRefusal(normal)
}

func call(t *testing.T, ctx context.Context, c broker.Conn, who broker.Principal, arguments string) answer {
	t.Helper()
	began := time.Now()
	arguments, refused := judged(t, arguments)
	params := `{"name":"job_status"}`
	if arguments != "" {
		params = `{"name":"job_status","arguments":` + arguments + `}`
	}
	if refused != nil {
		out := answer{isError: true, text: string(refused.NativeJSON())}
		if err := json.Unmarshal(refused.NativeJSON(), &out.body); err != nil {
			t.Fatal(err)
		}
		return out
	}
	got, err := c.Call(ctx, &broker.Call{Principal: who, Verb: Verb, Params: json.RawMessage(params), Effects: broker.Read}, broker.Peer{})
	out := answer{err: err, after: time.Since(began)}
	if err != nil {
		return out
	}
	if got.RuntimeID != "r1" || got.Error != nil {
		t.Errorf("answer %+v", got)
	}
	var result struct {
		Content           []struct{ Type, Text string }
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(got.Result, &result); err != nil {
		t.Fatalf("%s: %v", got.Result, err)
	}
	if len(result.Content) != 1 || result.Content[0].Text != string(result.StructuredContent) {
		t.Errorf("text and structured content differ: %s", got.Result)
	}
	out.isError, out.text = result.IsError, string(result.StructuredContent)
	if err := json.Unmarshal(result.StructuredContent, &out.body); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestJobStatusShowsWhatTheStatusHas(t *testing.T) {
	failed := job(3, "bob", broker.JobFailed)
	failed.Reason, failed.FailureMessage, failed.Refusal = broker.CodeBackendRefused, "turned away", json.RawMessage(`{"Error":"turned away"}`)
	done := job(2, "bob", broker.JobSucceeded)
	done.Result = json.RawMessage(`{"content":[],"n":9007199254740993}`)
	lost := job(4, "bob", broker.JobLost)
	lost.Reason, lost.FailureMessage = broker.CodeJobLostOnRestart, "lost"
	s := newStore(job(0, "bob", broker.JobAccepted), job(1, "bob", broker.JobRunning), done, failed, lost, job(5, "bob", broker.JobRunning))
	s.delayed[id(5)] = true
	const five = `"Operation":"x__slow","Status":"%s","SubmittedAtUtc":"2026-05-04T09:10:02Z","StartedAtUtc":`
	tests := []struct{ id, want string }{
		{id(0), `{"JobId":"job_0",` + fmt.Sprintf(five, "Accepted") + `null}`},
		{id(1), `{"JobId":"job_1",` + fmt.Sprintf(five, "Running") + `"2026-05-04T09:10:02Z"}`},
		{id(2), `{"JobId":"job_2",` + fmt.Sprintf(five, "Succeeded") + `"2026-05-04T09:10:02Z","CompletedAtUtc":"2026-05-04T09:10:02Z","Result":{"content":[],"n":9007199254740993}}`},
		{id(3), `{"JobId":"job_3",` + fmt.Sprintf(five, "Failed") + `"2026-05-04T09:10:02Z","CompletedAtUtc":"2026-05-04T09:10:02Z","FailureMessage":"turned away","Reason":"backend_refused","Refusal":{"Error":"turned away"}}`},
		{id(4), `{"JobId":"job_4",` + fmt.Sprintf(five, "Lost") + `"2026-05-04T09:10:02Z","CompletedAtUtc":"2026-05-04T09:10:02Z","FailureMessage":"lost","Reason":"job_lost_on_restart"}`},
		{id(5), `{"JobId":"job_5",` + fmt.Sprintf(five, "Running") + `"2026-05-04T09:10:02Z","Warning":"journal_delayed"}`},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			got := ask(t, t.Context(), s, bob, `{"jobId":" `+tt.id+` "}`)
			if got.isError || got.text != tt.want {
				t.Errorf("got %s (error %v), want %s", got.text, got.isError, tt.want)
			}
		})
	}
}

func TestJobStatusRefuses(t *testing.T) {
	s := newStore(job(0, "bob", broker.JobRunning))
	for _, tt := range []struct {
		name, arguments string
		want            broker.Code
	}{
		{"no arguments", ``, broker.CodeMissingJobID},
		{"null", `null`, broker.CodeMissingJobID},
		{"blank", `{"jobId":"  "}`, broker.CodeMissingJobID},
		{"a number", `{"jobId":7}`, broker.CodeInvalidArguments},
		{"a wait that is no number", `{"jobId":"job_0","waitSeconds":"soon"}`, broker.CodeInvalidArguments},
		{"a wait that is no integer", `{"jobId":"job_0","waitSeconds":1.5}`, broker.CodeInvalidArguments},
		{"unknown", `{"jobId":"job_9"}`, broker.CodeJobNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(t, t.Context(), s, bob, tt.arguments)
			if !got.isError || got.body["Code"] != string(tt.want) || got.body["Error"] == "" {
				t.Errorf("got %s", got.text)
			}
		})
	}
	s.fail = errors.New("disk of /srv is gone")
	got := ask(t, t.Context(), s, bob, `{"jobId":"job_0"}`)
	if got.body["Code"] != string(broker.CodeJobJournal) || got.body["Retryable"] != true || strings.Contains(got.text, "disk") {
		t.Errorf("got %s", got.text)
	}
}

func TestJobNotFoundNamesTheCallersOwnUnfinishedJobs(t *testing.T) {
	s := newStore()
	for i := range 30 {
		s.put(job(i, "bob", broker.JobRunning))
	}
	s.put(job(30, "alice", broker.JobRunning))
	s.put(job(31, "bob", broker.JobSucceeded))
	got := ask(t, t.Context(), s, bob, `{"jobId":"job_lost"}`)
	list, _ := got.body["UnfinishedJobs"].([]any)
	if got.body["JobId"] != "job_lost" || len(list) != 20 || got.body["UnfinishedTotal"] != 30.0 {
		t.Fatalf("got %s", got.text)
	}
	if first := fmt.Sprint(list[0]); first != "map[JobId:job_0 Operation:x__slow Status:Running SubmittedAtUtc:2026-05-04T09:10:02Z]" {
		t.Errorf("first line %s", first)
	}
	if strings.Contains(got.text, "job_30") || strings.Contains(got.text, "job_31") {
		t.Errorf("got %s", got.text)
	}
	nobody := ask(t, t.Context(), s, broker.Principal{Role: broker.User}, `{"jobId":"job_lost"}`)
	if list, _ := nobody.body["UnfinishedJobs"].([]any); list == nil || len(list) != 0 {
		t.Errorf("a caller without a name sees %s", nobody.text)
	}
	long := ask(t, t.Context(), s, bob, `{"jobId":"`+strings.Repeat("é", 5000)+`"}`)
	if len(long.body["JobId"].(string)) > 100 {
		t.Errorf("got %s", long.text)
	}
}

func TestAnotherPrincipalsJobReadsAsNotFound(t *testing.T) {
	s := newStore(job(0, "alice", broker.JobRunning))
	theirs := ask(t, t.Context(), s, bob, `{"jobId":"job_0","waitSeconds":50}`)
	none := ask(t, t.Context(), s, bob, `{"jobId":"job_9","waitSeconds":50}`)
	if theirs.text != strings.ReplaceAll(none.text, "job_9", "job_0") || theirs.body["Code"] != string(broker.CodeJobNotFound) {
		t.Errorf("got %s and %s", theirs.text, none.text)
	}
	otherTenant := bob
	otherTenant.Tenant, otherTenant.User, otherTenant.Role = "else", "alice", broker.TenantAdministrator
	if got := ask(t, t.Context(), s, otherTenant, `{"jobId":"job_0"}`); got.body["Code"] != string(broker.CodeJobNotFound) {
		t.Errorf("got %s", got.text)
	}
	if got := ask(t, t.Context(), s, broker.LocalOperator, `{"jobId":"job_0"}`); got.body["Status"] != "Running" {
		t.Errorf("a global administrator got %s", got.text)
	}
}

func TestWaiting(t *testing.T) {
	tests := []struct {
		name, wait string
		start      broker.JobStatus
		change     broker.JobStatus // after 3 s; empty: none
		want       broker.JobStatus
		after      time.Duration
	}{
		{"no wait", `0`, broker.JobRunning, "", broker.JobRunning, 0},
		{"absent", `""`, broker.JobRunning, "", broker.JobRunning, 0},
		{"final at once", `50`, broker.JobLost, "", broker.JobLost, 0},
		{"early on the end", `20`, broker.JobRunning, broker.JobSucceeded, broker.JobSucceeded, 3 * time.Second},
		{"early on any change", `20`, broker.JobAccepted, broker.JobRunning, broker.JobRunning, 3 * time.Second},
		{"an annotation is no change", `20`, broker.JobRunning, broker.JobRunning, broker.JobRunning, 20 * time.Second},
		{"the present state when the time is over", `"7"`, broker.JobRunning, "", broker.JobRunning, 7 * time.Second},
		{"clamped above", `1000000`, broker.JobRunning, "", broker.JobRunning, 50 * time.Second},
		{"clamped far above", `99999999999999999999999`, broker.JobRunning, "", broker.JobRunning, 50 * time.Second},
		{"clamped below", `-5`, broker.JobRunning, "", broker.JobRunning, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(job(0, "bob", tt.start))
				if tt.change != "" {
					time.AfterFunc(3*time.Second, func() { s.put(job(0, "bob", tt.change)) })
				}
				got := ask(t, t.Context(), s, bob, `{"jobId":"job_0","waitSeconds":`+tt.wait+`}`)
				if got.body["Status"] != string(tt.want) || got.after != tt.after {
					t.Errorf("got %s after %v, want %s after %v", got.text, got.after, tt.want, tt.after)
				}
				if s.open != 0 {
					t.Errorf("%d watches were not given up", s.open)
				}
			})
		})
	}
}

// TestAThousandWaitersDelayNobody: a fresh read is answered at once beside them,
// and a change reaches each of them in that instant.
func TestAThousandWaitersDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(job(0, "bob", broker.JobRunning))
		c, err := New(s, Options{RuntimeID: "r1", Now: time.Now, After: func(d time.Duration) (<-chan time.Time, func()) { return time.After(d), func() {} }}).Open(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan answer, 1000)
		for range cap(answers) {
			go func() { answers <- call(t, t.Context(), c, bob, `{"jobId":"job_0","waitSeconds":50}`) }()
		}
		synctest.Wait()
		if got := call(t, t.Context(), c, bob, `{"jobId":"job_0"}`); got.body["Status"] != "Running" || got.after != 0 {
			t.Errorf("a fresh read: %s after %v", got.text, got.after)
		}
		time.AfterFunc(7*time.Second, func() { s.put(job(0, "bob", broker.JobSucceeded)) })
		for range cap(answers) {
			if got := <-answers; got.body["Status"] != "Succeeded" || got.after != 7*time.Second {
				t.Fatalf("%s after %v", got.text, got.after)
			}
		}
	})
}

func TestAWaitEndsWithItsCallAndWithTheFamily(t *testing.T) {
	for _, tt := range []struct {
		name string
		gone bool
	}{{"call", false}, {"family", true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(job(0, "bob", broker.JobRunning))
				c, err := New(s, Options{Now: time.Now, After: func(d time.Duration) (<-chan time.Time, func()) { return time.After(d), func() {} }}).Open(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(2*time.Second, func() {
					if !tt.gone {
						cancel()
					} else if err := c.Close(ctx); err != nil {
						t.Error(err)
					}
				})
				got := call(t, ctx, c, bob, `{"jobId":"job_0","waitSeconds":30}`)
				var failure *broker.Failure
				if !errors.As(got.err, &failure) || failure.Gone != tt.gone || got.after != 2*time.Second || s.open != 0 {
					t.Errorf("got %+v (%v) after %v, %d watches", failure, got.err, got.after, s.open)
				}
				if err := c.Close(ctx); err != nil {
					t.Error(err)
				}
				<-c.Incarnation().Done
			})
		})
	}
}

func TestAStoreThatAnnouncesNothingNewDoesNotSpinForEver(t *testing.T) {
	s := newStore(job(0, "bob", broker.JobRunning))
	s.noise = true
	if got := ask(t, t.Context(), s, bob, `{"jobId":"job_0","waitSeconds":50}`); got.body["Status"] != "Running" {
		t.Errorf("got %s", got.text)
	}
}

func TestWithoutAClockNothingWaits(t *testing.T) {
	c, _ := New(newStore(job(0, "bob", broker.JobRunning)), Options{RuntimeID: "r1", Now: time.Now}).Open(t.Context(), nil)
	if got := call(t, t.Context(), c, bob, `{"jobId":"job_0","waitSeconds":50}`); got.body["Status"] != "Running" {
		t.Errorf("got %s", got.text)
	}
	_, err := c.Call(t.Context(), &broker.Call{Verb: "other", Params: json.RawMessage(`{"name":"other"}`)}, broker.Peer{})
	var failure *broker.Failure
	if !errors.As(err, &failure) || failure.Refusal == nil || failure.Refusal.Code != broker.CodeVerbUnknown {
		t.Errorf("another verb: %v", err)
	}
}

func TestTheCatalogTakesTheFamily(t *testing.T) {
	f := New(newStore(), Options{RuntimeID: "r1", Now: time.Now})
	s, faults := catalog.Build(1, []catalog.Source{f.Source(), {Backend: "x", Listed: true}})
	if len(faults) > 0 {
		t.Fatalf("%+v", faults)
	}
	for profile, name := range map[string]string{"": "armada_job_status", "x": "job_status"} {
		p, _ := s.Profile(profile)
		v, ok := p.Resolve(name)
		if !ok || v.Name != Verb || !v.Control || v.Effects != broker.Read || v.Unchecked() != "" {
			t.Errorf("%q: %+v, %v", profile, v, ok)
		}
	}
	p, _ := s.Profile("x")
	page, _ := p.Page("")
	if !strings.Contains(string(page), `"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`) {
		t.Errorf("%s", page)
	}
	c, _ := f.Open(t.Context(), nil)
	if inc := c.Incarnation(); inc.RuntimeID != "r1" || !inc.Reported || len(inc.Tools) != 1 || inc.Cause() == "" {
		t.Errorf("%+v", inc)
	}
}
