package dispatch

import (
	"time"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/shape"
)

// maxText is how much of a long text stands in the answer of a verb that shows
// several, in characters.
const maxText = 4096

// cutText is a text of which only the beginning may be shown.
type cutText struct {
	Text       string `json:"Text"`
	Truncated  bool   `json:"Truncated"`
	FullLength int    `json:"FullLength"` // in characters
}

func cut(s string) *cutText {
	out := &cutText{Text: s, FullLength: utf8.RuneCountInString(s)}
	if out.FullLength > maxText {
		out.Text, out.Truncated = characters(s, 0, maxText), true
	}
	return out
}

// characters gives n characters of s from one on.
func characters(s string, from, n int) string {
	begin, at := len(s), 0
	for i := range s {
		switch at {
		case from:
			begin = i
		case from + n:
			return s[begin:i]
		}
		at++
	}
	return s[begin:]
}

// VoyageRow is a voyage in a list, and in the answer that tells of its missions.
// Its description is a length unless it was asked for.
type VoyageRow struct {
	ID string `json:"Id"`
	dispatch.Owner
	Title             string                `json:"Title"`
	Description       any                   `json:"Description,omitempty"`
	DescriptionLength *int                  `json:"DescriptionLength,omitempty"`
	Status            dispatch.VoyageStatus `json:"Status"`
	VesselID          string                `json:"VesselId"`
	SourceJobID       *string               `json:"SourceJobId,omitempty"`
	Materialized      bool                  `json:"Materialized"`
	Reason            *string               `json:"Reason,omitempty"`
	CreatedUTC        string                `json:"CreatedUtc"`
	CompletedUTC      *string               `json:"CompletedUtc,omitempty"`
	LastUpdateUTC     string                `json:"LastUpdateUtc"`
}

func voyageRow(v dispatch.Voyage, description bool) VoyageRow {
	row := VoyageRow{ID: v.ID, Owner: v.Owner, Title: v.Title, Status: v.Status, VesselID: v.VesselID, SourceJobID: v.SourceJobID, Materialized: v.Materialized,
		Reason: v.Reason, CreatedUTC: broker.FormatTime(v.CreatedUTC), CompletedUTC: moment(v.CompletedUTC), LastUpdateUTC: broker.FormatTime(v.LastUpdateUTC)}
	row.Description, row.DescriptionLength = long(v.Description, description)
	return row
}

// long shows a text, cut, or its length in characters.
func long(s *string, whole bool) (shown any, length *int) {
	switch {
	case s == nil:
		return nil, nil
	case whole:
		return cut(*s), nil
	}
	n := utf8.RuneCountInString(*s)
	return nil, &n
}

func moment(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := broker.FormatTime(*t)
	return &s
}

// VesselRow is a vessel in a list. What its missions are told is a length unless
// it was asked for.
type VesselRow struct {
	dispatch.Vessel
	ProjectContext       *string `json:"ProjectContext,omitempty"`
	ProjectContextLength *int    `json:"ProjectContextLength,omitempty"`
	StyleGuide           *string `json:"StyleGuide,omitempty"`
	StyleGuideLength     *int    `json:"StyleGuideLength,omitempty"`
}

func vesselRow(v dispatch.Vessel, context bool) VesselRow {
	row := VesselRow{Vessel: v}
	if context {
		row.ProjectContext, row.StyleGuide = v.ProjectContext, v.StyleGuide
		return row
	}
	_, row.ProjectContextLength = long(v.ProjectContext, false)
	_, row.StyleGuideLength = long(v.StyleGuide, false)
	return row
}

