//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/transport/dashboard/browsertest"
	"berth/transport/rest"
)

// fleetAgent commits a file of its mission. With a FIFO named go beside it, it
// says so in another and waits there first.
const fleetAgent = `#!/bin/sh
set -e
cat > /dev/null
echo "begins"
if [ -e "$1/go" ]; then echo "waits"; echo there > "$1/ready"; cat "$1/go"; fi
echo "of $BERTH_MISSION_ID" > "$BERTH_MISSION_ID.txt"
git add . && git commit -qm "$BERTH_MISSION_ID"
echo "[BERTH:RESULT] COMPLETE"
`

// fleet is a vessel and a captain of a running broker.
type fleet struct {
	*house
	vessel, captain string
	repo            project
}

func newFleet(h *house, landing string) *fleet {
	h.t.Helper()
	f := &fleet{house: h, repo: project{h.t, filepath.Join(h.dir, "fleet-repo")}}
	agent := filepath.Join(h.dir, "fleet-agent.sh")
	must(h.t, os.WriteFile(agent, []byte(fleetAgent), 0o700))
	must(h.t, os.Mkdir(f.repo.dir, 0o700))
	f.repo.git("init", "--quiet", "--initial-branch=main")
	f.repo.commit("readme", "a project\n")
	var made struct{ ID string }
	f.do("POST", "/api/v1/vessels", http.StatusOK, map[string]any{"Name": "fleet", "RepoUrl": f.repo.dir, "LandingMode": landing}, &made)
	f.vessel = made.ID
	f.do("POST", "/api/v1/captains", http.StatusOK, map[string]any{"Name": "ann", "Runtime": "Custom", "CustomCommand": []string{"/bin/sh", agent, h.dir}}, &made)
	f.captain = made.ID
	return f
}

// do asks the operator API and reads its answer.
func (f *fleet) do(method, path string, want int, body, into any) {
	f.t.Helper()
	text := ""
	if body != nil {
		raw, err := json.Marshal(body)
		must(f.t, err)
		text = string(raw)
	}
	status, _, answer := f.operator(method, path, text)
	if status != want {
		f.t.Fatalf("%s %s: status %d, %s", method, path, status, answer)
	}
	if into != nil {
		must(f.t, json.Unmarshal(answer, into))
	}
}

// dispatch sends a voyage of these missions, each written as JSON.
func (f *fleet) dispatch(missions ...string) (v rest.Dispatched) {
	f.t.Helper()
	f.do("POST", "/api/v1/voyages", http.StatusCreated, map[string]any{"title": "Rate limits", "VesselId": f.vessel, "CodeContextMode": "off",
		"missions": json.RawMessage("[" + strings.Join(missions, ",") + "]")}, &v)
	return v
}

func (f *fleet) mission(id string) (m rest.Mission) {
	f.t.Helper()
	f.do("GET", "/api/v1/missions/"+id, http.StatusOK, nil, &m)
	return m
}

// ended follows a mission's log to its end.
func (f *fleet) ended(id string) (log, told string) {
	f.t.Helper()
	code, log, told := f.berth("missions", "logs", id, "--follow")
	if code != exitOK {
		f.t.Fatalf("exit %d: %s", code, told)
	}
	return log, told
}

// hold has each agent wait. ready returns when the next one is there, release
// lets it go on.
func (f *fleet) hold() (ready, release func()) {
	f.t.Helper()
	there, fifo := filepath.Join(f.dir, "ready"), filepath.Join(f.dir, "go")
	must(f.t, exec.Command("mkfifo", there, fifo).Run())
	return func() {
			f.t.Helper()
			_, err := os.ReadFile(there)
			must(f.t, err)
		}, func() {
			f.t.Helper()
			must(f.t, os.WriteFile(fifo, []byte("goes on\n"), 0o600)) // until it reads
		}
}

