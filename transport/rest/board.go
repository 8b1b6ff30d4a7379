package rest

import (
	"context"
	"net/http"

	"berth/broker"
	"berth/broker/native/board"
	"berth/transport/httpguard"
)

// Board is the coordination room; *board.Board is one.
type Board interface {
	Read(who board.Caller, q board.Query) (board.Room, error)
	Post(ctx context.Context, who board.Caller, d board.Draft) (board.Message, error)
	MarkRead(ctx context.Context, who board.Caller, signal string) (board.Acknowledged, error)
}

// maxNote limits the body of a note, in bytes: its longest text with every
// character escaped, and the rest.
const maxNote = 512 << 10

// boardCaller is who asks, as the verbs would see it.
func (a *api) boardCaller(r *http.Request) (board.Caller, error) {
	if a.Board == nil {
		return board.Caller{}, &refused{status: http.StatusNotFound, refusal: broker.Refuse(broker.CodeNotFound, "This broker has no coordination board.", nil)}
	}
	principal, _ := httpguard.Principal(r.Context())
	return board.Caller{Principal: principal, Participant: broker.Participant(r.Header[broker.ParticipantHeader]), Now: a.Now()}, nil
}

func (a *api) readBoard(r *http.Request) (any, error) {
	who, err := a.boardCaller(r)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	q := board.Query{RoomKey: query.Get("room"), ParticipantKey: query.Get("participant")}
	if q.Full, err = truth(r, "full"); err != nil {
		return nil, err
	}
	if q.Limit, err = number(r, "limit", board.DefaultLimit, 1, board.MaxLimit); err != nil {
		return nil, err
	}
	if q.After, err = board.ParseTime("after", query.Get("after")); err != nil {
		return nil, err
	}
	return a.Board.Read(who, q)
}

func (a *api) postNote(r *http.Request) (any, error) {
	who, err := a.boardCaller(r)
	if err != nil {
		return nil, err
	}
	var d board.Draft
	if err := decode(r.Body, &d); err != nil {
		return nil, err
	}
	return a.Board.Post(r.Context(), who, d)
}

func (a *api) readSignal(r *http.Request) (any, error) {
	who, err := a.boardCaller(r)
	if err != nil {
		return nil, err
	}
	return a.Board.MarkRead(r.Context(), who, r.PathValue("id"))
}
