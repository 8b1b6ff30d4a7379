package status

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/native"
)

// Entity is a type of records that enumerate lists.
type Entity struct {
	Names [2]string // plural, singular
	// List gives a broker.Page of the records that a query selects. A filter
	// that the entity does not have is ignored.
	List func(q Query) (any, error)
}

// Query is what enumerate was asked for. An empty filter selects everything.
type Query struct {
	Page                        broker.PageRequest
	CreatedAfter, CreatedBefore time.Time // at or after, before
	Filters
}

// Filters are the arguments that select records or widen what is shown.
type Filters struct {
	Status            string
	FleetID           string
	VesselID          string
	CaptainID         string
	VoyageID          string
	MissionID         string
	JobID             string
	EventType         string
	SignalType        string
	ToCaptainID       string
	UnreadOnly        bool
	IncludePayload    bool
	IncludeMessage    bool
	IncludeContext    bool
	IncludeTestOutput bool
	// IncludeDescription shows long texts instead of their lengths.
	IncludeDescription bool
}

// arguments are those of the verb. Numbers may be written as 1.0 or 1e3.
type arguments struct {
	EntityType                  string
	PageNumber, PageSize        *float64
	Order                       string
	CreatedAfter, CreatedBefore string
	Filters
}

// Enumerate gives a page of one type of records.
func (s *Service) Enumerate(raw json.RawMessage) (any, error) {
	var args arguments
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, unfit("", "arguments that fit the schema")
	}
	entity, err := s.entity(args.EntityType)
	if err != nil {
		return nil, err
	}
	q := Query{Filters: args.Filters, Page: broker.PageRequest{OldestFirst: args.Order == broker.CreatedAscending}}
	q.Page.Number, q.Page.Size = clamp(args.PageNumber, 1, 1<<30), clamp(args.PageSize, broker.DefaultPageSize, broker.MaxPageSize)
	if q.CreatedAfter, err = moment("createdAfter", args.CreatedAfter); err != nil {
		return nil, err
	}
	if q.CreatedBefore, err = moment("createdBefore", args.CreatedBefore); err != nil {
		return nil, err
	}
	q.Page = q.Page.Normal()
	return entity.List(q)
}

// entity finds a type by its name. A type of whose kind this broker keeps no
// records is unknown here: an empty page would say that there are none.
func (s *Service) entity(name string) (Entity, error) {
	name = strings.ToLower(strings.TrimSpace(name))
	valid := make([]string, 0, len(s.entities))
	for _, e := range s.entities {
		if slices.Contains(e.Names[:], name) {
			return e, nil
		}
		valid = append(valid, e.Names[0])
	}
	slices.Sort(valid)
	return Entity{}, broker.Refuse(broker.CodeUnknownEntityType, "This broker keeps no records of this type.", map[string]any{"ValidTypes": valid})
}

func clamp(n *float64, otherwise, high int) int {
	if n == nil {
		return otherwise
	}
	return int(min(max(*n, 1), float64(high)))
}

func moment(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, unfit("/"+name, "a time such as 2026-05-04T09:12:00Z")
	}
	return t, nil
}

func unfit(path, wanted string) error {
	return broker.Refuse(broker.CodeInvalidArguments, "The arguments do not fit this verb.",
		map[string]any{"Violations": []map[string]string{{"Path": path, "Problem": "wanted " + wanted}}})
}

// EventRow is an event in a list of enumerate: what is not there is left out,
// and the payload is its length unless it was asked for.
type EventRow struct {
	ID            *string `json:"Id,omitempty"`
	EventType     string
	EntityType    *string `json:",omitempty"`
	EntityID      *string `json:"EntityId,omitempty"`
	TenantID      *string `json:"TenantId,omitempty"`
	CaptainID     *string `json:"CaptainId,omitempty"`
	MissionID     *string `json:"MissionId,omitempty"`
	VesselID      *string `json:"VesselId,omitempty"`
	VoyageID      *string `json:"VoyageId,omitempty"`
	Message       *string `json:",omitempty"`
	Payload       *string `json:",omitempty"`
	PayloadLength *int    `json:",omitempty"` // in bytes
	CreatedUTC    *string `json:"CreatedUtc,omitempty"`
}

