package codeindex_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
	"berth/broker/native/codeindex"
	"berth/broker/native/nativetest"
)

// deck is a world with a mission under way on its vessel.
type deck struct {
	*world
	log strings.Builder
	// search answers in the place of the world's.
	search func(ctx context.Context) error
}

func newDeck(t *testing.T, captains codeindex.CaptainSearch) *deck {
	d := &deck{world: newWorld(t)}
	d.built = indexed("c1", d.clock)
	d.family = codeindex.New(d.world, d, d, codeindex.Options{Options: native.Options{Now: func() time.Time { return d.clock }, Log: slog.New(slog.NewTextHandler(&d.log, nil))},
		Missions: d.world, Captains: captains, Counter: wordCounter{}, Within: context.WithTimeout})
	d.mission("msn_a", "vsl_a", dispatch.MissionInProgress)
	return d
}

func (d *deck) mission(id, vessel string, status dispatch.MissionStatus) {
	d.t.Helper()
	raw, err := json.Marshal(dispatch.Mission{ID: id, Owner: dispatch.Owner{TenantID: "default", UserID: "u"}, VesselID: vessel, Status: status})
	if err != nil {
		d.t.Fatal(err)
	}
	d.rows[dispatch.KindMission+id] = broker.Record{Kind: dispatch.KindMission, ID: id, Revision: 1, Value: raw}
}

func (d *deck) Search(ctx context.Context, id string, q *codeindex.Query, only codeindex.Filter) ([]codeindex.Hit, codeindex.Built, error) {
	if d.search != nil {
		if err := d.search(ctx); err != nil {
			return nil, codeindex.Built{}, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.world.Search(ctx, id, q, only)
}

// deckAnswer is what a mission's search answers.
type deckAnswer struct {
	Available         bool
	UnavailableReason string
	Message           string
	Readiness         *struct{ VesselID, Freshness, Remedy string }
	VesselID          string `json:"VesselId"`
	Index             struct {
		Freshness, IndexedCommitSha string
		SemanticSearch              bool
	}
	Results []struct {
		Path    string
		Content *string
	}
	Warnings           []string
	CallsUsed          int
	MaxCallsPerMission int
	Error              string
}

func (d *deck) asks(who broker.Principal, arguments string) deckAnswer {
	d.t.Helper()
	return decoded[deckAnswer](d.t, nativetest.Call(d.t, d.family.Verbs, who, "mission_code_search", arguments))
}

func decoded[A any](t *testing.T, text string) (a A) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return a
}

const aSearch = `{"missionId":"msn_a","query":"aName"}`

var agent = broker.Principal{Tenant: "default", User: "u", Role: broker.User, Mission: "msn_a"}

func TestAMissionSearchesItsVessel(t *testing.T) {
	d := newDeck(t, codeindex.CaptainSearch{})
	a := d.asks(agent, `{"missionId":"msn_a","query":"aName","limit":"500","pathPrefix":"./src","language":"Go","includeContent":true}`)
	if !a.Available || a.VesselID != "vsl_a" || a.Index.Freshness != "Fresh" || a.Index.IndexedCommitSha != "c1" || a.Index.SemanticSearch || a.CallsUsed != 1 || a.MaxCallsPerMission != 40 ||
		len(a.Results) != 1 || a.Results[0].Path != "a.go" || a.Results[0].Content == nil {
		t.Errorf("%+v", a)
	}
	if want := (codeindex.Filter{PathPrefix: "src", Language: "go", Limit: 10}); d.only != want {
		t.Errorf("asked for %+v, want %+v", d.only, want)
	}
	if len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "no search by meaning") {
		t.Errorf("%q", a.Warnings)
	}
	if a = d.asks(agent, aSearch); a.CallsUsed != 2 || a.Results[0].Content != nil {
		t.Errorf("%+v", a)
	}
	d.built = indexed("c0", d.clock)
	if a = d.asks(agent, aSearch); !a.Available || a.Index.Freshness != "Stale" || len(a.Warnings) != 2 || !strings.Contains(a.Warnings[0], "c0") || !strings.Contains(a.Warnings[0], "c1") {
		t.Errorf("%+v", a)
	}
}

