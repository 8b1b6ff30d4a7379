package rest

import "encoding/json"

// The bodies that the twins of dispatch take; keys in any letter case. A field
// that was not sent is not passed on, so that the verb's own defaults and checks
// count; where an empty text clears something, the field is a pointer.

type voyageBody struct {
	Title                  string              `json:",omitempty"`
	Description            string              `json:",omitempty"`
	VesselID               string              `json:"VesselId,omitempty"`
	Missions               []voyageMission     `json:",omitempty"`
	CodeContextMode        string              `json:",omitempty"`
	CodeContextTokenBudget *int                `json:",omitempty"`
	CodeContextMaxResults  *int                `json:",omitempty"`
	SelectedPlaybooks      []selectedPlaybook  `json:",omitempty"`
	PipelineID             string              `json:"PipelineId,omitempty"`
	Pipeline               string              `json:",omitempty"`
	ObjectiveID            string              `json:"ObjectiveId,omitempty"`
	SkipStages             []string            `json:",omitempty"`
	SkipStagesReason       string              `json:",omitempty"`
	CaptainAssignments     []captainAssignment `json:",omitempty"`
	ForcePreflight         *bool               `json:",omitempty"`
	IdempotencyKey         string              `json:",omitempty"`
}

type voyageMission struct {
	Title                 string             `json:",omitempty"`
	Description           string             `json:",omitempty"`
	Mode                  string             `json:",omitempty"`
	StartFromRef          string             `json:",omitempty"`
	Alias                 string             `json:",omitempty"`
	DependsOnMissionAlias string             `json:",omitempty"`
	DependsOnMissionID    string             `json:"DependsOnMissionId,omitempty"`
	PreferredModel        string             `json:",omitempty"`
	CapabilityHint        string             `json:",omitempty"`
	PrestagedFiles        []prestagedFile    `json:",omitempty"`
	SelectedPlaybooks     []selectedPlaybook `json:",omitempty"`
	CodeContextMode       string             `json:",omitempty"`
	CodeContextQuery      string             `json:",omitempty"`
}

type prestagedFile struct {
	SourcePath string `json:",omitempty"`
	DestPath   string `json:",omitempty"`
}

type selectedPlaybook struct {
	PlaybookID   string `json:"PlaybookId,omitempty"`
	DeliveryMode string `json:",omitempty"`
}

type captainAssignment struct {
	Persona      string `json:",omitempty"`
	CaptainID    string `json:"CaptainId,omitempty"`
	FallbackTier string `json:",omitempty"`
}

type missionBody struct {
	Title              *string            `json:",omitempty"`
	Description        *string            `json:",omitempty"`
	VesselID           *string            `json:"VesselId,omitempty"`
	VoyageID           *string            `json:"VoyageId,omitempty"`
	Persona            *string            `json:",omitempty"`
	Mode               *string            `json:",omitempty"`
	DependsOnMissionID *string            `json:"DependsOnMissionId,omitempty"`
	Priority           *int               `json:",omitempty"`
	SelectedPlaybooks  []selectedPlaybook `json:",omitempty"`
	StartFromRef       *string            `json:",omitempty"`
}

type missionChange struct {
	Title              *string `json:",omitempty"`
	Description        *string `json:",omitempty"`
	Priority           *int    `json:",omitempty"`
	BranchName         *string `json:",omitempty"`
	PRURL              *string `json:"PrUrl,omitempty"`
	Persona            *string `json:",omitempty"`
	ParentMissionID    *string `json:"ParentMissionId,omitempty"`
	DependsOnMissionID *string `json:"DependsOnMissionId,omitempty"`
	VesselID           *string `json:"VesselId,omitempty"`
	VoyageID           *string `json:"VoyageId,omitempty"`
}

type missionAgain struct {
	Title       *string `json:",omitempty"`
	Description *string `json:",omitempty"`
}

type statusWanted struct {
	Status string `json:",omitempty"`
}

type manyRecords struct {
	IDs []string `json:"Ids,omitempty"`
}

type captainBody struct {
	Name                 *string            `json:",omitempty"`
	Runtime              *string            `json:",omitempty"`
	Model                *string            `json:",omitempty"`
	APIKey               *string            `json:"ApiKey,omitempty"`
	APIBaseURL           *string            `json:"ApiBaseUrl,omitempty"`
	SystemInstructions   *string            `json:",omitempty"`
	AllowedPersonas      *listText          `json:",omitempty"`
	PreferredPersona     *string            `json:",omitempty"`
	Tier                 *string            `json:",omitempty"`
	PreferenceRank       *int               `json:",omitempty"`
	ReasoningEffort      *string            `json:",omitempty"`
	DefaultPlaybooks     []selectedPlaybook `json:",omitempty"`
	CustomCommand        *[]string          `json:",omitempty"`
	CustomPromptDelivery *string            `json:",omitempty"`

	// What the broker alone writes: passed on, so that the verb refuses it by
	// name when it is not what is stored.
	ID                  json.RawMessage `json:"Id,omitempty"`
	TenantID            json.RawMessage `json:"TenantId,omitempty"`
	UserID              json.RawMessage `json:"UserId,omitempty"`
	State               json.RawMessage `json:",omitempty"`
	CurrentMissionID    json.RawMessage `json:"CurrentMissionId,omitempty"`
	CurrentDockID       json.RawMessage `json:"CurrentDockId,omitempty"`
	ProcessID           json.RawMessage `json:"ProcessId,omitempty"`
	ProcessStartedUTC   json.RawMessage `json:"ProcessStartedUtc,omitempty"`
	RecoveryAttempts    json.RawMessage `json:",omitempty"`
	LastHeartbeatUTC    json.RawMessage `json:"LastHeartbeatUtc,omitempty"`
	LastProcessAliveUTC json.RawMessage `json:"LastProcessAliveUtc,omitempty"`
	QuarantineUntilUTC  json.RawMessage `json:"QuarantineUntilUtc,omitempty"`
	QuarantineReason    json.RawMessage `json:",omitempty"`
	CreatedUTC          json.RawMessage `json:"CreatedUtc,omitempty"`
	LastUpdateUTC       json.RawMessage `json:"LastUpdateUtc,omitempty"`
}

// listText is a list as the text that a verb takes: a record that was read, whose
// list is one, can be sent back.
type listText string

// UnmarshalJSON takes a list, or its text.
func (t *listText) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		text = string(b)
	}
	*t = listText(text)
	return nil
}

type quarantineBody struct {
	Reason          string `json:",omitempty"`
	UntilUTC        string `json:"UntilUtc,omitempty"`
	DurationMinutes *int   `json:",omitempty"`
}
