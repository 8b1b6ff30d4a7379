package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"berth/actors"
	"berth/broker"
	"berth/transport/httpguard"
	"berth/transport/rest"
)

// called are the verb and the arguments of the last call.
func (f *fake) called(t *testing.T) (verb, arguments string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.requests) == 0 {
		t.Fatal("nothing was called")
	}
	var params struct {
		Name      string
		Arguments json.RawMessage
	}
	if err := json.Unmarshal(f.requests[len(f.requests)-1].Call.Params, &params); err != nil {
		t.Fatal(err)
	}
	return params.Name, string(params.Arguments)
}

func TestEachTwinOfDispatchCallsItsVerb(t *testing.T) {
	const page = `"createdAfter":"2026-05-04T09:12:00Z","entityType":"%s","order":"CreatedAscending","pageNumber":2,"pageSize":5,"status":"x"`
	for _, tt := range []struct{ method, path, body, verb, arguments string }{
		{"GET", "voyages?pageNumber=2&pageSize=5&order=CreatedAscending&createdAfter=2026-05-04T09:12:00Z&status=x&nobody=y", "", "enumerate", `{` + fmt.Sprintf(page, "voyages") + `}`},
		{"GET", "voyages?jobId=job_1&vesselId=vsl_1&includeDescription=true", "", "enumerate", `{"entityType":"voyages","includeDescription":true,"jobId":"job_1","vesselId":"vsl_1"}`},
		{"GET", "missions?voyageId=vyg_1&captainId=cpt_1", "", "enumerate", `{"captainId":"cpt_1","entityType":"missions","voyageId":"vyg_1"}`},
		{"GET", "captains", "", "enumerate", `{"entityType":"captains"}`},
		{"GET", "docks?missionId=msn_1", "", "enumerate", `{"entityType":"docks","missionId":"msn_1"}`},
		{"GET", "vessels?pageSize=3&includeContext=true", "", "enumerate", `{"entityType":"vessels","includeContext":true,"pageSize":3}`},
		{"POST", "vessels", `{"name":"v","RepoUrl":"/srv/v","FleetId":"f","SiblingRepos":[{"VesselRef":"o","RelativePath":"../o"}]}`, "add_vessel",
			`{"fleetId":"f","name":"v","repoUrl":"/srv/v","siblingRepos":[{"relativePath":"../o","vesselRef":"o"}]}`},
		{"PUT", "vessels/v", `{"GitHubTokenOverride":"","ProtectedPaths":[],"DefaultPipelineId":"p","RequirePassingChecksToLand":true,"DefaultPlaybooks":[{"PlaybookId":"p"}],"nobody":1}`, "update_vessel",
			`{"defaultPipelineId":"p","defaultPlaybooks":[{"playbookId":"p"}],"gitHubTokenOverride":"","protectedPaths":[],"requirePassingChecksToLand":true,"vesselId":"v"}`},
		{"POST", "vessels/delete/multiple", `{"Ids":["v","w"]}`, "delete_vessels", `{"ids":["v","w"]}`},
		{"GET", "voyages/v?includeFields=titles,persona&includeDiffs=true", "", "voyage_status", `{"includeDiffs":true,"includeFields":["titles","persona"],"includeMissions":true,"summary":false,"voyageId":"v"}`},
		{"DELETE", "voyages/v", "", "cancel_voyage", `{"voyageId":"v"}`},
		{"DELETE", "voyages/v/purge", "", "purge_voyage", `{"voyageId":"v"}`},
		{"POST", "voyages/delete/multiple", `{"IDS":["a","b"]}`, "delete_voyages", `{"ids":["a","b"]}`},
		{"POST", "missions", `{"title":"t","DESCRIPTION":"d","VesselId":"v","Priority":7,"SelectedPlaybooks":[{"PlaybookId":"p","deliverymode":"x"}]}`, "create_mission",
			`{"description":"d","priority":7,"selectedPlaybooks":[{"deliveryMode":"x","playbookId":"p"}],"title":"t","vesselId":"v"}`},
		{"GET", "missions/m", "", "mission_status", `{"missionId":"m"}`},
		{"PUT", "missions/m", `{"ParentMissionId":"","PrUrl":"u","nobody":1}`, "update_mission", `{"missionId":"m","parentMissionId":"","prUrl":"u"}`},
		{"DELETE", "missions/m", "", "cancel_mission", `{"missionId":"m"}`},
		{"DELETE", "missions/m/purge", "", "purge_mission", `{"missionId":"m"}`},
		{"POST", "missions/delete/multiple", `{}`, "delete_missions", `{}`},
		{"PUT", "missions/m/status", `{"Status":"Complete"}`, "transition_mission_status", `{"missionId":"m","status":"Complete"}`},
		{"POST", "missions/m/restart", `{"Title":"again"}`, "restart_mission", `{"missionId":"m","title":"again"}`},
		{"POST", "missions/m/retry-landing", "", "retry_landing", `{"missionId":"m"}`},
		{"GET", "missions/m/diff", "", "get_mission_diff", `{"missionId":"m"}`},
		{"GET", "missions/m/log?lines=5&offset=7", "", "get_mission_log", `{"lines":5,"missionId":"m","offset":7}`},
		{"GET", "missions/m/output?length=5&offset=7", "", "mission_output", `{"length":5,"missionId":"m","offset":7}`},
		{"POST", "captains", `{"Name":"c","Runtime":"Custom","customcommand":["/bin/c","{prompt}"],"AllowedPersonas":"[\"Worker\"]"}`, "create_captain",
			`{"allowedPersonas":"[\"Worker\"]","customCommand":["/bin/c","{prompt}"],"name":"c","runtime":"Custom"}`},
		{"GET", "captains/c", "", "get_captain", `{"captainId":"c"}`},
		{"PUT", "captains/c", `{"State":"Working","CurrentMissionId":null,"AllowedPersonas":["Worker"],"Model":""}`, "update_captain",
			`{"allowedPersonas":"[\"Worker\"]","captainId":"c","currentMissionId":null,"model":"","state":"Working"}`},
		{"DELETE", "captains/c", "", "delete_captain", `{"captainId":"c"}`},
		{"POST", "captains/delete/multiple", `{"Ids":["a"]}`, "delete_captains", `{"ids":["a"]}`},
		{"POST", "captains/c/stop", "", "stop_captain", `{"captainId":"c"}`},
		{"POST", "captains/stop-all", "", "stop_all", `{}`},
		{"POST", "captains/c/quarantine", `{"Reason":"r","UntilUtc":"2026-05-04T09:12:00Z","DurationMinutes":5}`, "bench_captain", `{"captainId":"c","durationMinutes":5,"reason":"r","untilUtc":"2026-05-04T09:12:00Z"}`},
		{"POST", "captains/c/unquarantine", "", "unbench_captain", `{"captainId":"c"}`},
		{"GET", "captains/c/log?lines=5", "", "get_captain_log", `{"captainId":"c","lines":5}`},
		{"GET", "captains/c/diagnostics", "", "captain_diagnostics", `{"captainId":"c"}`},
		{"GET", "docks/d", "", "get_dock", `{"dockId":"d"}`},
		{"DELETE", "docks/d", "", "delete_dock", `{"dockId":"d"}`},
		{"DELETE", "docks/d/purge", "", "purge_dock", `{"dockId":"d"}`},
		{"POST", "docks/delete/multiple", `{"Ids":["d"]}`, "delete_docks", `{"ids":["d"]}`},
		{"POST", "docks/d/repair", "", "repair_dock", `{"dockId":"d"}`},
		{"POST", "docks/d/unstick", "", "unstick_dock", `{"dockId":"d"}`},
	} {
		f := newFake(t)
		f.withTwins(t)
		status, body := ask(t, f.handler(nil), tt.method, "/api/v1/"+tt.path, tt.body)
		if status != 200 || strings.TrimSpace(body) != `{"Done":true}` {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, status, body)
			continue
		}
		if verb, arguments := f.called(t); verb != tt.verb || arguments != tt.arguments {
			t.Errorf("%s %s: called %s with %s\nwant %s with %s", tt.method, tt.path, verb, arguments, tt.verb, tt.arguments)
		}
	}
}

