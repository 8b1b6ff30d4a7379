package dispatch

import (
	"fmt"
	"strings"
	"time"

	"berth/broker"
)

// The prefixes of the records' ids (contracts/native.md section 0).
const (
	VesselPrefix  = "vsl_"
	CaptainPrefix = "cpt_"
	DockPrefix    = "dck_"
	MissionPrefix = "msn_"
	VoyagePrefix  = "vyg_"
)

// Owner is whose record it is.
type Owner struct {
	TenantID string `json:"TenantId"`
	UserID   string `json:"UserId"`
}

// OwnedBy gives the owner of what a principal creates.
func OwnedBy(p broker.Principal) Owner { return Owner{p.Tenant, p.User} }

// Readable reports whether a principal may know of the record: a global
// administrator may, and whoever is of its tenant.
func (o Owner) Readable(p broker.Principal) bool {
	return p.Role == broker.GlobalAdministrator || p.Tenant == o.TenantID
}

// LandingMode is what becomes of a finished branch.
type LandingMode string

// The landing modes. The last two are not built.
const (
	LandNone        LandingMode = "None"       // the branch is kept
	LandLocalMerge  LandingMode = "LocalMerge" // merged into the default branch
	LandPullRequest LandingMode = "PullRequest"
	LandMergeQueue  LandingMode = "MergeQueue"
)

// Vessel is a repository that missions work on.
type Vessel struct {
	ID string `json:"Id"`
	Owner
	Name             string      `json:"Name"`
	RepoURL          string      `json:"RepoUrl"`
	DefaultBranch    string      `json:"DefaultBranch"`
	WorkingDirectory *string     `json:"WorkingDirectory"`
	LocalPath        *string     `json:"LocalPath"` // the bare clone; removed with the vessel
	ProjectContext   *string     `json:"ProjectContext"`
	StyleGuide       *string     `json:"StyleGuide"`
	LandingMode      LandingMode `json:"LandingMode"`
	BranchCleanup    string      `json:"BranchCleanupPolicy"` // LocalOnly, LocalAndRemote or None
	Concurrent       bool        `json:"AllowConcurrentMissions"`
	ChecksToLand     bool        `json:"RequirePassingChecksToLand"`
	ProtectedPaths   []string    `json:"ProtectedPaths"`
	HasGitHubToken   bool        `json:"HasGitHubTokenOverride"`
	CreatedUTC       time.Time   `json:"CreatedUtc"`
	LastUpdateUTC    time.Time   `json:"LastUpdateUtc"`
}

// Runtime is the agent program of a captain.
type Runtime string

// The runtimes. Custom is a command of an operator's own.
const (
	ClaudeCode Runtime = "ClaudeCode"
	Codex      Runtime = "Codex"
	Gemini     Runtime = "Gemini"
	Cursor     Runtime = "Cursor"
	OpenCode   Runtime = "OpenCode"
	Custom     Runtime = "Custom"
)

// Runtimes lists those that are built.
var Runtimes = []Runtime{ClaudeCode, Codex, Gemini, Cursor, OpenCode, Custom}

// Tier is a captain's class.
type Tier string

// The tiers, cheapest first.
const (
	Economy  Tier = "Economy"
	Standard Tier = "Standard"
	Premium  Tier = "Premium"
)

// classes are the words in a model's name by which its tier is known; the first
// that is found counts.
var classes = []struct {
	word string
	tier Tier
}{{"-mini", Economy}, {"-nano", Economy}, {"haiku", Economy}, {"flash", Economy}, {"-lite", Economy}, {"small", Economy},
	{"opus", Premium}, {"ultra", Premium}, {"-pro", Premium}, {"-max", Premium}}

// TierOf classifies a model by its name; one that says nothing is Standard.
func TierOf(model *string) Tier {
	if model != nil {
		name := strings.ToLower(*model)
		for _, c := range classes {
			if strings.Contains(name, c.word) {
				return c.tier
			}
		}
	}
	return Standard
}