func pointed(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// What programs and the command line see of one voyage on a real repository:
// accepted, followed, refused, cancelled, ended.
func TestAVoyageOverTheOperatorAPIAndTheCommandLine(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	must(t, h.start())
	f := newFleet(h, "LocalMerge")
	ready, release := f.hold()
	v := f.dispatch(`{"title":"Add limiter","description":"d","alias":"core","startFromRef":"main"}`, `{"title":"Document it","description":"d","dependsOnMissionAlias":"core"}`)
	if len(v.MissionStartRefs) != 2 || v.MissionStartRefs[0].Alias != "core" || pointed(v.MissionStartRefs[0].StartFromRef) != "main" {
		t.Fatalf("%+v", v)
	}
	first, second := v.MissionStartRefs[0].MissionID, v.MissionStartRefs[1].MissionID
	ready()
	release()
	ready() // the second begins when the first has delivered
	release()
	log, told := f.ended(second)
	if !strings.Contains(log, "goes on") || !strings.Contains(log, "[BERTH:RESULT] COMPLETE") || !strings.HasSuffix(told, "The mission is Complete.\n") {
		t.Errorf("followed: %s%s", log, told)
	}
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"voyages", "list", "--status", "Complete"}, []string{v.ID, "Rate limits"}},
		{[]string{"voyages", "show", v.ID}, []string{"core", "Complete", "berth/" + first, "Document it"}},
		{[]string{"missions", "show", second}, []string{"After", first, "Complete"}},
		{[]string{"missions", "diff", second}, []string{"+of " + second}},
		{[]string{"missions", "output", first}, []string{"begins", "goes on"}},
		{[]string{"captains", "list", "--state", "Idle"}, []string{"ann", "Custom"}},
		{[]string{"vessels", "show", f.vessel}, []string{"LocalMerge", f.repo.dir}},
	} {
		code, out, errOut := h.berth(tt.args...)
		for _, want := range tt.want {
			if code != exitOK || !strings.Contains(out, want) {
				t.Errorf("berth %s: exit %d, %s%s", strings.Join(tt.args, " "), code, out, errOut)
			}
		}
	}
	if files := f.repo.git("ls-files"); !strings.Contains(files, first) || !strings.Contains(files, second) {
		t.Errorf("what was landed: %s", files)
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "/api/v1/missions/" + first + "/restart", "", 409, "mission_not_restartable"},
		{"POST", "/api/v1/missions/" + first + "/retry-landing", "", 409, "mission_not_landing_failed"},
		{"DELETE", "/api/v1/missions/" + first, "", 409, "mission_terminal"},
		{"PUT", "/api/v1/missions/" + first, `{"Title":"x"}`, 409, "mission_not_editable"},
		{"PUT", "/api/v1/missions/" + first + "/status", `{"Status":"Pending"}`, 409, "invalid_transition"},
		{"PUT", "/api/v1/missions/" + first + "/status", `{"Status":"nonsense"}`, 400, "invalid_status"},
		{"GET", "/api/v1/missions/msn_none/log", "", 404, "mission_not_found"},
		{"GET", "/api/v1/voyages/vyg_none", "", 404, "voyage_not_found"},
		{"GET", "/api/v1/voyages?status=nonsense", "", 400, "invalid_status"},
		{"POST", "/api/v1/captains", `{"name":"ann","runtime":"Codex"}`, 409, "captain_name_taken"},
		{"PUT", "/api/v1/captains/" + f.captain, `{"State":"Working","CreatedUtc":"2020-01-01T00:00:00Z"}`, 400, "captain_server_owned_field"},
		{"POST", "/api/v1/captains/" + f.captain + "/unquarantine", "", 409, "captain_not_benched"},
		{"GET", "/api/v1/docks/dck_none", "", 404, "dock_not_found"},
		{"POST", "/api/v1/voyages", `{"Title":"x","VesselId":"vsl_none","Missions":[{"Title":"a","Description":"b"}]}`, 404, "vessel_not_found"},
		{"POST", "/api/v1/voyages", `{"Title":"x","VesselId":"` + f.vessel + `"}`, 400, "missing_missions"},
		{"POST", "/api/v1/voyages", `{"Title":"x","VesselId":"` + f.vessel + `","Missions":[{"Title":"a","Description":"b","DependsOnMissionId":"msn_none"}]}`, 400, "mission_dependency_not_found"},
		{"POST", "/api/v1/voyages", `{"Title":"x","VesselId":"` + f.vessel + `","Pipeline":"p","Missions":[{"Title":"a","Description":"b"}]}`, 400, "not_built"},
	} {
		status, _, body := h.operator(tt.method, tt.path, tt.body)
		if status != tt.status || !strings.Contains(string(body), `"Code":"`+tt.code+`"`) {
			t.Errorf("%s %s: status %d, %s", tt.method, tt.path, status, body)
		}
	}

	// A record that was read can be sent back.
	status, _, captain := h.operator("GET", "/api/v1/captains/"+f.captain, "")
	if again, _, body := h.operator("PUT", "/api/v1/captains/"+f.captain, string(captain)); status != 200 || again != 200 {
		t.Errorf("a captain sent back: %d %d %s", status, again, body)
	}

	// One that works, and is cancelled.
	last := f.dispatch(`{"title":"for ever","description":"d"}`)
	id := last.MissionStartRefs[0].MissionID
	ready()
	code, out, errOut := h.berth("voyages", "cancel", last.ID)
	if code != exitOK || !strings.Contains(out, "Cancelled") {
		t.Errorf("cancel: exit %d, %s%s", code, out, errOut)
	}
	if m := f.mission(id); m.Status != "Cancelled" {
		t.Errorf("the mission is %s", m.Status)
	}
	if _, told := f.ended(id); !strings.HasSuffix(told, "The mission is Cancelled.\n") {
		t.Errorf("told %s", told)
	}
}

