package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
)

// fleetVerbs are the verbs of dispatch that the fake broker answers.
var fleetVerbs = []string{"enumerate", "voyage_status", "cancel_voyage", "dispatch", "mission_status", "get_mission_log", "get_mission_diff", "mission_output",
	"cancel_mission", "restart_mission", "retry_landing", "create_captain", "get_captain", "bench_captain", "unbench_captain", "stop_captain", "stop_all", "add_vessel", "get_vessel"}

func fakeFleet() catalog.Source {
	s := catalog.Source{Backend: catalog.NativeName, Native: true, Family: "own", Listed: true, Effects: map[string]broker.Effects{}}
	for _, name := range fleetVerbs {
		s.Tools = append(s.Tools, broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object","properties":{"offset":{"type":"integer"},"lines":{"type":"integer"}}}}`)})
		s.Effects[name] = broker.Write
	}
	return s
}

const (
	fakeVoyage  = `"Id":"vyg_1","Title":"Rate limits","Status":"InProgress","VesselId":"vsl_1","SourceJobId":"job_7","Reason":null,"CreatedUtc":"2026-05-04T09:12:00Z","CompletedUtc":null`
	fakeMission = `"Id":"msn_1","Title":"Add limiter","VesselId":"vsl_1","VoyageId":"vyg_1","Alias":"core","Mode":"Implementation","Priority":100,"CaptainId":"cpt_1","BranchName":"berth/msn_1","Description":{"Text":"long","Truncated":true,"FullLength":9000},"CreatedUtc":"2026-05-04T09:12:00Z"`
	fakeCaptain = `"Id":"cpt_1","Name":"evil\u001b[2Jcaptain","Runtime":"ClaudeCode","State":"Working","Model":"m-1","Tier":"Standard","HasApiKey":true,"CurrentMissionId":"msn_1"`
	fakeVessel  = `"Id":"vsl_1","Name":"app","DefaultBranch":"main","LandingMode":"LocalMerge","CreatedUtc":"2026-05-04T09:12:00Z"`
)

// dispatch answers a verb of dispatch. The mission's log has four lines, each
// there one look later than the one before; then it has ended.
func (f *fakeBroker) dispatch(verb string, arguments json.RawMessage) actors.Reply {
	f.mu.Lock()
	defer f.mu.Unlock()
	var args struct {
		EntityType, Status, RepoURL, MissionID, Title, Name, VoyageID string
		Offset, Lines                                                 int
	}
	if err := json.Unmarshal(arguments, &args); err != nil {
		panic(err)
	}
	page := func(objects string, total int) string {
		return fmt.Sprintf(`{"Success":true,"Objects":[%s],"TotalRecords":%d}`, objects, total)
	}
	answer := ""
	switch verb {
	case "enumerate":
		answer = map[string]string{"voyages": page("{"+fakeVoyage+"}", 3), "missions": page("{"+fakeMission+`,"Status":"Pending","AssignmentState":"WaitingForIdleCaptain"}`, 1),
			"captains": page("{"+fakeCaptain+"}", 1), "vessels": page("{"+fakeVessel+`,"RepoUrl":"https://example.com/app"}`, 1)}[args.EntityType]
		if args.Status == "nonsense" {
			return actors.Reply{Refusal: broker.Refuse(broker.CodeInvalidStatus, "There is no such status.", nil)}
		}
	case "voyage_status":
		answer = `{"Voyage":{` + fakeVoyage + `},"Missions":[{` + fakeMission + `,"Status":"InProgress"},{"Id":"msn_2","Title":"Document it","Status":"Cancelled","FailureReason":"dependency_failed","DependsOnMissionId":"msn_1"}]}`
	case "cancel_voyage":
		answer = `{"Voyage":{` + strings.Replace(fakeVoyage, "InProgress", "Cancelled", 1) + `},"CancelledMissions":2}`
	case "dispatch":
		return f.dispatched(args.Title)
	case "mission_status":
		status := "InProgress"
		if f.looks++; f.looks > 4 {
			status = "Complete"
		}
		answer = `{` + fakeMission + `,"Status":"` + status + `"}`
	case "get_mission_log":
		lines := []string{"one", "", "two \x1b[31mred", "three"}
		lines = lines[:min(f.looks, 4)]
		some := lines[min(args.Offset, len(lines)):]
		if args.Lines > 0 && args.Lines < len(some) {
			some = some[:args.Lines]
		}
		text, err := json.Marshal(strings.Join(some, "\n")) // as the broker has it: the last one is not ended
		if err != nil {
			panic(err)
		}
		answer = fmt.Sprintf(`{"MissionId":"msn_1","Log":%s,"Lines":%d,"TotalLines":%d}`, text, len(some), len(lines))
	case "get_mission_diff":
		answer = `{"MissionId":"msn_1","Branch":"berth/msn_1","Diff":"--- a/x\n+++ b/x\n+limiter"}`
	case "mission_output":
		parts := []string{"Done: ", "all of it."}
		part, more, next := 0, true, `6`
		if args.Offset == 6 {
			part, more, next = 1, false, `null`
		}
		answer = fmt.Sprintf(`{"MissionId":"msn_1","Content":%q,"HasMore":%t,"NextOffset":%s,"Finalized":true}`, parts[part], more, next)
	case "cancel_mission":
		answer = `{` + fakeMission + `,"Status":"Cancelled","FailureReason":"cancelled"}`
	case "restart_mission":
		if args.Title == "" {
			return actors.Reply{Refusal: broker.Refuse(broker.CodeDispatchHold, "Dispatch is on hold.", map[string]any{"SetBy": "ops-1"})}
		}
		answer = `{` + strings.Replace(fakeMission, "Add limiter", args.Title, 1) + `,"Status":"Pending"}`
	case "retry_landing":
		answer = `{"Success":true,"Mission":{` + fakeMission + `,"Status":"Complete","CommitHash":"abc"}}`
	case "create_captain", "get_captain":
		answer = `{` + fakeCaptain + `}`
		if verb == "create_captain" { // what was sent, so that a test can see it
			answer = `{` + strings.Replace(fakeCaptain, `"m-1"`, fmt.Sprintf("%q", arguments), 1) + `}`
		}
	case "bench_captain":
		answer = `{"Status":"benched","CaptainId":"cpt_1","Name":"c","State":"Benched","BenchReason":"node upgrade","BenchUntilUtc":null}`
	case "unbench_captain":
		answer = `{"Status":"unbenched","CaptainId":"cpt_1","State":"Idle"}`
	case "stop_captain":
		answer = `{"Status":"stopped","CaptainId":"cpt_1"}`
	case "stop_all":
		answer = `{"Status":"stopped_with_failures","Stopped":1,"Failed":1,"Failures":[{"CaptainId":"cpt_2","Reason":"operation_failed","Message":"it does not end"}]}`
	case "add_vessel", "get_vessel":
		answer = `{` + fakeVessel + `,"RepoUrl":` + fmt.Sprintf("%q", args.RepoURL) + `}`
	}
	return actors.Reply{Answer: &broker.Answer{Result: json.RawMessage(`{"content":[],"structuredContent":` + answer + `}`)}}
}

// dispatched is a job that made its voyage at once, or one that goes on.
func (f *fakeBroker) dispatched(title string) actors.Reply {
	j := broker.Job{ID: fmt.Sprintf("job_%d", len(f.jobs)+1), Operation: "voyage_dispatch", Backend: catalog.NativeName, Status: broker.JobAccepted, SubmittedAt: time.Now()}
	reply := actors.Reply{Job: &j}
	if title != "slow" {
		ended := j
		for _, c := range []broker.JobChange{{To: broker.JobRunning}, {To: broker.JobSucceeded, Result: json.RawMessage(`{"structuredContent":{` + fakeVoyage + `,"MissionStartRefs":[{"MissionId":"msn_1","StartFromRef":"main","Alias":"core"},{"MissionId":"msn_2","StartFromRef":null}]}}`)}} {
			c.At = time.Now()
			var err error
			if ended, _, err = ended.Apply(c); err != nil {
				panic(err)
			}
		}
		reply.Job = &ended
	}
	f.jobs = append([]broker.Job{*reply.Job}, f.jobs...)
	return reply
}
