package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/broker"
	"berth/broker/native"
	"berth/broker/native/events"
	"berth/broker/native/hold"
	"berth/broker/native/nativetest"
	"berth/broker/native/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var at = time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)

// store has jobs, newest first, and events.
type store struct {
	jobs   []broker.Job
	events []broker.Event
	fail   error
}

func (s *store) Job(id string) (broker.Job, error) {
	for _, j := range s.jobs {
		if j.ID == id {
			return j, s.fail
		}
	}
	return broker.Job{}, fmt.Errorf("%w: %s", broker.ErrJobNotFound, id)
}

func (s *store) Jobs(f broker.JobFilter) (broker.JobPage, error) {
	page := broker.JobPage{Unreadable: 2}
	for _, j := range s.jobs {
		if f.Match(j) {
			if page.Total++; page.Total > f.Offset && (f.Limit == 0 || len(page.Jobs) < f.Limit) {
				page.Jobs = append(page.Jobs, j)
			}
		}
	}
	return page, s.fail
}

func (s *store) EventsPage(q broker.EventQuery) (broker.EventPage, error) {
	var page broker.EventPage
	for _, e := range s.events {
		if q.Match(e) {
			page.Total++
			page.Events = append(page.Events, e)
		}
	}
	return page, s.fail
}

func (s *store) DeleteEvents(context.Context, []string) ([]string, error) { return nil, s.fail }

func job(n int, s broker.JobStatus, ended time.Time) broker.Job {
	j := broker.Job{ID: fmt.Sprintf("job_%d", n), Operation: "files__build", Status: s, SubmittedAt: at.Add(time.Duration(n) * time.Minute)}
	if s.Final() {
		j.CompletedAt = &ended
		j.Result = json.RawMessage(`{"big":"thing"}`)
	}
	if s == broker.JobLost {
		j.FailureMessage, j.Reason = "the broker stopped", broker.CodeJobLostOnRestart
	}
	return j
}

func family(s *store, change ...func(*status.Options)) *native.Verbs {
	log, now := slog.New(slog.DiscardHandler), func() time.Time { return at.Add(48 * time.Hour) }
	o := status.Options{Jobs: s, Events: events.New(s, now, log), Now: now, Log: log}
	for _, c := range change {
		c(&o)
	}
	return status.NewFamily(status.New(o), native.Options{Now: now, Log: log})
}

// call calls a verb for the operator.
func call(t *testing.T, f *native.Verbs, verb, arguments string) string {
	t.Helper()
	return nativetest.Call(t, f, broker.LocalOperator, verb, arguments)
}

