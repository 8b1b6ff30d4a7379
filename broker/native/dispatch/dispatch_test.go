package dispatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/schema"
	"berth/broker/native"
)

// store keeps records in memory.
type store struct {
	mu     sync.Mutex
	rows   map[string]broker.Record
	events []broker.Event
	before func(broker.RecordChange) // of each write, outside the lock
	fail   error
}

func (s *store) Put(_ context.Context, c broker.RecordChange) (broker.Record, error) {
	if s.before != nil {
		s.before(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := c.Kind + " " + c.ID
	was := s.rows[key]
	switch {
	case s.fail != nil:
		return was, s.fail
	case c.If != nil && *c.If != was.Revision:
		return was, broker.ErrRecordRevision
	case c.Value == nil:
		delete(s.rows, key)
	default:
		was = broker.Record{Kind: c.Kind, ID: c.ID, Revision: was.Revision + 1, Value: c.Value, Keys: c.Keys}
		s.rows[key] = was
	}
	s.events = append(s.events, c.Events...)
	return was, nil
}

func (s *store) Record(kind, id string) (broker.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return broker.Record{}, s.fail
	}
	r, ok := s.rows[kind+" "+id]
	if !ok {
		return r, broker.ErrRecordNotFound
	}
	return r, nil
}

func (s *store) Records(q broker.RecordQuery) (out []broker.Record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if r.Kind == q.Kind && slices.Contains(r.Keys, q.Key) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b broker.Record) int { return cmp.Compare(a.ID, b.ID) })
	return out, s.fail
}

// around are the secrets and places of a test.
type around struct {
	mu      sync.Mutex
	secrets map[string]string
	removed []string
}

func (a *around) SetSecret(name, value string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.secrets[name] = value; value == "" {
		delete(a.secrets, name)
	}
	return nil
}

func (a *around) HasSecret(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.secrets[name] != ""
}

func (a *around) LocalClone(url string) (string, bool) {
	return strings.TrimPrefix(url, "file://"), strings.HasSuffix(url, "/clone")
}

func (a *around) RemoveClone(_ context.Context, id string) string {
	a.removed = append(a.removed, id)
	return ""
}

type rig struct {
	t       *testing.T
	store   *store
	around  *around
	conn    broker.Conn
	schemas map[string]*schema.Schema
	now     time.Time
	who     broker.Principal
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, store: &store{rows: map[string]broker.Record{}}, around: &around{secrets: map[string]string{}}, schemas: map[string]*schema.Schema{},
		now: time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC), who: broker.LocalOperator}
	f := New(r.store, Options{Options: native.Options{RuntimeID: "r", Now: func() time.Time { return r.now }}, Random: rand.Reader, Secrets: r.around, Places: r.around})
	for _, tool := range f.Source().Tools {
		var e struct{ InputSchema json.RawMessage }
		if err := json.Unmarshal(tool.Raw, &e); err != nil {
			t.Fatal(err)
		}
		s, err := schema.Compile(e.InputSchema)
		if err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		r.schemas[tool.Name] = s
	}
	r.conn, _ = f.Open(t.Context(), nil)
	return r
}

// call calls a verb as policy would hand it over and gives its answer; a refusal
// is its code in "Code".
func (r *rig) call(verb, arguments string) map[string]any {
	r.t.Helper()
	s := r.schemas[verb]
	args := s.Normalise(json.RawMessage(arguments))
	if refusal := s.NativeRefusal(args); refusal != nil {
		return map[string]any{"Code": string(refusal.Code), "Error": refusal.Message}
	}
	answer, err := r.conn.Call(r.t.Context(), &broker.Call{Verb: verb, Principal: r.who, Params: json.RawMessage(`{"name":"` + verb + `","arguments":` + string(args) + `}`)}, broker.Peer{})
	if err != nil {
		r.t.Fatal(err)
	}
	var out struct{ StructuredContent map[string]any }
	if err := json.Unmarshal(answer.Result, &out); err != nil {
		r.t.Fatal(err)
	}
	return out.StructuredContent
}

func (r *rig) add(verb, arguments string) string {
	r.t.Helper()
	got := r.call(verb, arguments)
	id, ok := got["Id"].(string)
	if !ok {
		r.t.Fatalf("%s: %v", verb, got)
	}
	return id
}

func (r *rig) want(verb, arguments string, code broker.Code) map[string]any {
	r.t.Helper()
	got := r.call(verb, arguments)
	if c, _ := got["Code"].(string); c != string(code) {
		r.t.Errorf("%s %s: got %v, want %q", verb, arguments, got, code)
	}
	return got
}

