package rest

import (
	"context"
	"net/http"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/native/events"
	"berth/transport/httpguard"
)

// Events is the service behind the verbs of events; *events.Service is one.
type Events interface {
	List(q broker.EventQuery, p broker.PageRequest) (events.Page, error)
	Delete(ctx context.Context, who broker.Principal, id string) (events.Deleted, error)
}

func (a *api) events(r *http.Request) (any, error) {
	if a.Events == nil {
		return nil, broker.Refuse(broker.CodeNotFound, "This broker has no journal to look at.", nil)
	}
	query := r.URL.Query()
	q := broker.EventQuery{EventType: query.Get("eventType"), EntityType: query.Get("entityType"), EntityID: query.Get("entityId"),
		CaptainID: query.Get("captainId"), MissionID: query.Get("missionId"), VesselID: query.Get("vesselId"), VoyageID: query.Get("voyageId"),
		JobID: query.Get("jobId")}
	var err error
	if q.CreatedAfter, err = moment(r, "createdAfter"); err != nil {
		return nil, err
	}
	if q.CreatedBefore, err = moment(r, "createdBefore"); err != nil {
		return nil, err
	}
	p, err := paged(r)
	if err != nil {
		return nil, err
	}
	return a.Events.List(q, p)
}

func (a *api) deleteEvent(r *http.Request) (any, error) {
	if a.Events == nil {
		return nil, broker.Refuse(broker.CodeNotFound, "This broker has no journal to look at.", nil)
	}
	if a.ReadOnly {
		return nil, broker.Refuse(broker.CodeReadOnly, "This broker only reads; nothing was deleted.", map[string]any{"read_only": true})
	}
	caller, _ := httpguard.Principal(r.Context())
	return a.Events.Delete(r.Context(), caller, r.PathValue("id"))
}

// paged reads which page of a list is wanted.
func paged(r *http.Request) (broker.PageRequest, error) {
	at, err := number(r, "pageNumber", 1, 1, 1<<30)
	if err != nil {
		return broker.PageRequest{}, err
	}
	size, err := number(r, "pageSize", broker.DefaultPageSize, 1, broker.MaxPageSize)
	if err != nil {
		return broker.PageRequest{}, err
	}
	order := r.URL.Query().Get("order")
	switch {
	case order == "" || strings.EqualFold(order, broker.CreatedDescending):
	case strings.EqualFold(order, broker.CreatedAscending):
		return broker.PageRequest{Number: at, Size: size, OldestFirst: true}, nil
	default:
		return broker.PageRequest{}, badRequest(broker.CodeInvalidArguments, "There is no such order.",
			map[string]any{"Name": "order", "Orders": []string{broker.CreatedDescending, broker.CreatedAscending}})
	}
	return broker.PageRequest{Number: at, Size: size}, nil
}

// moment reads a time of the query; without one it is the zero time.
func moment(r *http.Request, name string) (time.Time, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, badRequest(broker.CodeInvalidArguments, name+" must be a time such as 2026-05-04T09:12:00Z.", map[string]any{"Name": name})
	}
	return t, nil
}