func TestStatusSaysNullForWhatNobodyMeasured(t *testing.T) {
	s := &store{jobs: []broker.Job{job(2, broker.JobRunning, at), job(1, broker.JobLost, at)}}
	const nobody = `{"TotalCaptains":null,"IdleCaptains":null,"WorkingCaptains":null,"StalledCaptains":null,"ActiveVoyages":null,"MissionsByStatus":null,"Voyages":null,`
	if got, want := call(t, family(s), "status", ""), nobody+
		`"RecentSignals":null,"DispatchHold":null,"UnfinishedJobCount":1,"UnreadableJournalRecords":2,"TimestampUtc":"2026-05-06T09:00:00Z"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	known := func(o *status.Options) {
		o.Hold = func() *hold.View {
			return &hold.View{Reason: "upgrade", SetBy: "ops-1", SetByUTC: "2026-05-04T09:12:00Z"}
		}
		o.Signals = func() (any, error) { return nil, errors.New("the disk") }
	}
	s.fail = errors.New("the disk")
	if got, want := call(t, family(s, known), "status", "{}"), nobody+
		`"RecentSignals":null,"DispatchHold":{"Reason":"upgrade","SetBy":"ops-1","SetByUtc":"2026-05-04T09:12:00Z"},"UnfinishedJobCount":null,"UnreadableJournalRecords":null,"TimestampUtc":"2026-05-06T09:00:00Z"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTheInboxShowsLostJobsForADay(t *testing.T) {
	now := at.Add(48 * time.Hour)
	s := &store{jobs: []broker.Job{job(5, broker.JobFailed, now), job(4, broker.JobLost, now.Add(-time.Hour)), job(3, broker.JobLost, now.Add(-time.Minute)),
		job(2, broker.JobLost, now.Add(-24*time.Hour)), job(1, broker.JobLost, now.Add(-24*time.Hour-1))}}
	item := func(n int) string {
		return fmt.Sprintf(`{"kind":"job_lost","severity":"Warning","title":"Job lost: files__build","detail":"the broker stopped","entityType":"job","entityId":"job_%d","href":"/api/v1/jobs/job_%d"}`, n, n)
	}
	want := `{"count":3,"criticalCount":0,"warningCount":3,"items":[` + item(3) + "," + item(4) + "," + item(2) + `]}`
	if got := call(t, family(s), "inbox", "{}"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := call(t, family(&store{}), "inbox", ""); got != `{"count":0,"criticalCount":0,"warningCount":0,"items":[]}` {
		t.Errorf("nothing waits: %s", got)
	}
	for verb, arguments := range map[string]string{"inbox": "", "enumerate": `{"entityType":"jobs"}`} {
		if got := call(t, family(&store{fail: errors.New("the disk")}), verb, arguments); !strings.Contains(got, `"Code":"job_journal_unavailable"`) {
			t.Errorf("of an unreadable journal %s says %s", verb, got)
		}
	}
	if got := call(t, family(&store{fail: errors.New("the disk")}), "enumerate", `{"entityType":"events"}`); !strings.Contains(got, `"Code":"job_journal_unavailable"`) {
		t.Error(got)
	}
}

func TestEnumerate(t *testing.T) {
	s := &store{
		jobs: []broker.Job{job(4, broker.JobAccepted, at), job(3, broker.JobRunning, at), job(2, broker.JobSucceeded, at.Add(47*time.Hour)),
			job(1, broker.JobLost, at.Add(47*time.Hour)), job(0, broker.JobSucceeded, at.Add(-20*24*time.Hour))},
		events: []broker.Event{
			{ID: "evt_2", EventType: "backup.created", Message: "made", Payload: json.RawMessage(`{"a":1}`), CreatedAt: at},
			{ID: "evt_1", EventType: "job.lost", EntityType: "job", EntityID: "job_1", CreatedAt: at.Add(-time.Hour)}},
	}
	const made, lost = `{"Id":"evt_2","EventType":"backup.created","Message":"made","PayloadLength":7,"CreatedUtc":"2026-05-04T09:00:00Z"}`,
		`{"Id":"evt_1","EventType":"job.lost","EntityType":"job","EntityId":"job_1","CreatedUtc":"2026-05-04T08:00:00Z"}`
	head := func(number, size, pages, total int) string {
		return fmt.Sprintf(`{"Success":true,"PageNumber":%d,"PageSize":%d,"TotalPages":%d,"TotalRecords":%d,"Objects":[`, number, size, pages, total)
	}
	for _, tc := range []struct{ name, arguments, want string }{
		{"events", `{"entityType":"events"}`, head(1, 10, 1, 2) + made + "," + lost + `],"TotalMs":0}`},
		{"one type", `{"entityType":"Event","eventType":"job.lost"}`, head(1, 10, 1, 1) + lost},
		{"of a job", `{"entityType":"event","jobId":"job_1"}`, head(1, 10, 1, 1) + lost},
		{"since", `{"entityType":"event","createdAfter":"2026-05-04T09:00:00Z"}`, head(1, 10, 1, 1) + made},
		{"with payloads", `{"entityType":"event","includePayload":"true","eventType":"backup.created"}`, `"Payload":"{\"a\":1}","CreatedUtc"`},
		{"a filter that events do not have", `{"entityType":"events","status":"Nonsense","eventType":"job.lost"}`, head(1, 10, 1, 1) + lost},
		{"jobs", `{"entityType":"jobs"}`, head(1, 10, 1, 4) + `{"JobId":"job_4","Operation":"files__build","Status":"Accepted","SubmittedAtUtc":"2026-05-04T09:04:00Z","StartedAtUtc":null,` +
			`"CompletedAtUtc":null,"FailureMessage":null,"ObjectiveId":null,"VesselId":null,"Reason":null,"Refusal":null},`},
		{"a page of jobs", `{"entityType":"job","pageSize":2,"pageNumber":2}`, head(2, 2, 2, 4) + `{"JobId":"job_2"`},
		{"the oldest first", `{"entityType":"job","pageSize":3,"order":"CreatedAscending"}`, head(1, 3, 2, 4) + `{"JobId":"job_1"`},
		{"the rest of them", `{"entityType":"job","pageSize":3,"pageNumber":2,"order":"CreatedAscending"}`, head(2, 3, 2, 4) + `{"JobId":"job_4"`},
		{"beyond them", `{"entityType":"job","pageSize":3,"pageNumber":3,"order":"CreatedAscending"}`, head(3, 3, 2, 4) + `]`},
		{"a status", `{"entityType":"jobs","status":"running"}`, head(1, 10, 1, 1) + `{"JobId":"job_3"`},
		{"a job", `{"entityType":"jobs","jobId":"job_2"}`, head(1, 10, 1, 1) + `{"JobId":"job_2"`},
		{"a job of another status", `{"entityType":"jobs","jobId":"job_2","status":"Lost"}`, head(1, 10, 0, 0)},
		{"a job that is past its retention", `{"entityType":"jobs","jobId":"job_0"}`, head(1, 10, 0, 0)},
		{"no such job", `{"entityType":"jobs","jobId":"job_9"}`, head(1, 10, 0, 0)},
		{"a time", `{"entityType":"jobs","createdBefore":"2026-05-04T09:02:00Z"}`, head(1, 10, 1, 1) + `{"JobId":"job_1"`},
		{"numbers outside their limits", `{"entityType":"jobs","pageNumber":"-3","pageSize":1e9}`, head(1, 1000, 1, 4)},
		{"a status that does not exist", `{"entityType":"jobs","status":"Done"}`, `"Code":"invalid_status","Statuses":["Accepted","Running","Succeeded","Failed","Lost"]`},
		{"a type of another broker", `{"entityType":"captains"}`, `"Code":"unknown_entity_type","ValidTypes":["events","jobs"]`},
		{"no type", `{}`, `"Code":"invalid_arguments","Violations":[{"Path":"/entityType"`},
		{"an order that does not exist", `{"entityType":"jobs","order":"Newest"}`, `"Code":"invalid_arguments"`},
		{"a time that is none", `{"entityType":"jobs","createdAfter":"yesterday"}`, `"Code":"invalid_arguments","Violations":[{"Path":"/createdAfter"`},
		{"another time that is none", `{"entityType":"jobs","createdBefore":"tomorrow"}`, `"Code":"invalid_arguments","Violations":[{"Path":"/createdBefore"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := call(t, family(s), "enumerate", tc.arguments)
			if !strings.HasPrefix(got, tc.want) && !(strings.HasPrefix(tc.want, `"`) && strings.Contains(got, tc.want)) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if strings.Contains(got, "Result") || strings.Contains(got, "thing") {
				t.Errorf("a list shows a result: %s", got)
			}
		})
	}
}

