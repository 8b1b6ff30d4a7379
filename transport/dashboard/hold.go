package dashboard

import (
	"net/http"

	"berth/transport/httpguard"
)

// holdState is what GET /api/v1/hold answers.
type holdState struct {
	Active bool
	Hold   *struct {
		Reason, SetBy string
		SetByUTC      string `json:"SetByUtc"`
	}
	UnfinishedJobs []struct {
		JobID          string `json:"JobId"`
		Operation      string
		Status         string
		SubmittedAtUTC string `json:"SubmittedAtUtc"`
	}
	WorkingMissions []string
}

// shownUnfinished bounds how many unfinished jobs, and how many missions, the
// page of the hold lists.
const shownUnfinished = 100

func (d *Dashboard) hold(r *http.Request) (*page, error) {
	var state holdState
	if err := d.get(r, "/api/v1/hold", nil, &state); err != nil {
		return nil, err
	}
	data := map[string]any{"State": state, "CSRF": d.Guard.CSRF(r), "By": setter(r), "Total": len(state.UnfinishedJobs), "More": max(0, len(state.UnfinishedJobs)-shownUnfinished)}
	state.UnfinishedJobs = state.UnfinishedJobs[:min(len(state.UnfinishedJobs), shownUnfinished)]
	data["Missions"], data["MoreMissions"] = len(state.WorkingMissions), max(0, len(state.WorkingMissions)-shownUnfinished)
	state.WorkingMissions = state.WorkingMissions[:min(len(state.WorkingMissions), shownUnfinished)]
	data["State"] = state
	if state.Hold != nil {
		data["Since"] = d.at(&state.Hold.SetByUTC)
	}
	return &page{Title: "Hold", At: "/hold", Parts: []part{
		{ID: "hold", Name: "hold", Live: true, Status: true, Data: data},
		{ID: "change", Name: "holdchange", Live: true, Data: map[string]any{"Active": state.Active, "CSRF": data["CSRF"], "By": data["By"]}},
		{ID: "unfinished", Name: "unfinished", Live: true, Data: data},
	}}, nil
}

// setter is the name under which who is logged in changes the hold.
func setter(r *http.Request) string {
	p, _ := httpguard.Principal(r.Context())
	return p.User
}

func (d *Dashboard) changeHold(r *http.Request) (string, error) {
	action := r.PostForm.Get("action")
	err := d.change(r, "/api/v1/hold", map[string]string{"Action": action, "Reason": r.PostForm.Get("reason"), "SetBy": setter(r)}, nil)
	if err != nil {
		return "", err
	}
	if action == "clear" {
		return "/hold?done=cleared", nil
	}
	return "/hold?done=engaged", nil
}