// MissionRow is a mission in a list. What it does not have is left out.
type MissionRow struct {
	ID                string                   `json:"Id"`
	VoyageID          *string                  `json:"VoyageId,omitempty"`
	VesselID          string                   `json:"VesselId,omitempty"`
	Title             string                   `json:"Title,omitempty"`
	Description       any                      `json:"Description,omitempty"`
	DescriptionLength *int                     `json:"DescriptionLength,omitempty"`
	Mode              dispatch.Mode            `json:"Mode,omitempty"`
	Priority          *int                     `json:"Priority,omitempty"`
	Status            dispatch.MissionStatus   `json:"Status,omitempty"`
	Assignment        dispatch.Assignment      `json:"AssignmentState,omitempty"`
	FailureReason     *dispatch.FailureReason  `json:"FailureReason,omitempty"`
	FailureMessage    *string                  `json:"FailureMessage,omitempty"`
	Branch            *string                  `json:"BranchName,omitempty"`
	Commit            *string                  `json:"CommitHash,omitempty"`
	StartCommit       *string                  `json:"StartCommit,omitempty"`
	Alias             *string                  `json:"Alias,omitempty"`
	DependsOn         *string                  `json:"DependsOnMissionId,omitempty"`
	Prestaged         []dispatch.PrestagedFile `json:"PrestagedFiles,omitempty"`
	Persona           string                   `json:"Persona,omitempty"`
	Model             *string                  `json:"PreferredModel,omitempty"`
	CaptainID         *string                  `json:"CaptainId,omitempty"`
	DockID            *string                  `json:"DockId,omitempty"`
	CreatedUTC        string                   `json:"CreatedUtc,omitempty"`
	StartedUTC        *string                  `json:"StartedUtc,omitempty"`
	CompletedUTC      *string                  `json:"CompletedUtc,omitempty"`
	LastUpdateUTC     string                   `json:"LastUpdateUtc,omitempty"`
	Diff              *cutText                 `json:"Diff,omitempty"`
	Log               *cutText                 `json:"Log,omitempty"`
}

func missionRow(m dispatch.Mission, description bool) MissionRow {
	row := MissionRow{ID: m.ID, VoyageID: m.VoyageID, VesselID: m.VesselID, Title: m.Title, Mode: m.Mode, Priority: &m.Priority, Status: m.Status, Assignment: m.Assignment,
		FailureReason: m.FailureReason, FailureMessage: m.FailureMessage, Branch: m.Branch, Commit: m.Commit, StartCommit: m.StartCommit, Alias: m.Alias, DependsOn: m.DependsOn,
		Prestaged: m.Prestaged, Persona: m.Persona, Model: m.PreferredModel, CaptainID: m.CaptainID, DockID: m.DockID, CreatedUTC: broker.FormatTime(m.CreatedUTC),
		StartedUTC: moment(m.StartedUTC), CompletedUTC: moment(m.CompletedUTC), LastUpdateUTC: broker.FormatTime(m.LastUpdateUTC)}
	row.Description, row.DescriptionLength = long(&m.Description, description)
	return row
}

// missionFields are the groups of fields that a caller may choose among, by the
// contract's words (contracts/native.md section 4).
var missionFields = map[string]func(*MissionRow, MissionRow){
	"titles": func(to *MissionRow, m MissionRow) { to.Title = m.Title },
	"statuses": func(to *MissionRow, m MissionRow) {
		to.Status, to.Assignment, to.FailureReason = m.Status, m.Assignment, m.FailureReason
	},
	"commitHashes": func(to *MissionRow, m MissionRow) {
		to.Commit, to.StartCommit, to.Branch = m.Commit, m.StartCommit, m.Branch
	},
	"dependsOn": func(to *MissionRow, m MissionRow) { to.DependsOn, to.Alias = m.DependsOn, m.Alias },
	"prestaged": func(to *MissionRow, m MissionRow) { to.Prestaged = m.Prestaged },
	"persona":   func(to *MissionRow, m MissionRow) { to.Persona = m.Persona },
	"model":     func(to *MissionRow, m MissionRow) { to.Model = m.Model },
}

// chosen is a row with the fields of some groups alone, or all of them.
func (m MissionRow) chosen(groups []string) MissionRow {
	if len(groups) == 0 {
		return m
	}
	out := MissionRow{ID: m.ID, Description: m.Description, Diff: m.Diff, Log: m.Log}
	for _, g := range groups {
		if take := missionFields[g]; take != nil {
			take(&out, m)
		}
	}
	return out
}

// output is an agent's final message, without what looks like a credential. What
// an earlier try said of a mission that was restarted is none of it.
func (f *Family) output(m dispatch.Mission) (text string, finalized bool, err error) {
	if begins(m) {
		return "", false, nil
	}
	text, finalized, err = f.opts.Papers.Output(m.ID)
	return shape.Redact(text), finalized, err
}

// begins reports whether no agent has begun on a mission, or on it again: what is
// kept of it in files is of an earlier try.
func begins(m dispatch.Mission) bool {
	return m.StartedUTC == nil && (m.Status == dispatch.MissionPending || m.Status == dispatch.MissionAssigned)
}

// diff is the saved one, as output is the message; false: there is none.
func (f *Family) diff(m dispatch.Mission) (text string, ok bool, err error) {
	if begins(m) {
		return "", false, nil
	}
	return f.opts.Papers.Diff(m.ID)
}
