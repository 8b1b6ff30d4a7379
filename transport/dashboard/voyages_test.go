package dashboard_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"berth/broker"
	"berth/transport/rest"
)

func TestChangesOfWorkGoThroughTheOperatorAPI(t *testing.T) {
	r := newRig(t)
	b := r.login("operator-token")
	for _, tt := range []struct{ path, to, api, body string }{
		{"/voyages/vyg_1/cancel", "/voyages/vyg_1?done=voyage-cancelled", "/api/v1/voyages/vyg_1", "null"},
		{"/missions/msn_run/cancel", "/missions/msn_run?done=mission-cancelled", "/api/v1/missions/msn_run", "null"},
		{"/missions/msn_bad/restart", "/missions/msn_bad?done=mission-restarted", "/api/v1/missions/msn_bad/restart", "{}"},
		{"/missions/msn_land/retry-landing", "/missions/msn_land?done=landed", "/api/v1/missions/msn_land/retry-landing", "{}"},
		{"/backends/files/drain", "/backends/files?done=backend-drain", "/api/v1/backends/files/drain", `{"Reason":"r"}`},
		{"/backends/files/resume", "/backends/files?done=backend-resume", "/api/v1/backends/files/resume", `{"Reason":"r"}`},
		{"/backends/files/restart", "/backends/files?done=backend-restart", "/api/v1/backends/files/restart", `{"Reason":"r"}`},
		{"/credentials/crd_1/revoke", "/credentials?done=revoked", "/api/v1/credentials/crd_1/revoke", `{"Reason":"r"}`},
	} {
		w := b.post(tt.path, url.Values{"reason": {"r"}})
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != tt.to {
			t.Errorf("%s: status %d, to %q", tt.path, w.Code, w.Header().Get("Location"))
			continue
		}
		if last := r.changes[len(r.changes)-1]; last != (change{tt.api, "default/operator", tt.body}) {
			t.Errorf("%s: the API was told %+v", tt.path, last)
		}
		if page := text(parse(t, b.send("GET", tt.to, nil).Body.String())); !strings.Contains(page, "The ") {
			t.Errorf("%s: the page does not say what was done", tt.to)
		}
	}
	r.refuse["POST /api/v1/missions/msn_bad/restart"] = broker.CodeDispatchHold
	w := b.post("/missions/msn_bad/restart", url.Values{})
	if page := text(parse(t, w.Body.String())); w.Code != 409 || !strings.Contains(page, "dispatch_hold_active") {
		t.Errorf("a restart under a hold: status %d, %s", w.Code, page)
	}
}