// Captain is an agent runtime that can take one mission at a time.
type Captain struct {
	ID string `json:"Id"`
	Owner
	Name             string       `json:"Name"`
	Runtime          Runtime      `json:"Runtime"`
	Model            *string      `json:"Model"`
	APIBaseURL       *string      `json:"ApiBaseUrl"`
	HasAPIKey        bool         `json:"HasApiKey"`
	Instructions     *string      `json:"SystemInstructions"`
	AllowedPersonas  []string     `json:"AllowedPersonas"` // empty: every one
	PreferredPersona *string      `json:"PreferredPersona"`
	Tier             Tier         `json:"Tier"`
	PreferenceRank   int          `json:"PreferenceRank"`
	ReasoningEffort  *string      `json:"ReasoningEffort"`
	CustomCommand    []string     `json:"CustomCommand"`
	PromptDelivery   string       `json:"CustomPromptDelivery"` // stdin, argument or file
	State            CaptainState `json:"State"`
	MissionID        *string      `json:"CurrentMissionId"`
	DockID           *string      `json:"CurrentDockId"`
	ProcessID        *int         `json:"ProcessId"`
	ProcessStarted   *time.Time   `json:"ProcessStartedUtc"`
	LastHeartbeat    *time.Time   `json:"LastHeartbeatUtc"`
	BenchReason      *string      `json:"BenchReason"`
	BenchUntil       *time.Time   `json:"BenchUntilUtc"`
	QuarantineReason *string      `json:"QuarantineReason"`
	CreatedUTC       time.Time    `json:"CreatedUtc"`
	LastUpdateUTC    time.Time    `json:"LastUpdateUtc"`
}

// Step gives the captain in another state.
func (c Captain) Step(to CaptainState) (Captain, error) {
	if err := captains.step(c.State, to); err != nil {
		return c, fmt.Errorf("captain %s: %w", c.ID, err)
	}
	c.State = to
	if to == CaptainIdle {
		c.MissionID, c.DockID, c.ProcessID, c.ProcessStarted, c.LastHeartbeat = nil, nil, nil, nil, nil
		c.BenchReason, c.BenchUntil, c.QuarantineReason = nil, nil, nil
	}
	return c, nil
}

// Recovered is the captain as a start leaves it once its process is gone.
func (c Captain) Recovered() Captain {
	switch c.State {
	case CaptainWorking, CaptainStalled, CaptainStopping:
		c.State = CaptainStopping // each of the three leads there or is there
		c, _ = c.Step(CaptainIdle)
	}
	return c
}

// Dock is a worktree of a vessel on a mission's branch.
type Dock struct {
	ID string `json:"Id"`
	Owner
	VesselID   string    `json:"VesselId"`
	MissionID  *string   `json:"MissionId"`
	CaptainID  *string   `json:"CaptainId"`
	Path       string    `json:"WorktreePath"`
	Branch     string    `json:"BranchName"`
	State      DockState `json:"State"`
	Error      *string   `json:"Error"`
	CreatedUTC time.Time `json:"CreatedUtc"`
	UpdatedUTC time.Time `json:"LastUpdateUtc"`
}

// Step gives the dock in another state.
func (d Dock) Step(to DockState) (Dock, error) {
	if err := docks.step(d.State, to); err != nil {
		return d, fmt.Errorf("dock %s: %w", d.ID, err)
	}
	d.State = to
	return d, nil
}

// Recovered is the dock as a start leaves it: live says whether its mission is
// still to be carried on, which after a restart none is.
func (d Dock) Recovered(live bool) Dock {
	switch {
	case d.State == DockProvisioning:
		d.State = DockFailed
	case d.State == DockLeased && !live:
		d.State = DockReclaiming
	}
	return d
}

// Mode is what a mission delivers: a commit, or a report without one.
type Mode string

// The modes.
const (
	Implementation Mode = "Implementation"
	Audit          Mode = "Audit"
	Research       Mode = "Research"
)

// Valid reports whether m is a mode.
func (m Mode) Valid() bool { return m == Implementation || m == Audit || m == Research }

// The personas of missions that the broker itself knows. Without pipelines every
// dispatched mission is a Worker's.
const (
	Worker = "Worker"
	Judge  = "Judge" // who alone may say that the work of others is complete
)

// Assignment says what a pending mission waits for. It is a reason, not a
// machine.
type Assignment string