func TestParametersOfTheTwinsAreReadAsWhatTheyAre(t *testing.T) {
	for _, path := range []string{"voyages?pageNumber=two", "voyages?includeDescription=maybe", "docks?pageSize=1.5", "voyages/v?includeDiffs=1", "missions/m/log?lines=x", "missions/m/log?follow=yes",
		"missions/m/log?follow=true&offset=x", "missions/m/output?length=x", "captains/c/log?offset=x"} {
		f := newFake(t)
		f.withTwins(t)
		if status, body := ask(t, f.handler(nil), "GET", "/api/v1/"+path, ""); status != 400 || object(t, body)["Code"] != "invalid_arguments" || len(f.requests) > 0 {
			t.Errorf("%s: status %d, %s", path, status, body)
		}
	}
}

const aDispatch = `{"title":"v","VESSELID":"vsl_1","Missions":[{"Title":"m","description":"d","Alias":"a","PrestagedFiles":[{"SourcePath":"/s","destPath":"d"}]},{"title":"n","Description":"e","DependsOnMissionAlias":"a"}],
	"IdempotencyKey":"k","CodeContextMode":"off","SkipStages":["Judge"],"CaptainAssignments":[{"Persona":"Worker","CaptainId":"c"}],"ForcePreflight":false}`

// A dispatch answers with its voyage when the job made it in time, else with the
// job; what refuses the job has the status that it would have had at once.
func TestADispatchAnswersWithItsVoyageOrItsJob(t *testing.T) {
	hold := broker.Refuse(broker.CodeDispatchHold, "Dispatch is on hold.", map[string]any{"SetBy": "ops-1"})
	accepted := broker.Job{ID: "job_d", Operation: "voyage_dispatch", Backend: "berth", Status: broker.JobAccepted, SubmittedAt: at}
	ended := func(c broker.JobChange) broker.Job {
		c.At = at
		j, _, err := accepted.Apply(c)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	made := voyageJob()
	made.ID = "job_d"
	for name, tt := range map[string]struct {
		query  string
		reply  actors.Reply
		job    broker.Job
		change func(*fake, *rest.Options)
		status int
		want   []string
	}{
		"the voyage":             {reply: actors.Reply{Job: &accepted}, job: made, status: 201, want: []string{`"Id":"vyg_1"`, `"MissionStartRefs":[{"MissionId":"msn_1"`}},
		"the voyage of a key":    {reply: actors.Reply{Job: &made, Replayed: true}, job: made, status: 201, want: []string{`"Id":"vyg_1"`}},
		"a job that goes on":     {query: "?waitSeconds=0", reply: actors.Reply{Job: &accepted}, job: accepted, status: 202, want: []string{`"JobId":"job_d"`, `"Status":"Accepted"`}},
		"of a key, too":          {query: "?waitSeconds=0", reply: actors.Reply{Job: &accepted, Replayed: true}, job: accepted, status: 202, want: []string{`"Replayed":true`}},
		"a wait that is no time": {query: "?waitSeconds=x", status: 400, want: []string{`invalid_arguments`}},
		"refused at once":        {reply: actors.Reply{Refusal: hold}, status: 409, want: []string{`"Code":"dispatch_hold_active"`, `"SetBy":"ops-1"`}},
		"refused afterwards": {reply: actors.Reply{Job: &accepted}, status: 409, want: []string{`"Code":"dispatch_hold_active"`, `"SetBy":"ops-1"`, `"JobId":"job_d"`, `Dispatch is on hold.`},
			job: ended(broker.JobChange{To: broker.JobFailed, Reason: broker.CodeDispatchHold, Message: "m", Refusal: hold.NativeJSON()})},
		"refused with 404": {reply: actors.Reply{Job: &accepted}, status: 404, want: []string{`vessel_not_found`},
			job: ended(broker.JobChange{To: broker.JobFailed, Reason: broker.CodeVesselNotFound, Refusal: broker.Refuse(broker.CodeVesselNotFound, "Vessel not found", nil).NativeJSON()})},
		"another record is not found": {reply: actors.Reply{Refusal: broker.Refuse(broker.CodeDependencyNotFound, "No such mission.", nil)}, status: 400, want: []string{`mission_dependency_not_found`}},
		"lost":                        {reply: actors.Reply{Job: &accepted}, status: 500, want: []string{`"Code":"job_lost_on_restart"`, `It was lost.`, `"JobId":"job_d"`}, job: ended(broker.JobChange{To: broker.JobLost, Reason: broker.CodeJobLostOnRestart, Message: "It was lost."})},
		"no job":                      {reply: actors.Reply{Answer: &broker.Answer{Result: json.RawMessage(`{"structuredContent":{}}`)}}, status: 500, want: []string{`internal`}},
		"accepted, and nobody may wait": {reply: actors.Reply{Job: &accepted}, job: accepted, status: 202, want: []string{`"JobId":"job_d"`, `"Status":"Accepted"`},
			change: func(f *fake, o *rest.Options) {
				o.MaxWaiting = 1
				f.watched = make(chan string, 1)
			}},
		"accepted, and the journal cannot be read": {reply: actors.Reply{Job: &accepted}, job: accepted, status: 202, want: []string{`"JobId":"job_d"`},
			change: func(f *fake, _ *rest.Options) { f.err = errors.New("journal gone") }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.withTwins(t)
			f.jobs = append(f.jobs, tt.job)
			f.do = replies(tt.reply)
			h := f.handler(nil, func(o *rest.Options) {
				if tt.change != nil {
					tt.change(f, o)
				}
			})
			if f.watched != nil { // somebody else has the only place
				ctx, cancel := context.WithCancel(t.Context())
				gone := make(chan struct{})
				f.jobs = append(f.jobs, job("job_busy", broker.JobRunning, 0))
				go func() {
					defer close(gone)
					waitFor(ctx, h, "job_busy")
				}()
				<-f.watched
				defer func() { cancel(); <-gone }()
			}
			status, body := ask(t, h, "POST", "/api/v1/voyages"+tt.query, aDispatch)
			if status != tt.status {
				t.Errorf("status %d", status)
			}
			for _, want := range tt.want {
				if !strings.Contains(body, want) {
					t.Errorf("%s is not in %s", want, body)
				}
			}
		})
	}
}