func TestTheFamilyFitsTheCatalog(t *testing.T) {
	f := New(nil, Options{Options: native.Options{Now: time.Now}})
	s, faults := catalog.Settings{}.Build(1, []catalog.Source{f.Source()})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	full, _ := s.Profile(catalog.Full)
	for _, tool := range f.Source().Tools {
		v, ok := full.Resolve("armada_" + tool.Name)
		if !ok || v.Name != tool.Name || !slices.Equal(v.Scope, administrators) {
			t.Errorf("%s: %+v", tool.Name, v)
		}
	}
}

func TestAVesselIsAddedReadChangedAndDeleted(t *testing.T) {
	r := newRig(t)
	id := r.add("add_vessel", `{"name":"berth","repoUrl":"https://example.com/a.git","gitHubTokenOverride":" ghp_secret ","projectContext":"x","allowConcurrentMissions":"true"}`)
	got := r.call("get_vessel", `{"vesselId":" `+id+` "}`)
	if got["DefaultBranch"] != "main" || got["LandingMode"] != "None" || got["HasGitHubTokenOverride"] != true || got["AllowConcurrentMissions"] != true ||
		got["WorkingDirectory"] != nil || got["ProjectContext"] != "x" || got["TenantId"] != "default" {
		t.Errorf("got %v", got)
	}
	if r.around.secrets["vessel-"+id] != "ghp_secret" {
		t.Errorf("secrets %v", r.around.secrets)
	}
	if text := fmt.Sprint(got, r.store.rows, r.store.events); strings.Contains(text, "ghp_secret") {
		t.Error("the token is in a record, an answer or an event")
	}
	r.now = r.now.Add(time.Hour)
	got = r.call("update_vessel", `{"vesselId":"`+id+`","name":"","styleGuide":"tabs","landingMode":"LocalMerge"}`)
	if got["Name"] != "berth" || got["StyleGuide"] != "tabs" || got["LandingMode"] != "LocalMerge" || got["HasGitHubTokenOverride"] != true || got["LastUpdateUtc"] == got["CreatedUtc"] {
		t.Errorf("got %v", got)
	}
	got = r.call("update_vessel_context", `{"vesselId":"`+id+`","projectContext":""}`)
	if got["ProjectContext"] != nil || got["StyleGuide"] != "tabs" {
		t.Errorf("got %v", got)
	}
	got = r.call("update_vessel", `{"vesselId":"`+id+`","gitHubTokenOverride":""}`)
	if got["HasGitHubTokenOverride"] != false || len(r.around.secrets) != 0 {
		t.Errorf("got %v", got)
	}
	if got := r.call("delete_vessel", `{"vesselId":"`+id+`"}`); got["Status"] != "deleted" || got["VesselId"] != id || !slices.Equal(r.around.removed, []string{id}) {
		t.Errorf("got %v", got)
	}
	if got := r.want("get_vessel", `{"vesselId":"`+id+`"}`, broker.CodeVesselNotFound); got["Error"] != "Vessel not found" {
		t.Errorf("got %v", got)
	}
	var types []string
	for _, e := range r.store.events {
		types = append(types, e.EventType)
	}
	if got := strings.Join(types, " "); got != "vessel.added vessel.updated vessel.updated vessel.updated vessel.deleted" {
		t.Errorf("events %s", got)
	}
}

func TestALocalCloneIsWorkedInAndNeverDeleted(t *testing.T) {
	r := newRig(t)
	for url, want := range map[string]any{"/srv/clone": "/srv/clone", "file:///srv/clone": "/srv/clone", "/srv/other": nil, "https://example.com/clone": nil} {
		if strings.HasPrefix(url, "https") {
			r.around = &around{secrets: map[string]string{}}
			continue // an address is asked of LocalClone too; Places answers for real paths only
		}
		got := r.call("get_vessel", `{"vesselId":"`+r.add("add_vessel", `{"name":"a","repoUrl":"`+url+`"}`)+`"}`)
		if got["WorkingDirectory"] != want || got["LocalPath"] != nil {
			t.Errorf("%s: %v", url, got)
		}
	}
	id := r.add("add_vessel", `{"name":"a","repoUrl":"/srv/clone","workingDirectory":"/home/me/a"}`)
	if got := r.call("get_vessel", `{"vesselId":"`+id+`"}`); got["WorkingDirectory"] != "/home/me/a" {
		t.Errorf("got %v", got)
	}
}

