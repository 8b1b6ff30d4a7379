package events_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/broker"
	"berth/broker/native"
	"berth/broker/native/events"
	"berth/broker/native/nativetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store has events by id.
type store struct {
	ids  []string
	fail error
}

func (s *store) EventsPage(q broker.EventQuery) (broker.EventPage, error) {
	page := broker.EventPage{Total: len(s.ids), Cursor: "evt_last"}
	for i, id := range s.ids {
		if i >= q.Offset && len(page.Events) < q.Limit {
			page.Events = append(page.Events, broker.Event{ID: id, EventType: "note"})
		}
	}
	return page, s.fail
}

func (s *store) DeleteEvents(_ context.Context, ids []string) ([]string, error) {
	if s.fail != nil {
		return nil, s.fail
	}
	var gone []string
	for _, id := range ids {
		if at := slices.Index(s.ids, id); at >= 0 {
			s.ids = slices.Delete(s.ids, at, at+1)
			gone = append(gone, id)
		}
	}
	return gone, nil
}

// clock moves by 1.5 seconds with each look at it.
func clock() func() time.Time {
	now := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	return func() time.Time { now = now.Add(1500 * time.Millisecond); return now }
}

func TestEventsAreDeletedByVerb(t *testing.T) {
	user := broker.Principal{Tenant: "acme", User: "ana", Role: broker.User}
	for _, tc := range []struct {
		name, verb, arguments string
		who                   broker.Principal
		fail                  error
		want                  string // a part of the answer
		left                  string
	}{
		{"one", "delete_event", `{"eventId":" b "}`, broker.LocalOperator, nil, `{"Status":"deleted","EventId":"b"}`, "a c"},
		{"none of this id", "delete_event", `{"eventId":"x"}`, broker.LocalOperator, nil, `{"Error":"Event not found","Code":"event_not_found","EventId":"x"}`, "a b c"},
		{"no id", "delete_event", `{}`, broker.LocalOperator, nil, `"Code":"missing_event_id"`, "a b c"},
		{"a blank id", "delete_event", `{"eventId":" "}`, broker.LocalOperator, nil, `"Code":"missing_event_id"`, "a b c"},
		{"an id that is no text", "delete_event", `{"eventId":7}`, broker.LocalOperator, nil, `"Code":"invalid_arguments"`, "a b c"},
		{"a user", "delete_event", `{"eventId":"a"}`, user, nil, `"Code":"global_administrator_required","Reason":"global_administrator_required"`, "a b c"},
		{"a journal that fails", "delete_event", `{"eventId":"a"}`, broker.LocalOperator, errors.New("disk"), `"Code":"outcome_unknown"`, "a b c"},
		{"all", "delete_events", `{"ids":["a","b","c"]}`, broker.LocalOperator, nil, `{"Status":"Deleted","Deleted":3,"Skipped":[]}`, ""},
		{"a bad one stops no other", "delete_events", `{"ids":["x","c","c","a"]}`, broker.LocalOperator, nil,
			`{"Status":"PartiallyDeleted","Deleted":2,"Skipped":[{"Id":"x","Reason":"event_not_found"},{"Id":"c","Reason":"event_not_found"}]}`, "b"},
		{"none", "delete_events", `{"ids":["x"]}`, broker.LocalOperator, nil, `{"Status":"NoneDeleted","Deleted":0,"Skipped":[{"Id":"x","Reason":"event_not_found"}]}`, "a b c"},
		{"no ids", "delete_events", `{}`, broker.LocalOperator, nil, `"Code":"missing_ids"`, "a b c"},
		{"an empty list", "delete_events", `{"ids":[]}`, broker.LocalOperator, nil, `"Code":"missing_ids"`, "a b c"},
		{"too many", "delete_events", `{"ids":["a"` + strings.Repeat(`,"a"`, events.MaxIDs) + `]}`, broker.LocalOperator, nil, `"Code":"invalid_arguments"`, "a b c"},
		{"a user, many", "delete_events", `{"ids":["a"]}`, user, nil, `"Code":"global_administrator_required"`, "a b c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &store{ids: []string{"a", "b", "c"}, fail: tc.fail}
			log := slog.New(slog.DiscardHandler)
			f := events.NewFamily(events.New(s, clock(), log), native.Options{Now: time.Now, Log: log})
			if got := nativetest.Call(t, f, tc.who, tc.verb, tc.arguments); !strings.Contains(got, tc.want) {
				t.Errorf("answered %s", got)
			}
			if left := strings.Join(s.ids, " "); left != tc.left {
				t.Errorf("left %q", left)
			}
		})
	}
}

func TestADeletionIsLoggedWithWhoAskedForIt(t *testing.T) {
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, nil))
	s := events.New(&store{ids: []string{"a"}}, clock(), log)
	if _, err := s.Delete(t.Context(), broker.LocalOperator, "a"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "principal=default/operator") || !strings.Contains(text.String(), "first=a") {
		t.Error(text.String())
	}
}

func TestAListIsAPage(t *testing.T) {
	s := events.New(&store{ids: strings.Fields("a b c d e")}, clock(), slog.New(slog.DiscardHandler))
	page, err := s.List(broker.EventQuery{}, broker.PageRequest{Number: 2, Size: 2})
	if err != nil || !page.Success || page.PageNumber != 2 || page.PageSize != 2 || page.TotalPages != 3 || page.TotalRecords != 5 ||
		len(page.Objects) != 2 || *page.Objects[0].ID != "c" || page.TotalMS != 1500 || page.Cursor != "evt_last" {
		t.Errorf("%+v, %v", page, err)
	}
	for _, tc := range []struct{ asked, want broker.PageRequest }{
		{broker.PageRequest{}, broker.PageRequest{Number: 1, Size: 10}},
		{broker.PageRequest{Number: -1, Size: -1}, broker.PageRequest{Number: 1, Size: 1}},
		{broker.PageRequest{Number: 1 << 40, Size: 1 << 40}, broker.PageRequest{Number: 1 << 30, Size: 1000}},
	} {
		if got := tc.asked.Normal(); got != tc.want {
			t.Errorf("%+v becomes %+v", tc.asked, got)
		}
	}
}

func TestTheVerbsAreForAdministratorsAndHaveTheirOlderNames(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	source := events.NewFamily(events.New(&store{}, clock(), log), native.Options{Now: time.Now, Log: log}).Source()
	for _, name := range []string{"delete_event", "delete_events"} {
		if scope := source.Facts[name].Scope; len(scope) != 1 || scope[0] != broker.GlobalAdministrator || source.Effects[name] != broker.Destroy || source.Aliases["armada_"+name] != name {
			t.Errorf("%s: %v, %v", name, scope, source.Aliases)
		}
	}
}