func TestADispatchWaitsForTheEndOfItsJob(t *testing.T) {
	f := newFake(t)
	f.withTwins(t)
	accepted := broker.Job{ID: "job_d", Operation: "voyage_dispatch", Backend: "berth", Status: broker.JobAccepted, SubmittedAt: at}
	f.jobs, f.watched, f.do = []broker.Job{accepted}, make(chan string), replies(actors.Reply{Job: &accepted})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { // it goes on only while it is waited for
		defer close(gone)
		steps := []broker.JobChange{{To: broker.JobRunning, At: at}, {To: broker.JobSucceeded, At: at, Result: json.RawMessage(`{"structuredContent":` + landedVoyage + `}`)}}
		for {
			select {
			case <-f.watched:
			case <-ctx.Done():
				return
			}
			if len(steps) > 0 { // else it is the last look, at the end
				_, _ = f.change("job_d", steps[0])
				steps = steps[1:]
			}
		}
	}()
	defer func() { cancel(); <-gone }()
	status, body := ask(t, f.handler(nil), "POST", "/api/v1/voyages?waitSeconds=50", aDispatch)
	if status != 201 || !strings.Contains(body, `"Id":"vyg_1"`) {
		t.Errorf("%d %s", status, body)
	}
	verb, arguments := f.called(t)
	want := `{"captainAssignments":[{"captainId":"c","persona":"Worker"}],"codeContextMode":"off","forcePreflight":false,"idempotencyKey":"k",` +
		`"missions":[{"alias":"a","description":"d","prestagedFiles":[{"destPath":"d","sourcePath":"/s"}],"title":"m"},{"dependsOnMissionAlias":"a","description":"e","title":"n"}],` +
		`"skipStages":["Judge"],"title":"v","vesselId":"vsl_1"}`
	if verb != "dispatch" || arguments != want {
		t.Errorf("called %s with %s\nwant %s", verb, arguments, want)
	}
}