func TestVesselsThatCannotBeAreRefused(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		arguments string
		want      broker.Code
	}{
		{`{"repoUrl":"https://example.com/a"}`, broker.CodeInvalidArguments},
		{`{"name":"a","repoUrl":" "}`, broker.CodeInvalidArguments},
		{`{"name":"../a","repoUrl":"https://example.com/a"}`, broker.CodeInvalidVesselName},
		{`{"name":"a","repoUrl":"--upload-pack=id"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"ext::sh -c id"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"https://example.com/a\n"}`, ""}, // trimmed
		{`{"name":"a","repoUrl":"https://example.com/\u0007"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"../a"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"https://example.com/a","workingDirectory":"a"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"https://example.com/a","defaultBranch":"-x"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"https://example.com/a","landingMode":"PullRequest"}`, broker.CodeLandingUnsupported},
		{`{"name":"a","repoUrl":"https://example.com/a","landingMode":"Push"}`, broker.CodeInvalidArguments},
		{`{"name":"a","repoUrl":"https://example.com/a","fleetId":"flt_1"}`, broker.CodeNotBuilt},
		{`{"name":"a","repoUrl":"https://example.com/a","requirePassingChecksToLand":true}`, broker.CodeNotBuilt},
	} {
		r.want("add_vessel", tt.arguments, tt.want)
	}
	if len(r.store.rows) != 1 || len(r.around.secrets) != 0 {
		t.Errorf("%d records, secrets %v", len(r.store.rows), r.around.secrets)
	}
	r.who = broker.Principal{Tenant: "acme", User: "ana", Role: broker.User}
	for _, arguments := range []string{`{"name":"a","repoUrl":"/srv/a"}`, `{"name":"a","repoUrl":"file:///srv/a"}`, `{"name":"a","repoUrl":"https://example.com/a","workingDirectory":"/srv/a"}`} {
		r.want("add_vessel", arguments, broker.CodeServerPath)
	}
	mine := r.add("add_vessel", `{"name":"a","repoUrl":"https://example.com/a"}`)
	r.want("update_vessel", `{"vesselId":"`+mine+`","localPath":"/srv/a"}`, broker.CodeServerPath)
	r.who = broker.Principal{Tenant: "other", User: "bob", Role: broker.TenantAdministrator}
	theirs, none := r.want("update_vessel", `{"vesselId":"`+mine+`","name":"../x","gitHubTokenOverride":"t"}`, broker.CodeVesselNotFound), r.want("get_vessel", `{"vesselId":"vsl_none"}`, broker.CodeVesselNotFound)
	if theirs["Error"] != none["Error"] || len(r.around.secrets) != 0 {
		t.Errorf("another tenant's reads %v, none reads %v", theirs, none)
	}
}

func TestNothingIsDeletedWhileAMissionWorks(t *testing.T) {
	r := newRig(t)
	busy, free := r.add("add_vessel", `{"name":"a","repoUrl":"https://example.com/a"}`), r.add("add_vessel", `{"name":"b","repoUrl":"https://example.com/b"}`)
	captain := r.add("create_captain", `{"name":"c"}`)
	r.store.rows["mission m"] = broker.Record{Kind: kindMission, ID: "m", Revision: 1, Value: json.RawMessage("{}"), Keys: []string{"vessel/" + busy + "/live", "captain/" + captain + "/live"}}
	r.want("delete_vessel", `{"vesselId":"`+busy+`"}`, broker.CodeVesselBusy)
	r.want("delete_captain", `{"captainId":"`+captain+`"}`, broker.CodeCaptainBusy)
	got := r.call("delete_vessels", `{"ids":["`+busy+`","`+free+`","vsl_none"]}`)
	if got["Status"] != "PartiallyDeleted" || got["Deleted"] != 1.0 || fmt.Sprint(got["Skipped"]) != "[map[Id:"+busy+" Reason:vessel_busy] map[Id:vsl_none Reason:vessel_not_found]]" {
		t.Errorf("got %v", got)
	}
	if got := r.call("delete_vessels", `{"ids":["vsl_none"]}`); got["Status"] != "NoneDeleted" {
		t.Errorf("got %v", got)
	}
	delete(r.store.rows, "mission m")
	if got := r.call("delete_captains", `{"ids":["`+captain+`"]}`); got["Status"] != "Deleted" {
		t.Errorf("got %v", got)
	}
}