// The reasons.
const (
	AssignmentPending   Assignment = "Pending"
	WaitingForMission   Assignment = "WaitingForDependency"
	WaitingForVessel    Assignment = "WaitingForVesselMutex"
	WaitingForCaptain   Assignment = "WaitingForIdleCaptain"
	WaitingForResources Assignment = "WaitingForResourcePressure"
	Provisioning        Assignment = "Provisioning"
	Assigned            Assignment = "Assigned"
	AssignmentFailed    Assignment = "Failed"
)

// FailureReason is why a mission ended badly.
type FailureReason string

// The reasons (contracts/native.md section 4).
const (
	LostOnRestart        FailureReason = "lost_on_restart"
	LaunchFailed         FailureReason = "launch_failed"
	ProvisionFailed      FailureReason = "provision_failed"
	ExitNonzero          FailureReason = "exit_nonzero"
	RefusedByCaptain     FailureReason = "refused_by_captain"
	VerdictFail          FailureReason = "verdict_fail"
	NoCommitProduced     FailureReason = "no_commit_produced"
	MissionTimeout       FailureReason = "mission_timeout"
	PromptTooLarge       FailureReason = "prompt_too_large"
	StartFromRefMissing  FailureReason = "start_from_ref_missing"
	DependencyFailed     FailureReason = "dependency_failed"
	DispatchLost         FailureReason = "dispatch_lost"
	MergeConflict        FailureReason = "merge_conflict"
	WorkingDirectoryBusy FailureReason = "working_directory_dirty"
	LandingBroken        FailureReason = "landing_failed" // neither of the two before
	ProtectedPathChanged FailureReason = "protected_path_changed"
	ChainNotLanded       FailureReason = "chain_not_landed"
	Cancelled            FailureReason = "cancelled"
)

// PrestagedFile is a file of the server that is copied into a dock.
type PrestagedFile struct {
	Source string `json:"sourcePath"`
	Dest   string `json:"destPath"`
}

// Mission is one piece of work for one captain. Its diff, log and output are
// kept apart.
type Mission struct {
	ID string `json:"Id"`
	Owner
	VoyageID       *string         `json:"VoyageId"`
	VesselID       string          `json:"VesselId"`
	Title          string          `json:"Title"`
	Description    string          `json:"Description"`
	Mode           Mode            `json:"Mode"`
	Persona        string          `json:"Persona"`
	Priority       int             `json:"Priority"` // lower first
	Alias          *string         `json:"Alias"`
	DependsOn      *string         `json:"DependsOnMissionId"`
	ParentID       *string         `json:"ParentMissionId"`
	StartFromRef   *string         `json:"StartFromRef"`
	StartCommit    *string         `json:"StartCommit"`
	PreferredModel *string         `json:"PreferredModel"`
	CapabilityHint *string         `json:"CapabilityHint"`
	ContextMode    string          `json:"CodeContextMode"`
	ContextQuery   *string         `json:"CodeContextQuery"`
	ContextTokens  *int            `json:"CodeContextTokenBudget"` // nil: the default
	ContextResults *int            `json:"CodeContextMaxResults"`
	Prestaged      []PrestagedFile `json:"PrestagedFiles"`

	Status         MissionStatus  `json:"Status"`
	Assignment     Assignment     `json:"AssignmentState"`
	CaptainID      *string        `json:"CaptainId"`
	DockID         *string        `json:"DockId"`
	ProcessID      *int           `json:"ProcessId"`
	ProcessStarted *time.Time     `json:"ProcessStartedUtc"`
	Branch         *string        `json:"BranchName"`
	Commit         *string        `json:"CommitHash"`
	PRURL          *string        `json:"PrUrl"`
	FailureReason  *FailureReason `json:"FailureReason"`
	FailureMessage *string        `json:"FailureMessage"`
	Landing        bool           `json:"LandingBegun"`
	CreatedUTC     time.Time      `json:"CreatedUtc"`
	AssignedUTC    *time.Time     `json:"AssignedUtc"`
	StartedUTC     *time.Time     `json:"StartedUtc"`
	CompletedUTC   *time.Time     `json:"CompletedUtc"`
	LastUpdateUTC  time.Time      `json:"LastUpdateUtc"`
}