// A page offers what the status of a mission admits, and nothing else.
func TestAMissionOffersWhatItsStatusAdmits(t *testing.T) {
	r := newRig(t)
	b := r.login("operator-token")
	for id, want := range map[string][]string{"msn_run": {"cancel"}, "msn_wait": {"cancel"}, "msn_bad": {"restart"}, "msn_off": {"restart"}, "msn_land": {"cancel", "retry-landing"}, "msn_core": nil} {
		var got []string
		for _, f := range all(parse(t, b.send("GET", "/missions/"+id, nil).Body.String()), "form") {
			if what, found := strings.CutPrefix(attr(f, "action"), "/missions/"+id+"/"); found {
				got = append(got, what)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

func TestAVoyageShowsItsMissionsAndWhatTheyWaitFor(t *testing.T) {
	r := newRig(t)
	b := r.login("operator-token")
	page := parse(t, b.send("GET", "/voyages/vyg_1", nil).Body.String())
	boxes := all(page, "foreignObject")
	if len(boxes) != 6 {
		t.Fatalf("%d boxes", len(boxes))
	}
	var told []string
	for _, box := range boxes {
		told = append(told, strings.Join(strings.Fields(text(box)), " "))
	}
	for _, want := range []string{"Add a token bucket to the public routes Complete core", "Document it InProgress docs", "Release notes Pending waits for the mission before it",
		"Measure what it costs Failed no_commit_produced", "Publish the numbers Cancelled dependency_failed", "Tidy up the old limiter LandingFailed working_directory_dirty"} {
		if !slices.Contains(told, want) {
			t.Errorf("no box says %q: %q", want, told)
		}
	}
	lines := 0
	for _, p := range all(page, "path") {
		if strings.HasPrefix(attr(p, "class"), "joint") {
			lines++
		}
	}
	if lines != 4 { // one for each that goes on from another here
		t.Errorf("%d lines", lines)
	}
	for _, f := range all(page, "form") {
		if attr(f, "action") == "/voyages/vyg_1/cancel" {
			return
		}
	}
	t.Error("a voyage that goes on cannot be cancelled")
}

func TestAVoyageThatHasEndedCannotBeCancelled(t *testing.T) {
	r := newRig(t)
	if page := r.login("operator-token").send("GET", "/voyages/vyg_0", nil).Body.String(); strings.Contains(page, "/voyages/vyg_0/cancel") {
		t.Error("it can")
	}
}

func TestVoyagesAreFiltered(t *testing.T) {
	r := newRig(t)
	var asked []url.Values
	r.asked = func(q *http.Request) {
		if q.URL.Path == "/api/v1/voyages" {
			asked = append(asked, q.URL.Query())
		}
	}
	b := r.login("operator-token")
	for _, tt := range []struct{ query, want string }{
		{"", "pageNumber=1&pageSize=25"},
		{"?status=Failed&vessel=vsl_1&page=3", "pageNumber=3&pageSize=25&status=Failed&vesselId=vsl_1"},
	} {
		asked = nil
		if w := b.send("GET", "/voyages"+tt.query, nil); w.Code != 200 || len(asked) == 0 || asked[0].Encode() != tt.want {
			t.Errorf("%q: status %d, asked %v", tt.query, w.Code, asked)
		}
	}
}

// While a mission is worked on, an open page reads its log and no diff, which
// would be made anew each time; afterwards it has what came of it.
func TestALiveMissionReadsWhatChanges(t *testing.T) {
	r := newRig(t)
	asked := map[string]int{}
	r.asked = func(q *http.Request) { asked[q.URL.Path]++ }
	b := r.login("operator-token")
	w := b.send("GET", "/live?page="+url.QueryEscape("/missions/msn_run"), nil, cancelled)
	if body := w.Body.String(); !strings.Contains(body, "line 59") || strings.Contains(body, "limit/bucket.go") {
		t.Errorf("the stream has %s", body)
	}
	if asked["/api/v1/missions/msn_run/log"] == 0 || asked["/api/v1/missions/msn_run/diff"]+asked["/api/v1/missions/msn_run/output"] > 0 {
		t.Errorf("asked %v", asked)
	}
	w = b.send("GET", "/live?page="+url.QueryEscape("/missions/msn_core"), nil, cancelled)
	if body := w.Body.String(); !strings.Contains(body, "limit/bucket.go") || !strings.Contains(body, "The public routes are limited now.") {
		t.Errorf("the stream of one that has ended has %s", body)
	}
}

// Of a long log the last lines are shown, of a long diff the first.
func TestLongTextsOfAMissionAreCut(t *testing.T) {
	r := newRig(t)
	r.asked = func(q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "/log") {
			part := rest.MissionLog{Log: "the first line", Lines: 1, TotalLines: 7000}
			if q.URL.Query().Get("offset") == "6800" {
				part.Log, part.Lines = "a line near the end\n"+strings.Repeat("x", 10_000), 200
			}
			r.answers[q.URL.Path] = part
		}
	}
	r.answers["/api/v1/missions/msn_run/diff"] = rest.Diff{Diff: "diff --git a/x b/x\n@@ -1 +1 @@\n" + strings.Repeat("+one more\n", 5000)}
	page := text(parse(t, r.login("operator-token").send("GET", "/missions/msn_run", nil).Body.String()))
	for _, want := range []string{"the last lines of 7,000", "a line near the end", strings.Repeat("x", 400) + "…", "and 3,502 more lines"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if strings.Contains(page, "the first line") || strings.Contains(page, strings.Repeat("x", 401)) {
		t.Error("the page has what should be cut")
	}
}

func TestABackendThatIsNotThereIsNotFound(t *testing.T) {
	r := newRig(t)
	b := r.login("operator-token")
	for _, path := range []string{"/backends/none", "/voyages/none", "/missions/none"} {
		if w := b.send("GET", path, nil); w.Code != 404 {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
	if page := text(parse(t, b.send("GET", "/backends/remote", nil).Body.String())); !strings.Contains(page, "It takes no new calls") || !strings.Contains(page, "node upgrade") || !strings.Contains(page, "Resume it") {
		t.Errorf("a drained backend: %s", page)
	}
}

// A captain or a dock that was deleted meanwhile takes nothing else of the page
// with it.
func TestAMissionOutlivesItsCaptain(t *testing.T) {
	r := newRig(t)
	delete(r.answers, "/api/v1/captains/cpt_1")
	delete(r.answers, "/api/v1/docks/dck_1")
	delete(r.answers, "/api/v1/missions/msn_run/log")
	w := r.login("operator-token").send("GET", "/missions/msn_run", nil)
	if page := text(parse(t, w.Body.String())); w.Code != 200 || !strings.Contains(page, "cpt_1") || !strings.Contains(page, "Document it") {
		t.Errorf("status %d, %s", w.Code, page)
	}
}