func (s *Service) listEvents(q Query) (any, error) {
	page, err := s.opts.Events.List(broker.EventQuery{EventType: q.EventType, CaptainID: q.CaptainID, MissionID: q.MissionID, VesselID: q.VesselID,
		VoyageID: q.VoyageID, JobID: q.JobID, CreatedAfter: q.CreatedAfter, CreatedBefore: q.CreatedBefore}, q.Page)
	if err != nil {
		return nil, err
	}
	out := broker.Page[EventRow]{Success: true, PageNumber: page.PageNumber, PageSize: page.PageSize, TotalPages: page.TotalPages,
		TotalRecords: page.TotalRecords, TotalMS: page.TotalMS, Objects: []EventRow{}}
	for _, e := range page.Objects {
		row := EventRow{ID: e.ID, EventType: e.EventType, EntityType: e.EntityType, EntityID: e.EntityID, TenantID: e.TenantID, CaptainID: e.CaptainID,
			MissionID: e.MissionID, VesselID: e.VesselID, VoyageID: e.VoyageID, Message: e.Message, CreatedUTC: e.CreatedUTC}
		switch {
		case e.Payload == nil:
		case q.IncludePayload:
			row.Payload = e.Payload
		default:
			n := len(*e.Payload)
			row.PayloadLength = &n
		}
		out.Objects = append(out.Objects, row)
	}
	return out, nil
}

// jobStatuses are the words of the filter.
var jobStatuses = []broker.JobStatus{broker.JobAccepted, broker.JobRunning, broker.JobSucceeded, broker.JobFailed, broker.JobLost}

func (s *Service) listJobs(q Query) (any, error) {
	began := s.opts.Now()
	filter := broker.JobFilter{VesselID: q.VesselID, SubmittedAfter: q.CreatedAfter, SubmittedBefore: q.CreatedBefore, KeptAt: began}
	if q.Status != "" {
		at := slices.IndexFunc(jobStatuses, func(s broker.JobStatus) bool { return strings.EqualFold(q.Status, string(s)) })
		if at < 0 {
			return nil, broker.Refuse(broker.CodeInvalidStatus, "There is no such job status.", map[string]any{"Statuses": jobStatuses})
		}
		filter.Status = jobStatuses[at]
	}
	jobs, total, err := s.pageOfJobs(filter, q)
	if err != nil {
		return nil, native.Unreadable(s.opts.Log, err)
	}
	rows := make([]json.RawMessage, 0, len(jobs))
	for _, j := range jobs {
		rows = append(rows, j.Row())
	}
	return broker.NewPage(q.Page, rows, total, s.opts.Now().Sub(began)), nil
}

func (s *Service) pageOfJobs(filter broker.JobFilter, q Query) ([]broker.Job, int, error) {
	if q.JobID != "" {
		j, err := s.opts.Jobs.Job(q.JobID)
		switch {
		case errors.Is(err, broker.ErrJobNotFound):
			return nil, 0, nil
		case err != nil:
			return nil, 0, err
		case !filter.Match(j):
			return nil, 0, nil
		case q.Page.Number > 1:
			return nil, 1, nil
		}
		return []broker.Job{j}, 1, nil
	}
	filter.Limit, filter.Offset = q.Page.Size, q.Page.Offset()
	if !q.Page.OldestFirst {
		page, err := s.opts.Jobs.Jobs(filter)
		return page.Jobs, page.Total, err
	}
	// The list begins with the newest; the page is counted from its other end. A
	// job that comes meanwhile moves it by one.
	all, err := s.opts.Jobs.Jobs(broker.JobFilter{VesselID: filter.VesselID, Status: filter.Status, SubmittedAfter: filter.SubmittedAfter,
		SubmittedBefore: filter.SubmittedBefore, KeptAt: filter.KeptAt, Limit: 1})
	if err != nil || filter.Offset >= all.Total {
		return nil, all.Total, err
	}
	end := all.Total - filter.Offset
	filter.Offset, filter.Limit = max(0, end-q.Page.Size), min(end, q.Page.Size)
	page, err := s.opts.Jobs.Jobs(filter)
	slices.Reverse(page.Jobs)
	return page.Jobs, all.Total, err
}
