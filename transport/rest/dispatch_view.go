package rest

import "berth/broker/dispatch"

// The records of dispatch as a reader decodes them, from lists and from answers
// about one: without the texts that are told in different forms. The verbs write
// them.

// Voyage is a set of missions.
type Voyage struct {
	ID           string `json:"Id"`
	Title        string
	Status       dispatch.VoyageStatus
	VesselID     string  `json:"VesselId"`
	SourceJobID  *string `json:"SourceJobId,omitempty"`
	Materialized *bool   `json:",omitempty"`
	Reason       *string `json:",omitempty"`
	CreatedUTC   *string `json:"CreatedUtc,omitempty"`
	CompletedUTC *string `json:"CompletedUtc,omitempty"`
}

// Mission is one piece of work.
type Mission struct {
	ID             string `json:"Id"`
	Title          string `json:",omitempty"`
	Status         dispatch.MissionStatus
	Assignment     dispatch.Assignment `json:"AssignmentState,omitempty"`
	VoyageID       *string             `json:"VoyageId,omitempty"`
	VesselID       string              `json:"VesselId,omitempty"`
	Mode           dispatch.Mode       `json:",omitempty"`
	Persona        string              `json:",omitempty"`
	Priority       *int                `json:",omitempty"`
	Alias          *string             `json:",omitempty"`
	DependsOn      *string             `json:"DependsOnMissionId,omitempty"`
	StartFromRef   *string             `json:",omitempty"`
	StartCommit    *string             `json:",omitempty"`
	CaptainID      *string             `json:"CaptainId,omitempty"`
	DockID         *string             `json:"DockId,omitempty"`
	Branch         *string             `json:"BranchName,omitempty"`
	Commit         *string             `json:"CommitHash,omitempty"`
	FailureReason  *string             `json:",omitempty"`
	FailureMessage *string             `json:",omitempty"`
	CreatedUTC     *string             `json:"CreatedUtc,omitempty"`
	AssignedUTC    *string             `json:"AssignedUtc,omitempty"`
	StartedUTC     *string             `json:"StartedUtc,omitempty"`
	CompletedUTC   *string             `json:"CompletedUtc,omitempty"`
}

// Captain is an agent program.
type Captain struct {
	ID            string `json:"Id"`
	Name          string
	Runtime       dispatch.Runtime
	State         dispatch.CaptainState
	Model         *string       `json:",omitempty"`
	Tier          dispatch.Tier `json:",omitempty"`
	HasAPIKey     *bool         `json:"HasApiKey,omitempty"`
	MissionID     *string       `json:"CurrentMissionId,omitempty"`
	DockID        *string       `json:"CurrentDockId,omitempty"`
	ProcessID     *int          `json:"ProcessId,omitempty"`
	LastHeartbeat *string       `json:"LastHeartbeatUtc,omitempty"`
	BenchReason   *string       `json:",omitempty"`
	BenchUntil    *string       `json:"BenchUntilUtc,omitempty"`
	CreatedUTC    *string       `json:"CreatedUtc,omitempty"`
}

// Dock is a worktree.
type Dock struct {
	ID        string `json:"Id"`
	VesselID  string `json:"VesselId"`
	State     dispatch.DockState
	MissionID *string `json:"MissionId,omitempty"`
	CaptainID *string `json:"CaptainId,omitempty"`
	Path      string  `json:"WorktreePath,omitempty"`
	Branch    string  `json:"BranchName,omitempty"`
	Error     *string `json:",omitempty"`
}

// VoyageView is the answer of GET /api/v1/voyages/{id}.
type VoyageView struct {
	Voyage   Voyage
	Missions []Mission
}

// StartRef is where a mission of a dispatch begins.
type StartRef struct {
	MissionID    string  `json:"MissionId"`
	StartFromRef *string // null: the default branch, or the mission that it depends on
	Alias        string  `json:",omitempty"`
}

// Dispatched is the answer of POST /api/v1/voyages: a voyage, or the job that
// makes it, whose JobID is not empty then.
type Dispatched struct {
	Voyage
	JobID            string `json:"JobId"`
	MissionStartRefs []StartRef
}

// Landed is the answer of POST /api/v1/missions/{id}/retry-landing.
type Landed struct {
	Success bool
	Mission Mission
}

// Diff is the answer of GET /api/v1/missions/{id}/diff.
type Diff struct {
	MissionID string  `json:"MissionId"`
	Branch    *string // null: there is none yet
	Diff      string
}

// Output is the answer of GET /api/v1/missions/{id}/output.
type Output struct {
	MissionID      string `json:"MissionId"`
	ArtifactRef    string
	Offset         int // of Content, in characters
	Length         int
	TotalLength    int
	TotalUTF8Bytes int `json:"TotalUtf8Bytes"`
	Content        string
	HasMore        bool
	NextOffset     *int
	SHA256         string `json:"Sha256"` // of the whole
	Finalized      bool   // nothing follows
	Complete       bool   // Content is the whole
}