func TestACaptainIsCreatedChangedAndBenched(t *testing.T) {
	r := newRig(t)
	id := r.add("create_captain", `{"name":" Ada ","model":"claude-opus-4","apiKey":"sk-secret","preferenceRank":5000,"allowedPersonas":"[\"Worker\"]","reasoningEffort":"high"}`)
	got := r.call("get_captain", `{"captainId":"`+id+`"}`)
	if got["Name"] != "Ada" || got["Runtime"] != "ClaudeCode" || got["Tier"] != "Premium" || got["PreferenceRank"] != 1000.0 || got["HasApiKey"] != true || got["State"] != "Idle" ||
		fmt.Sprint(got["AllowedPersonas"]) != "[Worker]" {
		t.Errorf("got %v", got)
	}
	if text := fmt.Sprint(got, r.store.rows, r.store.events); strings.Contains(text, "sk-secret") || r.around.secrets["captain-"+id] != "sk-secret" {
		t.Error("the key is in a record, an answer or an event, or nowhere")
	}
	got = r.call("update_captain", `{"captainId":"`+id+`","model":"gpt-5-mini","tier":"","apiKey":"","allowedPersonas":"","reasoningEffort":""}`)
	if got["Tier"] != "Economy" || got["HasApiKey"] != false || fmt.Sprint(got["AllowedPersonas"]) != "[]" || got["ReasoningEffort"] != nil || got["Name"] != "Ada" {
		t.Errorf("got %v", got)
	}
	if got := r.call("update_captain", `{"captainId":"`+id+`","model":""}`); got["Model"] != nil || got["Tier"] != "Economy" {
		t.Errorf("got %v", got)
	}
	got = r.call("bench_captain", `{"captainId":"`+id+`","reason":"tired","durationMinutes":"30"}`)
	if got["State"] != "Benched" || got["BenchReason"] != "tired" || got["BenchUntilUtc"] != "2026-05-04T09:30:00Z" {
		t.Errorf("got %v", got)
	}
	if got := r.call("bench_captain", `{"captainId":"`+id+`","reason":"still"}`); got["BenchReason"] != "still" || got["BenchUntilUtc"] != nil {
		t.Errorf("got %v", got)
	}
	if got := r.call("unbench_captain", `{"captainId":"`+id+`"}`); got["State"] != "Idle" {
		t.Errorf("got %v", got)
	}
	r.want("unbench_captain", `{"captainId":"`+id+`"}`, broker.CodeCaptainNotBenched)
	r.want("bench_captain", `{"captainId":"`+id+`"}`, broker.CodeMissingReason)
}

func TestABusyCaptainIsLeftAlone(t *testing.T) {
	r := newRig(t)
	id := r.add("create_captain", `{"name":"Ada"}`)
	row := r.store.rows["captain "+id]
	row.Value = json.RawMessage(strings.Replace(string(row.Value), `"Idle"`, `"Working"`, 1))
	r.store.rows["captain "+id] = row
	r.want("bench_captain", `{"captainId":"`+id+`","reason":"x"}`, broker.CodeCaptainBusy)
	r.want("unbench_captain", `{"captainId":"`+id+`"}`, broker.CodeCaptainNotBenched)
	r.want("delete_captain", `{"captainId":"`+id+`"}`, broker.CodeCaptainBusy)
}

func TestCaptainsThatCannotBeAreRefused(t *testing.T) {
	r := newRig(t)
	r.add("create_captain", `{"name":"Ada"}`)
	for _, tt := range []struct {
		arguments string
		want      broker.Code
	}{
		{`{}`, broker.CodeInvalidArguments}, {`{"name":"a\u0001"}`, broker.CodeInvalid}, {`{"name":"` + strings.Repeat("x", 101) + `"}`, broker.CodeInvalid},
		{`{"name":"ada"}`, broker.CodeCaptainNameTaken}, {`{"name":"x","runtime":"Mux"}`, broker.CodeRuntimeUnsupported},
		{`{"name":"x","tier":"Best"}`, broker.CodeInvalidTier}, {`{"name":"x","allowedPersonas":"Worker"}`, broker.CodeInvalid},
		{`{"name":"x","runtime":"Custom"}`, broker.CodeInvalid}, {`{"name":"x","runtime":"Custom","customCommand":["agent"]}`, broker.CodeInvalid},
		{`{"name":"x","customCommand":["/bin/agent"]}`, broker.CodeInvalid}, {`{"name":"x","defaultPlaybooks":[{}]}`, broker.CodeNotBuilt},
		{`{"name":"x","state":"Working","processId":7}`, broker.CodeServerOwnedField}, {`{"name":"x","state":"Idle","processId":null}`, ""},
		{`{"name":"y","runtime":"Custom","customCommand":["/bin/agent","{prompt}"]}`, ""},
	} {
		r.want("create_captain", tt.arguments, tt.want)
	}
	got := r.want("create_captain", `{"name":"z","state":"Working","processId":7}`, broker.CodeServerOwnedField)
	if !strings.HasPrefix(got["Error"].(string), "captain_server_owned_field:") || fmt.Sprint(got["Fields"]) != "[state processId]" {
		t.Errorf("got %v", got)
	}
	r.want("get_captain", `{"captainId":"cpt_none"}`, broker.CodeCaptainNotFound)
}