// Step gives the mission in another status, as the broker may put it there.
// reason is kept of an end that is not Complete.
func (m Mission) Step(to MissionStatus, reason FailureReason, message string, at time.Time) (Mission, error) {
	if err := missions.step(m.Status, to); err != nil {
		return m, fmt.Errorf("mission %s: %w", m.ID, err)
	}
	m.Status, m.LastUpdateUTC = to, at
	switch {
	case to == MissionAssigned:
		m.AssignedUTC, m.Assignment = &at, Assigned
	case to == MissionInProgress && m.StartedUTC == nil:
		m.StartedUTC = &at
	}
	if to.Final() {
		m.CompletedUTC = &at
	}
	if to == MissionComplete || to == MissionWorkProduced {
		m.FailureReason, m.FailureMessage = nil, nil
	}
	if reason != "" {
		m.FailureReason, m.FailureMessage = &reason, &message
	}
	return m, nil
}

// StepAsked is Step for a caller's transition_mission_status, who may not do
// what is the broker's alone.
func (m Mission) StepAsked(to MissionStatus, at time.Time) (Mission, error) {
	if m.Status == MissionAssigned && to == MissionFailed {
		return m, fmt.Errorf("mission %s: %w: from %s to %s is for the broker", m.ID, ErrStep, m.Status, to)
	}
	return m.Step(to, "", "", at)
}

// Restarted is the mission as restart_mission makes it: pending again, without
// captain, branch, pull request and times. The commit that a ref was resolved to
// when the mission was made stays. Only what ended Failed or Cancelled
// is restarted.
func (m Mission) Restarted(at time.Time) (Mission, error) {
	if m.Status != MissionFailed && m.Status != MissionCancelled {
		return m, fmt.Errorf("mission %s: %w: from %s to %s", m.ID, ErrStep, m.Status, MissionPending)
	}
	m.Status, m.Assignment, m.LastUpdateUTC = MissionPending, AssignmentPending, at
	m.CaptainID, m.DockID, m.ProcessID, m.ProcessStarted, m.Branch, m.Commit, m.PRURL = nil, nil, nil, nil, nil, nil, nil
	m.FailureReason, m.FailureMessage, m.Landing = nil, nil, false
	m.AssignedUTC, m.StartedUTC, m.CompletedUTC = nil, nil, nil
	if m.StartFromRef == nil {
		m.StartCommit = nil // it begins where its branch or dependency is then
	}
	return m, nil
}

// Recovered is the mission as a start leaves it: what ran has failed, a landing
// that had begun has failed, and what was not begun stays as it is.
func (m Mission) Recovered(at time.Time) Mission {
	const message = "The broker stopped while this mission was under way; it is never run again by itself."
	switch {
	case m.Status.Live():
		m, _ = m.Step(MissionFailed, LostOnRestart, message, at)
	case m.Status == MissionWorkProduced && m.Landing:
		m, _ = m.Step(MissionLandingFailed, LostOnRestart, message, at)
	}
	return m
}

// Voyage is a set of missions that were dispatched together.
type Voyage struct {
	ID string `json:"Id"`
	Owner
	Title         string       `json:"Title"`
	Description   *string      `json:"Description"`
	Status        VoyageStatus `json:"Status"`
	VesselID      string       `json:"VesselId"`
	SourceJobID   *string      `json:"SourceJobId"`
	Materialized  bool         `json:"Materialized"` // every mission row is there
	MissionIDs    []string     `json:"-"`
	Reason        *string      `json:"Reason"`
	CreatedUTC    time.Time    `json:"CreatedUtc"`
	CompletedUTC  *time.Time   `json:"CompletedUtc"`
	LastUpdateUTC time.Time    `json:"LastUpdateUtc"`
}

// Step gives the voyage in another status.
func (v Voyage) Step(to VoyageStatus, at time.Time) (Voyage, error) {
	if err := voyages.step(v.Status, to); err != nil {
		return v, fmt.Errorf("voyage %s: %w", v.ID, err)
	}
	v.Status, v.LastUpdateUTC, v.CompletedUTC = to, at, nil
	if to.Over() {
		v.CompletedUTC = &at
	}
	return v, nil
}
