package broker

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Event is something that happened and is written in the transaction of its
// cause. An empty string is what is not known or does not apply.
type Event struct {
	ID         string `json:"Id"`
	EventType  string `json:"EventType"`
	EntityType string `json:"EntityType"`
	EntityID   string `json:"EntityId"`
	TenantID   string `json:"TenantId"`
	CaptainID  string `json:"CaptainId,omitempty"`
	MissionID  string `json:"MissionId,omitempty"`
	VesselID   string `json:"VesselId,omitempty"`
	VoyageID   string `json:"VoyageId,omitempty"`
	Message    string `json:"Message"`
	// Payload is one JSON value; empty: there is none.
	Payload   json.RawMessage `json:"Payload,omitempty"`
	CreatedAt time.Time       `json:"CreatedUtc"`
}

// The events of a job (contracts/native.md section 8).
const (
	EventJobFailed = "job.failed"
	EventJobLost   = "job.lost"
	// EventJobDelayed warns that a write of a job has to be repeated.
	EventJobDelayed = "job.journal_delayed"
	// EventJobCancel notes who asked for the end of a job, and why.
	EventJobCancel = "job.cancel_requested"
	// EventJobChanged tells a live reader of a change; it is never journalled.
	EventJobChanged = "job.changed"
	// EventGap stands in a stream for events that it cannot give again.
	EventGap = "event.gap"
)

// The events of the catalog (contracts/catalog.md section 1): a verb that is not
// served as its backend lists it, and one that its backend now lists otherwise.
const (
	EventVerbQuarantined = "catalog.verb_quarantined"
	EventVerbChanged     = "catalog.verb_changed"
)

// EventView is an event as it is shown: null for what is not there, the payload
// as JSON text (contracts/native.md section 8).
type EventView struct {
	ID         *string `json:"Id"` // null: it is told live and stands in no journal
	EventType  string  `json:"EventType"`
	EntityType *string `json:"EntityType"`
	EntityID   *string `json:"EntityId"`
	TenantID   *string `json:"TenantId"`
	CaptainID  *string `json:"CaptainId"`
	MissionID  *string `json:"MissionId"`
	VesselID   *string `json:"VesselId"`
	VoyageID   *string `json:"VoyageId"`
	Message    *string `json:"Message"`
	Payload    *string `json:"Payload"`
	CreatedUTC *string `json:"CreatedUtc"` // null: the stored event cannot be read
}

// View is the full record.
func (e Event) View() EventView {
	v := EventView{ID: textPtr(e.ID), EventType: e.EventType, EntityType: textPtr(e.EntityType), EntityID: textPtr(e.EntityID),
		TenantID: textPtr(e.TenantID), CaptainID: textPtr(e.CaptainID), MissionID: textPtr(e.MissionID), VesselID: textPtr(e.VesselID),
		VoyageID: textPtr(e.VoyageID), Message: textPtr(e.Message), Payload: textPtr(string(e.Payload))}
	if !e.CreatedAt.IsZero() {
		v.CreatedUTC = formatTimePtr(&e.CreatedAt)
	}
	return v
}

// FirstCursor is an event id that is before every other.
const FirstCursor = EventPrefix + "00000000_00000000000"

// EventIDTime is the time in the id of an event; false when it is no such id.
func EventIDTime(id string) (time.Time, bool) {
	stamp, rest, found := strings.Cut(strings.TrimPrefix(id, EventPrefix), "_")
	if !strings.HasPrefix(id, EventPrefix) || len(id) != idLength || !found || len(stamp) < 8 {
		return time.Time{}, false
	}
	for _, c := range stamp + rest {
		if !strings.ContainsRune(alphanumerics, c) {
			return time.Time{}, false
		}
	}
	ms, err := strconv.ParseInt(stamp, 36, 64)
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(ms), true
}

// EventQuery selects events of a list; zero fields select everything.
type EventQuery struct {
	EventType, EntityType, EntityID          string
	CaptainID, MissionID, VesselID, VoyageID string
	JobID                                    string // of a job's events, and of its end on an objective
	TenantID                                 string
	CreatedAfter, CreatedBefore              time.Time // at or after, before
	OldestFirst                              bool
	Limit                                    int // 0: no limit
	Offset                                   int
}

// Match reports whether e is selected; Limit, Offset and order are the lister's.
func (q EventQuery) Match(e Event) bool {
	for _, f := range [...][2]string{{q.EventType, e.EventType}, {q.EntityType, e.EntityType}, {q.EntityID, e.EntityID},
		{q.CaptainID, e.CaptainID}, {q.MissionID, e.MissionID}, {q.VesselID, e.VesselID}, {q.VoyageID, e.VoyageID}, {q.TenantID, e.TenantID}} {
		if f[0] != "" && f[0] != f[1] {
			return false
		}
	}
	return (q.JobID == "" || e.ofJob(q.JobID)) &&
		(q.CreatedAfter.IsZero() || !e.CreatedAt.Before(q.CreatedAfter)) &&
		(q.CreatedBefore.IsZero() || e.CreatedAt.Before(q.CreatedBefore))
}

// ofJob: the end of a job that serves an objective is told on that, with the
// job's id in front of the message.
func (e Event) ofJob(id string) bool {
	if e.EntityType == "job" {
		return e.EntityID == id
	}
	return (e.EventType == EventJobFailed || e.EventType == EventJobLost) && strings.HasPrefix(e.Message, id+": ")
}

// EventPage is one page of a list.
type EventPage struct {
	Events []Event
	Total  int // that match, over all pages
	// Cursor is the last event that the journal held before the list was read:
	// a stream from there gives what came after it.
	Cursor string
}

// EventRun is what follows a cursor, oldest first.
type EventRun struct {
	Events []Event
	// Last is the id of the last event that the journal holds; FirstCursor when
	// it holds none.
	Last string
	// More is true when a limit ended the run before Last.
	More bool
}
