// Package events lists and deletes the journal's events: the family of verbs
// `events`, and the one service behind it and behind the operator API.
//
// It owns what a deletion answers and who may ask for one. It refuses callers
// that are no global administrators, and ids of events that are not there; a
// deletion changes nothing but the event. It keeps no state and is safe for
// concurrent use.
package events

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/native"
)

// MaxIDs is how many events one call deletes.
const MaxIDs = 1000

// Store holds the events.
type Store interface {
	EventsPage(q broker.EventQuery) (broker.EventPage, error)
	// DeleteEvents deletes all of ids in one step and gives those that were there.
	DeleteEvents(ctx context.Context, ids []string) ([]string, error)
}

// Page is a page of events, and where a stream of them goes on.
type Page struct {
	broker.Page[broker.EventView]
	Cursor string
}

// Deleted is the answer to a deletion.
type Deleted struct {
	Status  string
	EventID string `json:"EventId"`
}

// Service answers for the tools and for the operator API.
type Service struct {
	store Store
	now   func() time.Time
	log   *slog.Logger
}

// New makes a service.
func New(store Store, now func() time.Time, log *slog.Logger) *Service {
	return &Service{store: store, now: now, log: log}
}

// List gives a page; the query's order, limit and offset are the page's.
func (s *Service) List(q broker.EventQuery, p broker.PageRequest) (Page, error) {
	began := s.now()
	p = p.Normal()
	q.OldestFirst, q.Limit, q.Offset = p.OldestFirst, p.Size, p.Offset()
	found, err := s.store.EventsPage(q)
	if err != nil {
		return Page{}, native.Unreadable(s.log, err)
	}
	views := make([]broker.EventView, 0, len(found.Events))
	for _, e := range found.Events {
		views = append(views, e.View())
	}
	return Page{broker.NewPage(p, views, found.Total, s.now().Sub(began)), found.Cursor}, nil
}

// Delete deletes one event.
func (s *Service) Delete(ctx context.Context, who broker.Principal, id string) (Deleted, error) {
	id = strings.TrimSpace(id)
	if id == "" {
		return Deleted{}, broker.Refuse(broker.CodeMissingEventID, "The argument eventId is required.", map[string]any{"Argument": "eventId"})
	}
	gone, err := s.delete(ctx, who, []string{id})
	if err != nil {
		return Deleted{}, err
	}
	if len(gone) == 0 {
		return Deleted{}, broker.Refuse(broker.CodeEventNotFound, "Event not found", map[string]any{"EventId": id})
	}
	return Deleted{Status: "deleted", EventID: id}, nil
}

// DeleteMany deletes what it finds of ids.
func (s *Service) DeleteMany(ctx context.Context, who broker.Principal, ids []string) (broker.DeletedMany, error) {
	if len(ids) == 0 {
		return broker.DeletedMany{}, broker.Refuse(broker.CodeMissingIDs, "The argument ids is required.", map[string]any{"Argument": "ids"})
	}
	gone, err := s.delete(ctx, who, ids)
	if err != nil {
		return broker.DeletedMany{}, err
	}
	return broker.DeleteMany(ids, gone, broker.CodeEventNotFound), nil
}

// delete writes and, as a deletion leaves no event of its own, logs.
func (s *Service) delete(ctx context.Context, who broker.Principal, ids []string) ([]string, error) {
	if who.Role != broker.GlobalAdministrator {
		return nil, broker.Refuse(broker.CodeGlobalAdministrator, "Events are deleted by global administrators.",
			map[string]any{"Reason": broker.CodeGlobalAdministrator})
	}
	gone, err := s.store.DeleteEvents(ctx, ids)
	if err != nil {
		s.log.Error("a deletion of events was not confirmed", slog.String("principal", who.Key()), slog.String("cause", err.Error()))
		return nil, broker.Refuse(broker.CodeOutcomeUnknown, "The journal did not confirm the deletion; it may have happened. A repeat deletes what is left.", nil)
	}
	if len(gone) > 0 {
		s.log.Info("events were deleted", slog.String("principal", who.Key()), slog.Int("events", len(gone)), slog.String("first", gone[0]))
	}
	return gone, nil
}