func TestASearchOfAMissionThatCannotBeIsAnsweredAndIsNoError(t *testing.T) {
	for name, tt := range map[string]struct {
		captains  codeindex.CaptainSearch
		set       func(d *deck)
		who       broker.Principal
		arguments string
		want      string
	}{
		"no mission":       {arguments: `{"query":"x"}`, want: "invalid"},
		"a blank mission":  {arguments: `{"missionId":"  ","query":"x"}`, want: "invalid"},
		"no query":         {arguments: `{"missionId":"msn_a"}`, want: "invalid"},
		"nothing":          {arguments: `{}`, want: "invalid"},
		"no language":      {arguments: `{"missionId":"msn_a","query":"x","language":"klingon"}`, want: "invalid"},
		"switched off":     {captains: codeindex.CaptainSearch{Disabled: true}, want: "disabled"},
		"unknown":          {arguments: `{"missionId":"msn_x","query":"x"}`, want: "mission_not_found"},
		"another tenant's": {who: broker.Principal{Tenant: "t2", User: "u", Role: broker.TenantAdministrator}, want: "mission_not_found"},
		"of another mission's agent": {set: func(d *deck) { d.mission("msn_b", "vsl_a", dispatch.MissionInProgress) },
			arguments: `{"missionId":"msn_b","query":"x"}`, want: "mission_not_found"},
		"not begun":                {set: func(d *deck) { d.mission("msn_a", "vsl_a", dispatch.MissionPending) }, want: "mission_not_active"},
		"ended":                    {set: func(d *deck) { d.mission("msn_a", "vsl_a", dispatch.MissionComplete) }, want: "mission_not_active"},
		"without a vessel":         {set: func(d *deck) { d.mission("msn_a", "", dispatch.MissionInProgress) }, want: "no_vessel"},
		"of a vessel that is gone": {set: func(d *deck) { d.mission("msn_a", "vsl_gone", dispatch.MissionAssigned) }, want: "no_vessel"},
		"never indexed":            {set: func(d *deck) { d.built = nil }, want: "index_missing"},
		"a failed index":           {set: func(d *deck) { d.broken = errors.New("it is damaged") }, want: "index_error"},
		"a search that fails":      {set: func(d *deck) { d.search = func(context.Context) error { return errors.New("secret cause") } }, want: "exception"},
		"a journal that fails":     {set: func(d *deck) { d.rows[dispatch.KindMission+"msn_a"] = broker.Record{Value: json.RawMessage(`{`)} }, want: "exception"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeck(t, tt.captains)
			if tt.set != nil {
				tt.set(d)
			}
			who, arguments := tt.who, tt.arguments
			if who == (broker.Principal{}) {
				who = agent
			}
			if arguments == "" {
				arguments = aSearch
			}
			a := d.asks(who, arguments)
			if a.Available || a.UnavailableReason != tt.want || a.Message == "" || a.Error != "" || a.Results != nil || strings.Contains(a.Message, "secret") {
				t.Fatalf("%+v, want %s", a, tt.want)
			}
			if index := strings.HasPrefix(tt.want, "index_"); index != (a.Readiness != nil) || index && (a.Readiness.VesselID != "vsl_a" || !strings.Contains(a.Readiness.Remedy, "index_update")) {
				t.Errorf("%+v", a.Readiness)
			}
			if tt.want == "exception" && !strings.Contains(d.log.String(), "a search of a mission failed") {
				t.Errorf("the log: %s", d.log.String())
			}
			// Only calls that search count.
			d.search, d.built, d.broken = nil, indexed("c1", d.clock), nil
			d.mission("msn_a", "vsl_a", dispatch.MissionInProgress)
			if a := d.asks(agent, aSearch); !tt.captains.Disabled && a.CallsUsed != 1 {
				t.Errorf("the first search is call %d", a.CallsUsed)
			}
		})
	}
}

