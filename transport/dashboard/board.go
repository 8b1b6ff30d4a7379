package dashboard

import (
	"net/http"
	"net/url"
	"strings"
)

// boardState is what GET /api/v1/board answers.
type boardState struct {
	RoomKey  string
	Messages []struct {
		ID               string `json:"Id"`
		AuthorType       string
		AuthorName       string
		Content          string
		ContentLength    int
		Truncated        bool
		ToParticipantKey *string
		CreatedUTC       string `json:"CreatedUtc"`
	}
	ActiveParticipants []struct {
		ParticipantKey, DisplayName string
		LastSeenUTC                 string `json:"LastSeenUtc"`
	}
	ActiveClaims []struct {
		SubjectType, ParticipantKey, Note string
		SubjectID                         string `json:"SubjectId"`
		ExpiresUTC                        string `json:"ExpiresUtc"`
	}
}

type noteRow struct {
	Author, Kind, To, Content string
	Length                    int
	Truncated                 bool
	At                        *moment
}

func (d *Dashboard) board(r *http.Request) (*page, error) {
	q := r.URL.Query()
	room := filterText(q, "room")
	query := url.Values{"limit": {"50"}}
	if room != "" {
		query.Set("room", room)
	}
	var state boardState
	if err := d.get(r, "/api/v1/board", query, &state); err != nil {
		return nil, err
	}
	var rows []noteRow
	for _, m := range state.Messages {
		rows = append(rows, noteRow{Author: m.AuthorName, Kind: m.AuthorType, To: pointed(m.ToParticipantKey), Content: m.Content, Length: m.ContentLength, Truncated: m.Truncated, At: d.at(&m.CreatedUTC)})
	}
	type claimRow struct {
		Subject, By, Note string
		Until             *moment
	}
	var claims []claimRow
	for _, c := range state.ActiveClaims {
		claims = append(claims, claimRow{c.SubjectType + " " + c.SubjectID, c.ParticipantKey, c.Note, d.at(&c.ExpiresUTC)})
	}
	return &page{Title: "Board", At: "/board", Parts: []part{
		{ID: "room", Name: "boardroom", Data: map[string]any{"Room": state.RoomKey}},
		{ID: "post", Name: "boardpost", Data: map[string]any{"Room": state.RoomKey, "CSRF": d.Guard.CSRF(r), "By": setter(r)}},
		{ID: "notes", Name: "notes", Live: true, Data: map[string]any{"Rows": rows}},
		{ID: "present", Name: "present", Live: true, Data: map[string]any{"Participants": state.ActiveParticipants, "Claims": claims}},
	}}, nil
}

func (d *Dashboard) post(r *http.Request) (string, error) {
	room := r.PostForm.Get("room")
	content := strings.ReplaceAll(r.PostForm.Get("content"), "\r\n", "\n") // how forms send the end of a line
	body := map[string]string{"Content": content, "AuthorName": setter(r), "RoomKey": room}
	if to := r.PostForm.Get("to"); to != "" {
		body["ToParticipantKey"] = to
	}
	if err := d.change(r, "/api/v1/board", body, nil); err != nil {
		return "", err
	}
	return "/board?done=posted&room=" + url.QueryEscape(room), nil
}
