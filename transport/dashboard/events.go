package dashboard

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const eventsAPage = 50

// event is an event as GET /api/v1/events gives it.
type event struct {
	ID         string `json:"Id"`
	EventType  string
	EntityType string
	EntityID   string `json:"EntityId"`
	TenantID   string `json:"TenantId"`
	Message    string
	Payload    json.RawMessage
	CreatedUTC string `json:"CreatedUtc"`

	created time.Time
}

type eventPage struct {
	Objects      []event
	TotalRecords int
	TotalPages   int
}

func (d *Dashboard) eventsOf(r *http.Request, query url.Values) (eventPage, error) {
	var found eventPage
	if err := d.get(r, "/api/v1/events", query, &found); err != nil {
		return found, err
	}
	for i := range found.Objects {
		// The payload is JSON text: a string that holds JSON.
		if text := ""; json.Unmarshal(found.Objects[i].Payload, &text) == nil {
			found.Objects[i].Payload = json.RawMessage(text)
		}
		if t, err := time.Parse(time.RFC3339, found.Objects[i].CreatedUTC); err == nil {
			found.Objects[i].created = t
		}
	}
	return found, nil
}

// historyOf lists the events of a job, oldest first; none where this broker
// lists no events.
func (d *Dashboard) historyOf(r *http.Request, id string) ([]event, error) {
	if !d.has["GET /api/v1/events"] {
		return nil, nil
	}
	found, err := d.eventsOf(r, url.Values{"jobId": {id}, "pageSize": {"100"}, "order": {"CreatedAscending"}})
	return found.Objects, err
}

type eventRow struct {
	event
	At   *moment
	Link string
}

func (d *Dashboard) events(r *http.Request) (*page, error) {
	q := r.URL.Query()
	at := pageNumber(q)
	kind, entity := filterText(q, "type"), filterText(q, "entity")
	query := url.Values{"pageNumber": {strconv.Itoa(at)}, "pageSize": {strconv.Itoa(eventsAPage)}, "includePayload": {"true"}, "includeMessage": {"true"}}
	if kind != "" {
		query.Set("eventType", kind)
	}
	if entity != "" {
		query.Set("entityId", entity)
	}
	found, err := d.eventsOf(r, query)
	if err != nil {
		return nil, err
	}
	rows := make([]eventRow, 0, len(found.Objects))
	for _, e := range found.Objects {
		row := eventRow{event: e, At: d.moment(e.created)}
		switch e.EntityType {
		case "job", "voyage", "mission":
			row.Link = "/" + e.EntityType + "s/" + url.PathEscape(e.EntityID)
		}
		rows = append(rows, row)
	}
	return &page{Title: "Journal events", At: "/events", Parts: []part{
		{ID: "filter", Name: "eventfilter", Data: map[string]any{"Type": kind, "Entity": entity}},
		{ID: "events", Name: "events", Live: at == 1, Data: map[string]any{"Rows": rows,
			"Pager": pages(r, at, eventsAPage, len(rows), at < found.TotalPages), "Total": found.TotalRecords}},
	}}, nil
}