func TestOtherFamiliesAddWhatTheyKeep(t *testing.T) {
	f := family(&store{}, func(o *status.Options) {
		o.More = []status.Entity{{Names: [2]string{"signals", "signal"}, List: func(q status.Query) (any, error) {
			return map[string]any{"Type": q.SignalType, "Unread": q.UnreadOnly, "Size": q.Page.Size}, nil
		}}}
	})
	if got := call(t, f, "enumerate", `{"entityType":"signal","signalType":"Wake","unreadOnly":true,"pageSize":5}`); got != `{"Size":5,"Type":"Wake","Unread":true}` {
		t.Error(got)
	}
	if got := call(t, f, "enumerate", `{"entityType":"docks"}`); !strings.Contains(got, `"ValidTypes":["events","jobs","signals"]`) {
		t.Error(got)
	}
}

func TestTheVerbsAreForAdministratorsAndHaveTheirOlderNames(t *testing.T) {
	source := family(&store{}).Source()
	for name, alias := range map[string]string{"status": "armada_status", "enumerate": "armada_enumerate", "inbox": ""} {
		if scope := source.Facts[name].Scope; len(scope) != 1 || scope[0] != broker.GlobalAdministrator || source.Effects[name] != broker.Read {
			t.Errorf("%s: %v", name, scope)
		}
		if alias != "" && source.Aliases[alias] != name || alias == "" && source.Aliases["armada_"+name] != "" {
			t.Errorf("%s: %v", name, source.Aliases)
		}
	}
}