func TestNoArgumentReachesAnotherVessel(t *testing.T) {
	d := newDeck(t, codeindex.CaptainSearch{})
	a := d.asks(agent, `{"missionId":"msn_a","query":"x","vesselId":"vsl_b"}`)
	if !a.Available || a.VesselID != "vsl_a" {
		t.Errorf("%+v", a)
	}
	for _, tool := range d.family.Source().Tools {
		if tool.Name == "mission_code_search" && strings.Contains(string(tool.Raw), "vesselId") {
			t.Error("the schema has a vessel")
		}
	}
}

func TestTheFortyFirstSearchOfAMissionIsOverItsBudget(t *testing.T) {
	d := newDeck(t, codeindex.CaptainSearch{})
	d.mission("msn_b", "vsl_a", dispatch.MissionInProgress)
	var all sync.WaitGroup
	used := make(chan int, 100)
	for range 50 { // also when they come at once
		all.Go(func() {
			if a := d.asks(agent, aSearch); a.Available {
				used <- a.CallsUsed
			} else if a.UnavailableReason != "budget" {
				t.Errorf("%+v", a)
			}
		})
	}
	all.Wait()
	close(used)
	counted := map[int]bool{}
	for n := range used {
		counted[n] = true
	}
	if want := 40; len(counted) != want || slices.Max(slices.Collect(maps.Keys(counted))) != want {
		t.Errorf("%d searched: %v", len(counted), counted)
	}
	if a := d.asks(agent, aSearch); a.UnavailableReason != "budget" {
		t.Errorf("%+v", a)
	}
	if a := d.asks(broker.LocalOperator, `{"missionId":"msn_b","query":"x"}`); !a.Available || a.CallsUsed != 1 {
		t.Errorf("another mission: %+v", a)
	}
}

func TestBudgetsAreForgottenOldestFirst(t *testing.T) {
	d := newDeck(t, codeindex.CaptainSearch{MaxCalls: 1})
	for i := range 4097 {
		id := fmt.Sprintf("msn_%04d", i)
		d.mission(id, "vsl_a", dispatch.MissionInProgress)
		if a := d.ask("mission_code_search", `{"missionId":"`+id+`","query":"x"}`); a["Available"] != true {
			t.Fatalf("%s: %+v", id, a)
		}
	}
	for id, want := range map[string]bool{"msn_0000": true, "msn_4096": false} {
		if a := d.asks(broker.LocalOperator, `{"missionId":"`+id+`","query":"x"}`); a.Available != want {
			t.Errorf("%s: %+v", id, a)
		}
	}
}

func TestAnIndexThatCannotServeIsToldOnceAnHourAndVessel(t *testing.T) {
	d := newDeck(t, codeindex.CaptainSearch{})
	d.built = nil
	ask := func() {
		t.Helper()
		if a := d.asks(agent, aSearch); a.UnavailableReason != "index_missing" {
			t.Fatalf("%+v", a)
		}
	}
	told := func() (n int) {
		for _, e := range d.events {
			if e.EventType == "code_index.search_unavailable" && e.VesselID == "vsl_a" && e.TenantID == "default" && strings.Contains(string(e.Payload), "index_update") {
				n++
			}
		}
		return n
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(ask)
	}
	all.Wait()
	if told() != 1 {
		t.Errorf("told %d times", told())
	}
	d.clock = d.clock.Add(59 * time.Minute)
	ask()
	if told() != 1 {
		t.Errorf("told %d times within the hour", told())
	}
	d.clock = d.clock.Add(2 * time.Minute)
	ask()
	ask()
	if told() != 2 {
		t.Errorf("told %d times in the next hour", told())
	}
	d.failPut = errors.New("the disk is full")
	d.clock = d.clock.Add(2 * time.Hour)
	ask()
	if !strings.Contains(d.log.String(), "could not be recorded") {
		t.Errorf("the log: %s", d.log.String())
	}
}