func TestARecordThatWasReadCanBeSentBack(t *testing.T) {
	r := newRig(t)
	id := r.add("create_captain", `{"name":"Ada"}`)
	r.add("create_captain", `{"name":"Bob"}`)
	stored := r.call("get_captain", `{"captainId":"`+id+`"}`)
	args := map[string]any{"captainId": id, "model": "gpt-5"}
	for _, name := range owned {
		if v, there := stored[strings.ToUpper(name[:1])+name[1:]]; there {
			args[name] = v
		}
	}
	raw, _ := json.Marshal(args)
	if got := r.want("update_captain", string(raw), ""); got["Model"] != "gpt-5" {
		t.Errorf("got %v", got)
	}
	r.want("update_captain", `{"captainId":"`+id+`","currentMissionId":"msn_x"}`, broker.CodeServerOwnedField)
	r.want("update_captain", `{"captainId":"`+id+`","name":"bob"}`, broker.CodeCaptainNameTaken)
	r.want("update_captain", `{"captainId":"`+id+`","name":"ADA"}`, "")
}

func TestOfTwoCaptainsOfOneNameOneStays(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 20 {
		wg.Go(func() {
			if got := r.call("create_captain", `{"name":"Ada","apiKey":"k"}`); got["Id"] != nil {
				mu.Lock()
				made++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(r.store.rows) != 2 || made != 1 || len(r.around.secrets) != 1 { // the captain and the claim of its name
		t.Errorf("%d records, %d said to be made, %d keys", len(r.store.rows), made, len(r.around.secrets))
	}
}

func TestANameIsFreeAgainWhenNobodyBearsIt(t *testing.T) {
	r := newRig(t)
	id := r.add("create_captain", `{"name":"Ada"}`)
	r.want("update_captain", `{"captainId":"`+id+`","name":"Eva"}`, "")
	other := r.add("create_captain", `{"name":"Ada"}`)
	r.want("delete_captain", `{"captainId":"`+other+`"}`, "")
	r.add("create_captain", `{"name":"Ada"}`)
	// A broker that stopped between the claim and the captain.
	r.store.rows[kindName+" default/bob"] = broker.Record{Kind: kindName, ID: "default/bob", Revision: 1, Value: json.RawMessage(`{"captain":"cpt_gone","at":"2026-05-04T09:00:00Z"}`)}
	r.want("create_captain", `{"name":"Bob"}`, broker.CodeCaptainNameTaken)
	r.now = r.now.Add(claimFor)
	r.add("create_captain", `{"name":"Bob"}`)
}

func TestAChangeThatMetAnotherIsMadeAgain(t *testing.T) {
	r := newRig(t)
	id := r.add("add_vessel", `{"name":"a","repoUrl":"https://example.com/a"}`)
	r.store.before = func(broker.RecordChange) {
		r.store.before = nil
		if _, err := r.store.Put(t.Context(), broker.RecordChange{Kind: kindVessel, ID: id, Value: json.RawMessage(strings.Replace(string(r.store.rows["vessel "+id].Value), `"main"`, `"trunk"`, 1))}); err != nil {
			t.Error(err)
		}
	}
	if got := r.call("update_vessel", `{"vesselId":"`+id+`","styleGuide":"tabs"}`); got["DefaultBranch"] != "trunk" || got["StyleGuide"] != "tabs" {
		t.Errorf("got %v", got)
	}
}

func TestAJournalThatFailsIsNoMissingRecord(t *testing.T) {
	r := newRig(t)
	id := r.add("add_vessel", `{"name":"a","repoUrl":"https://example.com/a"}`)
	r.store.fail = errors.New("the disk is gone")
	for _, verb := range []string{"get_vessel", "delete_vessel"} {
		if got := r.want(verb, `{"vesselId":"`+id+`"}`, broker.CodeInternal); strings.Contains(fmt.Sprint(got), "disk") {
			t.Errorf("got %v", got)
		}
	}
	r.want("add_vessel", `{"name":"b","repoUrl":"https://example.com/b"}`, broker.CodeInternal)
}
