package rest

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/transport/httpguard"
)

// shown is a broker with one catalog and nothing else; what reaches it is noted.
type shown struct {
	snapshot *catalog.Snapshot
	called   []string
}

func (s *shown) Catalog() *catalog.Snapshot                             { return s.snapshot }
func (s *shown) AwaitCatalog(context.Context, string) *catalog.Snapshot { return s.snapshot }
func (s *shown) WhyPending(b []string) *broker.Refusal                  { return broker.CatalogPending(b) }
func (s *shown) Sessions() []actors.SessionView                         { return nil }
func (s *shown) Backends(context.Context) []actors.BackendView          { return nil }
func (s *shown) Do(_ context.Context, r actors.Request) actors.Reply {
	s.called = append(s.called, r.Call.Verb)
	return actors.Reply{Answer: &broker.Answer{Result: json.RawMessage(`{"content":[]}`)}}
}

// registry is a catalog in which one verb is an administrator's, and one is not
// served over REST; without them it lacks those two.
func registry(t *testing.T, without bool) *catalog.Snapshot {
	t.Helper()
	tool := func(name string) broker.Tool {
		return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","description":"About ` + name + `.","inputSchema":{"type":"object"}}`)}
	}
	own := catalog.Source{Backend: catalog.NativeName, Native: true, Family: "f", Listed: true, Tools: []broker.Tool{tool("look")},
		Effects: map[string]broker.Effects{"look": broker.Read, "purge": broker.Read, "spoken": broker.Read},
		Facts:   map[string]catalog.Facts{"purge": {Scope: []broker.Role{broker.GlobalAdministrator}}, "spoken": {Transports: []catalog.Transport{catalog.OverMCP}}}}
	if !without {
		own.Tools = append(own.Tools, tool("purge"), tool("spoken"))
	}
	s, faults := catalog.Build(1, []catalog.Source{own, {Backend: "files", Listed: true, Tools: []broker.Tool{tool("read")}}})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return s
}

// as asks every route whatever the role: who may use a route is another matter.
func as(role broker.Role, s *shown) http.Handler {
	a := &api{Options: Options{Calls: s, Views: s, CatalogWait: time.Second, Now: time.Now, Log: slog.New(slog.DiscardHandler), CallID: countingIDs(),
		KeepAlive: time.Minute, Surface: func(p *catalog.Profile) any { return p.Required() }}, waiting: make(chan struct{}, 4)}
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.Handle(r.Method+" "+r.Path, r.handler(a))
	}
	return httpguard.New(httpguard.Options{Authenticate: func(httpguard.Kind, string) (broker.Caller, bool) {
		return broker.Caller{Principal: broker.Principal{Tenant: "default", User: "u", Role: role}}, true
	}}).Wrap(mux)
}

func answerTo(h http.Handler, method, path, body string) string {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer t")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String()
}

// TestARoleIsShownWhatARegistryWithoutTheRestHas: lists, profiles and refusals
// tell a user nothing of a verb that is denied to him.
func TestARoleIsShownWhatARegistryWithoutTheRestHas(t *testing.T) {
	all, less := &shown{snapshot: registry(t, false)}, &shown{snapshot: registry(t, true)}
	// Over MCP a verb that is not served here is served, so only lists differ.
	lists := []string{"/api/v1/tools?profile=full", "/api/v1/catalog", "/api/v1/profiles/full", "/api/v1/catalog/surface?profile=full", "/api/v1/profiles/berth"}
	for _, path := range lists {
		body := answerTo(as(broker.User, all), "GET", path, "")
		if strings.Contains(body, "purge") || (strings.Contains(path, "tools") && !strings.Contains(body, "look")) {
			t.Errorf("a user is shown by %s: %s", path, body)
		}
		if body := answerTo(as(broker.GlobalAdministrator, all), "GET", path, ""); !strings.Contains(path, "surface") && !strings.Contains(body, "purge") {
			t.Errorf("an administrator is not shown by %s: %s", path, body)
		}
		if body := answerTo(as("", all), "GET", path, ""); strings.Contains(body, "look") {
			t.Errorf("nobody is shown by %s: %s", path, body)
		}
	}
	for _, name := range []string{"purge", "berth__purge", "spoken", "prge"} {
		call := `{"Name":"` + name + `"}`
		with, without := answerTo(as(broker.User, all), "POST", "/api/v1/calls", call), answerTo(as(broker.User, less), "POST", "/api/v1/calls", call)
		if with != without || !strings.Contains(with, "verb_unknown") {
			t.Errorf("%s: %s\nwithout it: %s", name, with, without)
		}
	}
	if len(all.called) > 0 {
		t.Errorf("called %q", all.called)
	}
	if answerTo(as(broker.GlobalAdministrator, all), "POST", "/api/v1/calls", `{"Name":"purge"}`); len(all.called) != 1 {
		t.Errorf("an administrator's call: %q", all.called)
	}
}