func TestAFirstUpdateIsWaitedForAndNotComplainedOf(t *testing.T) {
	d := newDeck(t, codeindex.CaptainSearch{})
	d.built = nil
	var during deckAnswer
	d.update = func(func(codeindex.Progress)) (codeindex.Built, []string, error) {
		during = d.asks(agent, aSearch)
		return *indexed("c1", d.clock), nil, nil
	}
	d.ask("index_update", vessel)
	if during.UnavailableReason != "index_missing" || !strings.Contains(during.Message, "being built") || during.Readiness == nil || during.Readiness.Freshness != "Updating" {
		t.Errorf("%+v", during)
	}
	for _, e := range d.events {
		if e.EventType == "code_index.search_unavailable" {
			t.Errorf("%+v", e)
		}
	}
	if a := d.asks(agent, aSearch); !a.Available {
		t.Errorf("%+v", a)
	}
}

func TestASearchThatTakesTooLongIsAnswered(t *testing.T) {
	d := newDeck(t, codeindex.CaptainSearch{})
	var limit time.Duration
	d.family = codeindex.New(d.world, d, d, codeindex.Options{Options: native.Options{Now: func() time.Time { return d.clock }}, Missions: d.world,
		Within: func(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
			limit = within
			return context.WithTimeout(ctx, 0)
		}})
	d.search = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	if a := d.asks(agent, aSearch); a.UnavailableReason != "exception" || !strings.Contains(a.Message, "too long") || limit <= 0 || limit >= 45*time.Second {
		t.Errorf("%+v within %s", a, limit)
	}
}

func TestWithoutMissionsTheVerbIsNotThere(t *testing.T) {
	w := newWorld(t)
	for _, tool := range w.family.Source().Tools {
		if tool.Name == "mission_code_search" || tool.Name == "context_pack" {
			t.Errorf("%s is listed", tool.Name)
		}
	}
	scopes := newDeck(t, codeindex.CaptainSearch{}).family.Source().Facts
	if len(scopes["mission_code_search"].Scope) != 0 || len(scopes["context_pack"].Scope) != 1 {
		t.Errorf("%+v", scopes)
	}
}

func TestDispatchLearnsOfTheIndex(t *testing.T) {
	d := newDeck(t, codeindex.CaptainSearch{})
	d.jobs = []broker.Job{{ID: "job_1", CallID: "call-1", VesselID: "vsl_a", Operation: codeindex.Operation, Status: broker.JobRunning}}
	a := dispatch.Vessel{ID: "vsl_a"}
	for _, tt := range []struct {
		set  func()
		want dispatch.IndexState
	}{
		{func() {}, dispatch.IndexState{Freshness: dispatch.IndexFresh}},
		{func() { d.current = "c2" }, dispatch.IndexState{Freshness: dispatch.IndexStale}},
		{func() { d.broken = errors.New("damaged") }, dispatch.IndexState{Freshness: dispatch.IndexError}},
		{func() { d.broken, d.built = nil, nil }, dispatch.IndexState{Freshness: dispatch.IndexMissing}},
	} {
		tt.set()
		if got, err := d.family.Freshness(t.Context(), a); err != nil || got != tt.want {
			t.Errorf("%+v %v, want %+v", got, err, tt.want)
		}
	}
	var during dispatch.IndexState
	d.update = func(func(codeindex.Progress)) (codeindex.Built, []string, error) {
		during, _ = d.family.Freshness(t.Context(), a)
		return *indexed("c2", d.clock), nil, nil
	}
	d.ask("index_update", vessel)
	if during != (dispatch.IndexState{Freshness: dispatch.IndexUpdating, JobID: "job_1"}) {
		t.Errorf("%+v", during)
	}
}