// What a person at a browser sees of it.
func TestAVoyageAtTheDashboardInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	h := newHouse(t)
	must(t, h.start())
	f := newFleet(h, "None")
	ready, release := f.hold()
	v := f.dispatch(`{"title":"Add limiter","description":"d","alias":"core"}`, `{"title":"Document it","description":"d","dependsOnMissionAlias":"core"}`)
	first, second := v.MissionStartRefs[0].MissionID, v.MissionStartRefs[1].MissionID
	base := "http://" + h.broker.Addr()
	p := b.Page(t, base, browsertest.Options{})
	token, err := os.ReadFile(filepath.Join(h.state, "api-token"))
	must(t, err)
	p.Go(base + "/voyages/" + v.ID)
	p.Type("#token", strings.TrimSpace(string(token)))
	p.Click("button.primary")
	p.Await(`document.querySelectorAll(".box").length === 2 && document.querySelector(".box.inprogress") !== null`)
	if got := p.Text("main"); !strings.Contains(got, "waits for the mission before it") {
		t.Errorf("the voyage: %s", got)
	}
	p.Shot("real-voyage")
	p.Go(base + "/missions/" + first)
	p.Await(`document.querySelector(".tail") && document.querySelector(".tail").textContent.includes("waits")`)
	ready()
	release()
	p.Await(`document.querySelector(".tail").textContent.includes("goes on") && document.querySelector("[data-part=diff]").textContent.includes("+of ` + first + `")`)
	p.Shot("real-mission-running")
	p.Go(base + "/missions/" + second)
	p.Await(`document.querySelector(".tail") && document.querySelector(".tail").textContent.includes("waits")`)
	ready()
	browsertest.Eval[any](p, `document.querySelector("#part-actions details").open = true`)
	p.Click("#part-actions button.danger")
	if got := p.Text("main"); !strings.Contains(got, "The mission was cancelled.") || !strings.Contains(got, "Cancelled") {
		t.Errorf("after the cancel: %s", got)
	}
	for _, path := range []string{"/voyages", "/voyages/" + v.ID} {
		p.Go(base + path)
		p.Shot("real" + strings.ReplaceAll(strings.TrimSuffix(path, "/"+v.ID), "/", "-") + map[bool]string{true: "-ended"}[strings.Contains(path, v.ID)])
	}
	p.Clean()
}

