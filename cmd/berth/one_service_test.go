package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"berth/transport/statedir"
)

// operator sends one request to the operator API of the house's broker.
func (h *house) operator(method, path, body string) (int, http.Header, []byte) {
	h.t.Helper()
	addr, token, err := statedir.Discover(h.state)
	must(h.t, err)
	r, err := http.NewRequestWithContext(h.t.Context(), method, "http://"+addr+path, strings.NewReader(body))
	must(h.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	must(h.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	must(h.t, err)
	return resp.StatusCode, resp.Header, answer
}

// happened gives the ids of the events, newest first.
func (h *house) happened() (ids []string) {
	h.t.Helper()
	var page struct{ Objects []struct{ ID string } }
	must(h.t, h.api("/api/v1/events?pageSize=100", nil, &page))
	for _, e := range page.Objects {
		ids = append(ids, e.ID)
	}
	return ids
}

// One service decides a change: the tool and the REST twin answer one payload
// with one code and one body.
func TestAToolAndItsTwinAnswerAlike(t *testing.T) {
	h := newHouse(t)
	must(t, h.start())
	w := newWire(h, "twin")
	for range 4 {
		h.operator("GET", "/api/v1/backup", "")
	}
	ids := h.happened()
	if len(ids) != 4 {
		t.Fatalf("%d events", len(ids))
	}
	for _, tc := range []struct {
		name, tool, byTool, byREST string
		status                     int
		code                       string
	}{
		{"an event", "delete_event", ids[0], ids[1], 200, ""},
		{"an event by the older name", "armada_delete_event", ids[2], ids[3], 200, ""},
		{"one that was deleted", "delete_event", ids[0], ids[0], 404, "event_not_found"},
		{"one that never was", "delete_event", "evt_none", "evt_none", 404, "event_not_found"},
		{"no event", "delete_event", " ", "%20", 400, "missing_event_id"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tool, err := w.call(t.Context(), tc.tool, map[string]any{"eventId": tc.byTool}, "")
			must(t, err)
			status, _, body := h.operator("DELETE", "/api/v1/events/"+tc.byREST, "")
			if status != tc.status || tool.Code != tc.code || tool.IsError != (tc.code != "") {
				t.Fatalf("REST answers %d %s, the tool %s", status, body, tool.Text)
			}
			twin := bytes.TrimSpace(body)
			if tc.code != "" {
				var refused struct {
					Code string
					Data json.RawMessage
				}
				must(t, json.Unmarshal(body, &refused))
				if twin = refused.Data; refused.Code != tc.code {
					t.Errorf("REST says %s", refused.Code)
				}
			}
			// A refusal of arguments comes to a tool's caller with a call that fits.
			tool.Text = strings.Replace(tool.Text, `,"MinimalCall":{"eventId":"<eventId>"}`, "", 1)
			if twin = bytes.ReplaceAll(twin, []byte(tc.byREST), []byte(tc.byTool)); string(twin) != tool.Text {
				t.Errorf("REST: %s\ntool: %s", twin, tool.Text)
			}
		})
	}
	if left := h.happened(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	inbox, err := w.call(t.Context(), "inbox", map[string]any{}, "")
	must(t, err)
	if _, _, bare := h.operator("GET", "/api/v1/inbox", ""); inbox.Text != `{"count":0,"criticalCount":0,"warningCount":0,"items":`+string(bytes.TrimSpace(bare))+`}` {
		t.Errorf("REST: %s\ntool: %s", bare, inbox.Text)
	}
}

// The answers of a real broker are what its own document says of them.
func TestARunningBrokerAnswersAsItsDocumentSays(t *testing.T) {
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{"fx": h.fixtureEntry(nil)}})
	must(t, h.start())
	w := newWire(h, "reader")
	r, err := w.call(t.Context(), "fx__echo", map[string]any{"text": "x"}, "k1")
	must(t, err)
	if r.JobID == "" {
		t.Fatalf("no job: %s", r.Text)
	}
	_, err = w.follow(t.Context(), r.JobID)
	must(t, err)
	f := newFleet(h, "None")
	voyage := f.dispatch(`{"title":"work","description":"Work."}`)
	mission := voyage.MissionStartRefs[0].MissionID
	f.ended(mission)
	ids := map[string]string{"/api/v1/vessels/": f.vessel, "/api/v1/captains/": f.captain, "/api/v1/voyages/": voyage.ID, "/api/v1/missions/": mission, "/api/v1/docks/": pointed(f.mission(mission).DockID)}
	_, _, text := h.operator("GET", "/api/v1/openapi.json", "")
	doc, err := openapi3.NewLoader().LoadFromData(text)
	must(t, err)
	for _, media := range []string{"application/x-ndjson", "application/zip"} {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.FileBodyDecoder)
	}
	for path, item := range doc.Paths.Map() {
		if item.Get == nil || strings.HasSuffix(path, "/stream") {
			continue // a stream does not end; transport/rest reads it
		}
		id := r.JobID
		for begin, known := range ids {
			if strings.HasPrefix(path, begin) {
				id = known
			}
		}
		url := strings.NewReplacer("{id}", id, "{name}", "fx").Replace(path)
		status, header, body := h.operator("GET", url, "")
		if status != http.StatusOK {
			t.Errorf("%s: status %d, body %s", url, status, body)
		}
		request, err := http.NewRequest("GET", url, nil)
		must(t, err)
		err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
			Status: status, Header: header, Body: io.NopCloser(bytes.NewReader(body)), Options: &openapi3filter.Options{IncludeResponseStatus: true},
			RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request,
				Route: &routers.Route{Spec: doc, Path: path, PathItem: item, Method: "GET", Operation: item.Get}}})
		if err != nil {
			t.Errorf("%s answers against its description: %v\n%s", url, err, body)
		}
	}
}
