package dispatch

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
	"berth/broker/native/events"
	"berth/broker/native/nativetest"
	"berth/broker/native/status"
)

// overview is the family status over a rig.
func overview(r *rig) *native.Verbs {
	s := status.New(status.Options{Jobs: jobsOf{r.store}, Events: events.New(r.store.Journal, r.family.opts.Now, r.family.opts.Log), Now: r.family.opts.Now, Log: r.family.opts.Log,
		More: r.family.Entities(), Work: r.family.Standing, Waiting: r.family.Waiting})
	return status.NewFamily(s, native.Options{Now: r.family.opts.Now})
}

// jobsOf has the jobs that a test says there are.
type jobsOf struct{ *store }

func (j jobsOf) Job(id string) (broker.Job, error) { return broker.Job{}, broker.ErrJobNotFound }

func TestRecordsOfMissionsAreListed(t *testing.T) {
	r := newRig(t)
	settle(r)
	f := overview(r)
	for _, tt := range []struct{ arguments, want string }{
		{`{"entityType":"voyages"}`, "vyg_two vyg_over vyg_open vyg_done"},
		{`{"entityType":"voyage","order":"CreatedAscending","pageSize":2}`, "vyg_done vyg_open"},
		{`{"entityType":"voyage","order":"CreatedAscending","pageSize":3,"pageNumber":2}`, "vyg_two"},
		{`{"entityType":"voyages","jobId":"job_of_vyg_over"}`, "vyg_over"},
		{`{"entityType":"voyages","jobId":"job_none"}`, ""},
		{`{"entityType":"voyages","vesselId":"vsl_two"}`, "vyg_two"},
		{`{"entityType":"voyages","status":"failed"}`, "vyg_over"},
		{`{"entityType":"voyages","createdAfter":"2026-05-04T08:30:00Z"}`, ""},
		{`{"entityType":"missions","voyageId":"vyg_over"}`, "msn_landing msn_follows msn_failed"},
		{`{"entityType":"missions","voyageId":"vyg_open","status":"Complete"}`, "msn_complete"},
		{`{"entityType":"missions","captainId":"cpt_working"}`, "msn_running"},
		{`{"entityType":"missions","missionId":"msn_alone"}`, "msn_alone"},
		{`{"entityType":"captains","status":"Stalled"}`, "cpt_stalled"},
		{`{"entityType":"captains","missionId":"msn_running"}`, "cpt_working"},
		{`{"entityType":"docks","missionId":"msn_failed"}`, "dck_failed"},
		{`{"entityType":"docks","status":"Available"}`, "dck_free"},
		{`{"entityType":"vessels","status":"ignored","pageSize":1}`, "vsl_two"},
	} {
		var page struct {
			Objects []struct {
				ID string `json:"Id"`
			}
		}
		text := nativetest.Call(t, f, broker.LocalOperator, "enumerate", tt.arguments)
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, o := range page.Objects {
			got = append(got, o.ID)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: got %v, want %s", tt.arguments, got, tt.want)
		}
	}
	for _, kind := range []string{"voyages", "missions", "captains", "docks"} {
		if got := nativetest.Call(t, f, broker.LocalOperator, "enumerate", `{"entityType":"`+kind+`","status":"Done"}`); !strings.Contains(got, `"Code":"invalid_status"`) || !strings.Contains(got, `"Statuses":["`) {
			t.Errorf("%s: %s", kind, got)
		}
	}
	if got := nativetest.Call(t, f, broker.LocalOperator, "enumerate", `{"entityType":"missions","missionId":"msn_failed"}`); strings.Contains(got, "All of") || !strings.Contains(got, `"DescriptionLength":18`) {
		t.Errorf("a list shows long texts: %s", got)
	}
	if got := nativetest.Call(t, f, broker.LocalOperator, "enumerate", `{"entityType":"missions","missionId":"msn_failed","includeDescription":true}`); !strings.Contains(got, `"Text":"All of msn_failed."`) {
		t.Errorf("the description is not there: %s", got)
	}
	if got := nativetest.Call(t, f, broker.LocalOperator, "enumerate", `{"entityType":"missions","pageSize":2}`); !strings.Contains(got, `"TotalPages":5,"TotalRecords":10`) {
		t.Errorf("the numbers are wrong: %s", got)
	}
	amended := kept[dispatch.Vessel](r, "vsl_one")
	amended.ProjectContext, amended.StyleGuide = ptr("größer"), ptr("tabs")
	keep(r, amended)
	if got := nativetest.Call(t, f, broker.LocalOperator, "enumerate", `{"entityType":"vessels"}`); strings.Contains(got, "tabs") || !strings.Contains(got, `"ProjectContextLength":6,"StyleGuideLength":4`) {
		t.Errorf("a list shows long texts: %s", got)
	}
	if got := nativetest.Call(t, f, broker.LocalOperator, "enumerate", `{"entityType":"vessels","includeContext":true}`); !strings.Contains(got, `"ProjectContext":"größer","StyleGuide":"tabs"`) || strings.Contains(got, "Length") {
		t.Errorf("what missions are told is not there: %s", got)
	}
	r.store.fail = errors.New("the disk is gone")
	if got := nativetest.Call(t, f, broker.LocalOperator, "enumerate", `{"entityType":"missions"}`); !strings.Contains(got, `"job_journal_unavailable"`) {
		t.Errorf("a journal that fails is an empty page: %s", got)
	}
}