func TestADispatchIsNotWaitedForWithoutItsCredential(t *testing.T) {
	f := newFake(t)
	f.withTwins(t)
	accepted := broker.Job{ID: "job_d", Operation: "voyage_dispatch", Backend: "berth", Status: broker.JobAccepted, SubmittedAt: at}
	f.jobs, f.watched, f.do = []broker.Job{accepted}, make(chan string, 1), replies(actors.Reply{Job: &accepted})
	life, revoke := context.WithCancel(context.Background())
	go func() {
		<-f.watched
		revoke()
	}()
	h := f.handler(nil, func(o *rest.Options) {
		o.Guard = httpguard.New(httpguard.Options{Authenticate: func(httpguard.Kind, string) (broker.Caller, bool) {
			return broker.Caller{Principal: broker.LocalOperator, Life: life}, true
		}})
	})
	if status, body := ask(t, h, "POST", "/api/v1/voyages?waitSeconds=50", aDispatch); status != 401 || strings.Contains(body, "job_d") {
		t.Errorf("status %d, %s", status, body)
	}
}

// waitFor waits for a job until ctx ends.
func waitFor(ctx context.Context, h http.Handler, id string) {
	r := httptest.NewRequest("GET", "http://localhost/api/v1/jobs/"+id+"?waitSeconds=50", http.NoBody).WithContext(ctx)
	r.Header.Set("Authorization", "Bearer t0")
	h.ServeHTTP(httptest.NewRecorder(), r)
}
