package rest_test

import (
	"context"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/native/board"
	"berth/transport/rest"
)

// fakeBoard notes what it was asked, and answers or refuses.
type fakeBoard struct {
	who    board.Caller
	query  board.Query
	draft  board.Draft
	signal string
	err    error
}

func (f *fakeBoard) Read(who board.Caller, q board.Query) (board.Room, error) {
	f.who, f.query = who, q
	return board.Room{RoomKey: "fleet"}, f.err
}

func (f *fakeBoard) Post(_ context.Context, who board.Caller, d board.Draft) (board.Message, error) {
	f.who, f.draft = who, d
	return board.Message{ID: "bnt_1"}, f.err
}

func (f *fakeBoard) MarkRead(_ context.Context, who board.Caller, signal string) (board.Acknowledged, error) {
	f.who, f.signal = who, signal
	return board.Acknowledged{Status: board.Marked, SignalID: signal}, f.err
}

func TestTheBoardIsAskedAsItIsByItsVerbs(t *testing.T) {
	operator := board.Caller{Principal: broker.LocalOperator, Now: at}
	named := operator
	named.Participant = "lane-a"
	for _, tt := range []struct {
		method, path, body, header string
		want                       fakeBoard
		says                       string
	}{
		{"GET", "/api/v1/board", "", "", fakeBoard{who: operator, query: board.Query{Limit: 50}}, `"RoomKey":"fleet"`},
		{"GET", "/api/v1/board?room=r&limit=9999&after=2026-11-30T11:00:00Z&participant=k&full=true", "", "lane-a",
			fakeBoard{who: named, query: board.Query{RoomKey: "r", Limit: 500, After: at.Add(-time.Hour), ParticipantKey: "k", Full: true}}, `"Messages"`},
		{"POST", "/api/v1/board", `{"Content":"c","authorName":"a","AUTHORID":"i","RoomKey":"r","VoyageId":"v","MissionId":"m","VesselId":"w","IncidentId":"n","ToParticipantKey":"k","Other":1}`, "lane a",
			fakeBoard{who: operator, draft: board.Draft{Content: "c", AuthorName: "a", AuthorID: "i", RoomKey: "r", VoyageID: "v", MissionID: "m", VesselID: "w", IncidentID: "n", ToParticipantKey: "k"}}, `"Id":"bnt_1"`},
		{"POST", "/api/v1/signals/sig_1/read", "", "lane-a", fakeBoard{who: named, signal: "sig_1"}, `{"Status":"marked","SignalId":"sig_1"}`},
	} {
		b := &fakeBoard{}
		h := newFake(t).handler(nil, func(o *rest.Options) { o.Board = b })
		r := httptest.NewRequest(tt.method, "http://localhost"+tt.path, strings.NewReader(tt.body))
		r.Header.Set("Authorization", "Bearer t0")
		if tt.header != "" {
			r.Header.Set(broker.ParticipantHeader, tt.header)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 || !strings.Contains(w.Body.String(), tt.says) || !reflect.DeepEqual(*b, tt.want) {
			t.Errorf("%s %s: %d %s\nasked %+v\nwant  %+v", tt.method, tt.path, w.Code, w.Body, *b, tt.want)
		}
	}
}

func TestTheBoardsRefusalsHaveTheirStatus(t *testing.T) {
	for _, tt := range []struct {
		method, path, body string
		err                error
		status             int
		code               string
	}{
		{"GET", "/api/v1/board?after=yesterday", "", nil, 400, "invalid_arguments"},
		{"GET", "/api/v1/board?limit=many", "", nil, 400, "invalid_arguments"},
		{"POST", "/api/v1/board", `{"Content":1}`, nil, 400, "invalid_arguments"},
		{"POST", "/api/v1/board", `{}`, broker.Refuse(broker.CodeMissingContent, "x", nil), 400, "missing_content"},
		{"POST", "/api/v1/board", `{}`, broker.Refuse(broker.CodeJobJournal, "x", nil), 503, "job_journal_unavailable"},
		{"POST", "/api/v1/board", `{"Content":"` + strings.Repeat("x", 600<<10) + `"}`, nil, 413, "request_too_large"},
		{"POST", "/api/v1/signals/s/read", "", broker.Refuse(broker.CodeWakeNotAddressed, "x", nil), 403, "wake_not_addressed_to_caller"},
		{"POST", "/api/v1/signals/s/read", "", broker.Refuse(broker.CodeWakeOwnerOnly, "x", nil), 403, "wake_owner_only"},
		{"POST", "/api/v1/signals/s/read", "", broker.Refuse(broker.CodeSignalNotWake, "x", nil), 400, "signal_not_wake"},
	} {
		h := newFake(t).handler(nil, func(o *rest.Options) { o.Board = &fakeBoard{err: tt.err} })
		if status, body := ask(t, h, tt.method, tt.path, tt.body); status != tt.status || object(t, body)["Code"] != tt.code {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, status, body)
		}
	}
	h := newFake(t).handler(nil, func(o *rest.Options) { o.Board = nil })
	if status, body := ask(t, h, "GET", "/api/v1/board", ""); status != 404 {
		t.Errorf("without a board: %d %s", status, body)
	}
}