// A hold refuses the routes that start work, with the body that the tools have,
// and nothing is written.
func TestAHoldRefusesTheRoutesThatStartMissions(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	must(t, h.start())
	f := newFleet(h, "None")
	ready, _ := f.hold()
	v := f.dispatch(`{"title":"a","description":"d"}`)
	id := v.MissionStartRefs[0].MissionID
	ready()
	f.do("DELETE", "/api/v1/missions/"+id, http.StatusOK, nil, nil)
	f.do("POST", "/api/v1/hold", http.StatusOK, map[string]any{"Action": "engage", "Reason": "node upgrade", "SetBy": "ops-1"}, nil)
	standing := func() string {
		var all []string
		for _, kind := range []string{"voyages", "missions", "docks", "jobs"} {
			_, _, list := h.operator("GET", "/api/v1/"+kind+"?pageNumber=1&pageSize=100", "")
			var page struct{ Objects []json.RawMessage }
			must(t, json.Unmarshal(list, &page))
			for _, o := range page.Objects {
				all = append(all, string(o))
			}
		}
		return strings.Join(all, "\n")
	}
	before, w := standing(), newWire(h, "held")
	for _, tt := range []struct {
		path, body, tool string
		arguments        map[string]any
	}{
		{"voyages", `{"Title":"t","VesselId":"` + f.vessel + `","Missions":[{"Title":"a","Description":"b"}]}`, "dispatch",
			map[string]any{"title": "t", "vesselId": f.vessel, "missions": []any{map[string]any{"title": "a", "description": "b"}}}},
		{"missions", `{"Title":"t","Description":"d","VesselId":"` + f.vessel + `"}`, "create_mission", map[string]any{"title": "t", "description": "d", "vesselId": f.vessel}},
		{"missions/" + id + "/restart", ``, "restart_mission", map[string]any{"missionId": id}},
	} {
		status, _, answer := h.operator("POST", "/api/v1/"+tt.path, tt.body)
		var refused struct {
			Code, Message string
			Data          json.RawMessage
		}
		must(t, json.Unmarshal(answer, &refused))
		_, tool := w.refusedCall(tt.tool, tt.arguments, "")
		if status != http.StatusConflict || refused.Code != "dispatch_hold_active" || string(refused.Data) != tool || !strings.Contains(tool, `"SetBy":"ops-1"`) {
			t.Errorf("%s: status %d, %s\nthe tool: %s", tt.path, status, answer, tool)
		}
	}
	if after := standing(); after != before {
		t.Errorf("before: %s\nafter: %s", before, after)
	}
}

// A mission that a backup has as under way fails as it is restored, and the
// AgentWake participant hears of it as after a restart.
func TestARestoreTellsOfTheMissionsThatItEnded(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.configure(map[string]any{"berth": map[string]any{"agent_wake": map[string]any{"participant_key": "admiral"}}})
	must(t, h.start())
	f := newFleet(h, "None")
	ready, _ := f.hold()
	id := f.dispatch(`{"title":"Add limiter","description":"d"}`).MissionStartRefs[0].MissionID
	ready()
	if code, out, errOut := h.berth("hold"); code != exitOK || !strings.Contains(out, "Working missions  1") || !strings.Contains(out, id) {
		t.Errorf("what a restart would end: exit %d: %s%s", code, out, errOut)
	}
	file := filepath.Join(h.dir, "b.zip")
	if code, _, errOut := h.berth("backup", file); code != exitOK {
		t.Fatal(errOut)
	}
	if code, _, errOut := h.berth("restore", file); code != exitRefused || !strings.Contains(errOut, "restore_blocked_by_work") {
		t.Errorf("over a running mission: exit %d: %s", code, errOut)
	}
	f.do("DELETE", "/api/v1/missions/"+id, http.StatusOK, nil, nil)
	if code, out, _ := h.berth("hold"); code != exitOK || !strings.Contains(out, "Working missions  0") {
		t.Errorf("after the cancel: exit %d: %s", code, out)
	}
	if code, _, errOut := h.berth("restore", file); code != exitOK {
		t.Fatal(errOut)
	}
	if m := f.mission(id); m.Status != "Failed" || m.FailureReason == nil || *m.FailureReason != "lost_on_restart" {
		t.Errorf("restored: %+v", m)
	}
	wakes := h.as("admiral").board().UnreadWakes
	if len(wakes) != 1 || !strings.Contains(wakes[0].Payload, id) || !strings.Contains(wakes[0].Payload, "lost_on_restart") {
		t.Errorf("wakes: %+v", wakes)
	}
}

func TestAStopTellsOfTheMissionsThatItEnds(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	must(t, h.start())
	f := newFleet(h, "None")
	ready, _ := f.hold()
	id := f.dispatch(`{"title":"Add limiter","description":"d"}`).MissionStartRefs[0].MissionID
	ready()
	if code, out, errOut := h.berth("stop", "--wait"); code != exitOK || !strings.Contains(out, "missions at work: 1.") || !strings.Contains(out, id) {
		t.Errorf("exit %d: %s%s", code, out, errOut)
	}
	h.awaitEnd()
	must(t, h.start())
	if m := f.mission(id); m.Status != "Failed" || m.FailureReason == nil || *m.FailureReason != "lost_on_restart" {
		t.Errorf("after the next start: %+v", m)
	}
}