func TestTheStatusCountsWhatGoesOn(t *testing.T) {
	r := newRig(t)
	settle(r)
	var got struct {
		TotalCaptains, IdleCaptains, WorkingCaptains, StalledCaptains, ActiveVoyages int
		MissionsByStatus                                                             map[string]int
		Voyages                                                                      []struct {
			Voyage                                                               struct{ Title string }
			TotalMissions, CompletedMissions, FailedMissions, InProgressMissions int
		}
	}
	if err := json.Unmarshal([]byte(nativetest.Call(t, overview(r), broker.LocalOperator, "status", `{}`)), &got); err != nil {
		t.Fatal(err)
	}
	if got.TotalCaptains != 3 || got.IdleCaptains != 1 || got.WorkingCaptains != 1 || got.StalledCaptains != 1 || got.ActiveVoyages != 2 || got.MissionsByStatus["Cancelled"] != 3 || got.MissionsByStatus["LandingFailed"] != 1 {
		t.Errorf("got %+v", got)
	}
	if len(got.Voyages) != 2 || got.Voyages[0].Voyage.Title != "Elsewhere" || got.Voyages[1].TotalMissions != 5 || got.Voyages[1].CompletedMissions != 1 || got.Voyages[1].InProgressMissions != 1 {
		t.Errorf("voyages %+v", got.Voyages)
	}
	r.store.fail = errors.New("the disk is gone")
	if text := nativetest.Call(t, overview(r), broker.LocalOperator, "status", `{}`); !strings.Contains(text, `"TotalCaptains":null`) || !strings.Contains(text, `"MissionsByStatus":null`) {
		t.Errorf("what nobody measured is %s", text)
	}
}

func TestTheInboxHasWhatWaitsForSomebody(t *testing.T) {
	r := newRig(t)
	settle(r)
	job := func(id string, s broker.JobStatus, reason broker.Code, ago time.Duration) broker.Job {
		at := r.now.Add(-ago)
		return broker.Job{ID: id, Status: s, Operation: Operation, Reason: reason, CompletedAt: &at, FailureMessage: "of " + id}
	}
	r.store.jobs = []broker.Job{job("job_failed", broker.JobFailed, broker.CodeStartFromRefMissing, time.Second), job("job_cancelled", broker.JobFailed, broker.CodeCancelled, time.Hour),
		job("job_old", broker.JobFailed, broker.CodeOperationFailed, 25*time.Hour), job("job_lost", broker.JobLost, broker.CodeJobLostOnRestart, 2*time.Hour)}
	keep(r, dispatch.Mission{ID: "msn_long_ago", Status: dispatch.MissionFailed, CompletedUTC: ptr(r.now.Add(-25 * time.Hour))})
	var got struct {
		Count, CriticalCount, WarningCount int
		Items                              []status.Item
	}
	if err := json.Unmarshal([]byte(nativetest.Call(t, overview(r), broker.LocalOperator, "inbox", `{}`)), &got); err != nil {
		t.Fatal(err)
	}
	seen := []string{}
	for _, i := range got.Items {
		seen = append(seen, i.Severity+" "+i.Kind+" "+i.EntityID)
	}
	const want = "Critical landing_failed msn_landing, Warning voyage_dispatch_failed job_failed, Warning failed msn_failed, Warning stalled_captain cpt_stalled, Warning job_lost job_lost"
	if strings.Join(seen, ", ") != want || got.Count != 5 || got.CriticalCount != 1 || got.WarningCount != 4 {
		t.Errorf("got %v, want %s", seen, want)
	}
	if got.Items[0].Detail != "merge_conflict: Both changed a file." || got.Items[0].Href != "/api/v1/missions/msn_landing" {
		t.Errorf("got %+v", got.Items[0])
	}
}

// TestAPageIsTheSameHoweverItIsRead: a page that the journal's list gives, and
// one for which every record was looked at.
func TestAPageIsTheSameHoweverItIsRead(t *testing.T) {
	r := newRig(t)
	settle(r)
	f := overview(r)
	for _, filter := range []string{`"entityType":"missions"`, `"entityType":"missions","voyageId":"vyg_open"`, `"entityType":"missions","status":"Cancelled"`, `"entityType":"missions","vesselId":"vsl_one"`,
		`"entityType":"voyages"`, `"entityType":"voyages","jobId":"job_of_vyg_over"`, `"entityType":"docks"`, `"entityType":"captains","status":"Idle"`, `"entityType":"vessels"`} {
		for _, order := range []string{"CreatedAscending", "CreatedDescending"} {
			for _, page := range []string{`"pageSize":3`, `"pageSize":3,"pageNumber":2`, `"pageSize":3,"pageNumber":9`, `"pageSize":1000,"pageNumber":1000`} {
				arguments := filter + `,"order":"` + order + `",` + page
				short := nativetest.Call(t, f, broker.LocalOperator, "enumerate", `{`+arguments+`}`)
				long := nativetest.Call(t, f, broker.LocalOperator, "enumerate", `{`+arguments+`,"createdAfter":"2001-01-01T00:00:00Z"}`)
				if short != long {
					t.Errorf("%s:\n%s\n%s", arguments, short, long)
				}
			}
		}
	}
}
