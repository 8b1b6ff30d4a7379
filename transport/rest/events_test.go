package rest_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/native/events"
	"berth/journal"
	"berth/transport/rest"
)

// journalled opens a journal and gives the options of an API over its events.
func journalled(t *testing.T) (*journal.Journal, func(*rest.Options)) {
	t.Helper()
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j, func(o *rest.Options) {
		o.Now, o.Done = time.Now, nil
		o.Events, o.Journalled = events.New(j, o.Now, slog.New(slog.DiscardHandler)), j
	}
}

func happen(t *testing.T, j *journal.Journal, events ...broker.Event) {
	t.Helper()
	for _, e := range events {
		if err := j.AppendEvent(context.Background(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// listOf asks for a list of events.
func listOf(t *testing.T, h http.Handler, query string) events.Page {
	t.Helper()
	status, body := ask(t, h, "GET", "/api/v1/events"+query, "")
	if status != 200 {
		t.Fatalf("status %d, body %s", status, body)
	}
	var page events.Page
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		t.Fatal(err)
	}
	return page
}

func TestEventsAreListedInPages(t *testing.T) {
	j, over := journalled(t)
	h := newFake(t).handler(nil, over)
	if page := listOf(t, h, ""); !page.Success || page.TotalRecords != 0 || page.TotalPages != 0 || page.Objects == nil || page.Cursor != broker.FirstCursor {
		t.Errorf("of an empty journal: %+v", page)
	}
	hour := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	for n := range 25 {
		happen(t, j, broker.Event{EventType: []string{"job.failed", "dispatch_hold.engaged"}[n%2], EntityType: "job", EntityID: "job_" + string(rune('a'+n)),
			Message: "said", CreatedAt: hour.Add(time.Duration(n) * time.Minute)})
	}
	for _, tc := range []struct {
		query               string
		total, pages, first int // first: which event, by minute; -1: none
		count, size, number int
	}{
		{"", 25, 3, 24, 10, 10, 1},
		{"?pageNumber=3", 25, 3, 4, 5, 10, 3},
		{"?pageNumber=9", 25, 3, -1, 0, 10, 9},
		{"?pageSize=0&pageNumber=-5", 25, 25, 24, 1, 1, 1},
		{"?pageSize=99999", 25, 1, 24, 25, 1000, 1},
		{"?order=CreatedAscending&pageSize=2", 25, 13, 0, 2, 2, 1},
		{"?order=createddescending&pageSize=2", 25, 13, 24, 2, 2, 1},
		{"?eventType=job.failed", 13, 2, 24, 10, 10, 1},
		{"?eventType=job.lost", 0, 0, -1, 0, 10, 1},
		{"?entityId=job_c", 1, 1, 2, 1, 10, 1},
		{"?jobId=job_c", 1, 1, 2, 1, 10, 1},
		{"?entityType=mission", 0, 0, -1, 0, 10, 1},
		{"?createdAfter=2026-05-04T09:10:00Z&createdBefore=2026-05-04T09:12:00Z", 2, 1, 11, 2, 10, 1},
		{"?missionId=msn_1", 0, 0, -1, 0, 10, 1},
	} {
		page := listOf(t, h, tc.query)
		if page.TotalRecords != tc.total || page.TotalPages != tc.pages || len(page.Objects) != tc.count || page.PageSize != tc.size || page.PageNumber != tc.number {
			t.Errorf("%s: %+v", tc.query, page)
			continue
		}
		if tc.first >= 0 && *page.Objects[0].CreatedUTC != broker.FormatTime(hour.Add(time.Duration(tc.first)*time.Minute)) {
			t.Errorf("%s begins with %+v", tc.query, page.Objects[0])
		}
	}
	for _, bad := range []string{"?order=Newest", "?pageSize=ten", "?createdAfter=yesterday", "?createdBefore=2026"} {
		if status, body := ask(t, h, "GET", "/api/v1/events"+bad, ""); status != 400 || object(t, body)["Code"] != "invalid_arguments" || object(t, body)["Error"] != "BadRequest" {
			t.Errorf("%s: status %d, body %s", bad, status, body)
		}
	}
}

func TestAnEventIsDeletedOnce(t *testing.T) {
	j, over := journalled(t)
	h := newFake(t).handler(nil, over)
	happen(t, j, broker.Event{EventType: "a"}, broker.Event{EventType: "b"})
	id := *listOf(t, h, "?eventType=a").Objects[0].ID
	status, body := ask(t, h, "DELETE", "/api/v1/events/"+id, "")
	if o := object(t, body); status != 200 || o["Status"] != "deleted" || o["EventId"] != id || len(o) != 2 {
		t.Fatalf("status %d, body %s", status, body)
	}
	for _, gone := range []string{id, "evt_never", "%20x"} {
		status, body = ask(t, h, "DELETE", "/api/v1/events/"+gone, "")
		if o := object(t, body); status != 404 || o["Code"] != "event_not_found" || o["Message"] != "Event not found" || o["Error"] != "NotFound" {
			t.Errorf("%s: status %d, body %s", gone, status, body)
		}
	}
	if status, body = ask(t, h, "DELETE", "/api/v1/events/%20", ""); status != 400 || object(t, body)["Code"] != "missing_event_id" {
		t.Errorf("status %d, body %s", status, body)
	}
	if page := listOf(t, h, ""); page.TotalRecords != 1 || page.Objects[0].EventType != "b" {
		t.Errorf("%+v", page)
	}
}

func TestABrokerThatOnlyReadsDeletesNothing(t *testing.T) {
	j, over := journalled(t)
	happen(t, j, broker.Event{EventType: "a"})
	h := newFake(t).handler(nil, over, func(o *rest.Options) { o.ReadOnly = true })
	id := *listOf(t, h, "").Objects[0].ID
	if status, body := ask(t, h, "DELETE", "/api/v1/events/"+id, ""); status != 403 || object(t, body)["Code"] != "read_only_session" {
		t.Errorf("status %d, body %s", status, body)
	}
	if page := listOf(t, h, ""); page.TotalRecords != 1 {
		t.Errorf("%+v", page)
	}
}

func TestAJournalThatIsClosedIsSaidToBe(t *testing.T) {
	j, over := journalled(t)
	happen(t, j, broker.Event{EventType: "a"})
	h := newFake(t).handler(nil, over)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		method, path string
		status       int
		code, word   string
	}{
		{"GET", "/api/v1/events", 503, "job_journal_unavailable", "Unavailable"},
		{"DELETE", "/api/v1/events/evt_1", 500, "outcome_unknown", "InternalError"},
		{"GET", "/api/v1/events/stream", 503, "job_journal_unavailable", "Unavailable"},
	} {
		if status, body := ask(t, h, tc.method, tc.path, ""); status != tc.status || object(t, body)["Code"] != tc.code || object(t, body)["Error"] != tc.word {
			t.Errorf("%s %s: status %d, body %s", tc.method, tc.path, status, body)
		}
	}
}

func TestWithoutAJournalThereAreNoEvents(t *testing.T) {
	h := newFake(t).handler(nil, func(o *rest.Options) { o.Events, o.Journalled = nil, nil })
	for _, route := range [][2]string{{"GET", "/api/v1/events"}, {"GET", "/api/v1/events/stream"}, {"DELETE", "/api/v1/events/evt_1"}} {
		if status, body := ask(t, h, route[0], route[1], ""); status != 404 || object(t, body)["Code"] != "not_found" {
			t.Errorf("%s: status %d, body %s", route[1], status, body)
		}
	}
}
