package rest

import (
	"encoding/json"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/drain"
	"berth/broker/native/status"
)

// The shapes of the answers, PascalCase; a nil pointer is unknown and null.
// Times are text that ends in Z.

// Status is the answer of GET /api/v1/status.
type Status struct {
	Version    string
	RuntimeID  string `json:"RuntimeId"`
	StartedUTC string `json:"StartedUtc"`
	// UptimeSeconds is whole seconds.
	UptimeSeconds int64
	Counts        Counts
	// ConfigurationFile is the file that the broker was started with; null: it
	// was started without one.
	ConfigurationFile *string
	// What the verb `status` answers; left out where nobody tells it.
	*status.Report
}

// Health is the answer of GET /api/v1/status/health.
type Health struct {
	Status    string // healthy; a broker that is not gives no answer
	Timestamp string
	StartUTC  string `json:"StartUtc"`
	Uptime    string // such as 26h3m12s
	Version   string
}

// Counts are what the broker holds at this moment.
type Counts struct {
	Sessions       int
	Backends       map[actors.BackendState]int // by state
	Tools          int                         // of the merged profile, known so far
	Pending        []string                    // backends of which nothing is known
	InFlight       int                         // calls running, over all backends
	Queued         int                         // calls and jobs waiting, over all backends
	Jobs           *int                        // null when the journal cannot be read
	UnfinishedJobs *int
}

// Page is the answer of every list.
type Page[T any] struct {
	Success      bool
	Objects      []T
	TotalRecords int
}

func page[T any](objects []T) Page[T] {
	if objects == nil {
		objects = []T{}
	}
	return Page[T]{Success: true, Objects: objects, TotalRecords: len(objects)}
}

// ToolPage is the answer of GET /api/v1/tools.
type ToolPage struct {
	Page[Tool]
	Profile string
	Pending []string // backends of this profile of which nothing is known: the list is not whole
}

// Tool is one verb as an operator sees it.
type Tool struct {
	Name                string
	Upstream            string // the backend's own name of it
	Backend             string
	Native              bool
	Effects             []string
	EffectsSource       string
	Long                bool
	Seats               int
	PromoteAfterSeconds *float64        // null: the default; negative: never
	CallTimeoutSeconds  *float64        // null: the default
	Listed              json.RawMessage // the entry as tools/list gives it
}

// Backend is one backend as an operator sees it.
type Backend struct {
	Name            string
	Kind            string
	State           actors.BackendState
	SinceUTC        *string `json:"SinceUtc"`
	BackoffUntilUTC *string `json:"BackoffUntilUtc"`
	LastError       *string
	FailedStarts    int     // since it last came up
	RuntimeID       *string `json:"RuntimeId"`
	Reported        bool    // the backend itself gave RuntimeId
	PID             *int    `json:"Pid"`
	Incarnations    int
	Tools           *int
	InFlight        int
	Seats           int
	QueuedCalls     int
	QueuedJobs      int
	Answered        uint64
	Failed          uint64
	Shed            uint64
	Abandoned       uint64
	OldestWaitMS    int64 `json:"OldestWaitMs"`
	Flags           []string
	// Draining says that an operator has it take no new calls; null: it takes them.
	Draining    *drain.View
	EnvNames    []string
	HeaderNames []string
}

func backendView(b actors.BackendView) Backend {
	v := Backend{Name: b.Name, Kind: b.Kind, State: b.State, SinceUTC: timeText(b.Since),
		LastError: text(b.LastError), FailedStarts: b.FailedStarts, RuntimeID: b.RuntimeID, Reported: b.Reported,
		Incarnations: b.Incarnations, Tools: b.Tools, InFlight: b.InFlight, Seats: b.Seats,
		QueuedCalls: b.QueuedCalls, QueuedJobs: b.QueuedJobs, Answered: b.Answered, Failed: b.Failed,
		Shed: b.Shed, Abandoned: b.Abandoned, OldestWaitMS: b.OldestWait.Milliseconds(),
		Flags: list(b.Flags), Draining: b.Draining.View(), EnvNames: list(b.EnvNames), HeaderNames: list(b.HeaderNames)}
	if b.BackoffUntil != nil {
		v.BackoffUntilUTC = timeText(*b.BackoffUntil)
	}
	if b.PID != 0 {
		v.PID = &b.PID
	}
	return v
}

// Session is one harness session as an operator sees it.
type Session struct {
	Key             string
	Tenant          string
	User            string
	Role            broker.Role
	Profile         *string // null: the merged profile
	ProtocolVersion *string
	ClientName      *string
	ClientVersion   *string
	Capabilities    json.RawMessage
	StartedUTC      *string `json:"StartedUtc"`
	LastSeenUTC     *string `json:"LastSeenUtc"`
	InFlight        int
	Calls           uint64
}

func sessionView(s actors.SessionView) Session {
	return Session{Key: s.Key, Tenant: s.Principal.Tenant, User: s.Principal.User, Role: s.Principal.Role,
		Profile: text(s.Profile), ProtocolVersion: text(s.ProtocolVersion), ClientName: text(s.ClientName),
		ClientVersion: text(s.ClientVersion), Capabilities: s.Capabilities,
		StartedUTC: timeText(s.Started), LastSeenUTC: timeText(s.LastSeen), InFlight: s.InFlight, Calls: s.Calls}
}

// JobPage is the answer of GET /api/v1/jobs. Its objects are job records
// without results.
type JobPage struct {
	Page[json.RawMessage]
	UnreadableJournalRecords int
}

// Job is a job record as a reader decodes it; broker.Job.Handle writes it.
type Job struct {
	JobID          string `json:"JobId"`
	Operation      string
	Status         broker.JobStatus
	SubmittedAtUTC string  `json:"SubmittedAtUtc"`
	StartedAtUTC   *string `json:"StartedAtUtc"`
	CompletedAtUTC *string `json:"CompletedAtUtc"`
	Result         json.RawMessage
	FailureMessage *string
	ObjectiveID    *string `json:"ObjectiveId"`
	VesselID       *string `json:"VesselId"`
	Reason         *string
	Refusal        json.RawMessage
	Replayed       bool `json:",omitempty"`
}

// CallRequest is the body of POST /api/v1/calls.
type CallRequest struct {
	Name              string
	Arguments         json.RawMessage `json:",omitempty"` // an object; absent is {}
	Profile           string          `json:",omitempty"` // empty: the merged profile
	IdempotencyKey    string          `json:",omitempty"`
	ExpectedRuntimeID string          `json:"ExpectedRuntimeId,omitempty"`
	// PromoteAfterSeconds is how long the caller waits before the call becomes
	// a job; zero or less is never, null the verb's or the broker's default.
	PromoteAfterSeconds *float64 `json:",omitempty"`

	trace broker.TraceContext // of its headers
}

// CallAnswer is the answer of POST /api/v1/calls: exactly one of Result,
// Error, Job and Refusal is set. It comes with status 200 whatever was
// answered, because the status may have been sent while the call ran.
type CallAnswer struct {
	Result    json.RawMessage  `json:",omitempty"` // what the backend answered, as it stands
	Error     *broker.RPCError `json:",omitempty"` // the backend's JSON-RPC error, as it stands
	Job       json.RawMessage  `json:",omitempty"` // the call became this job
	Tracked   json.RawMessage  `json:",omitempty"` // beside Result: the job that follows the work which it says was started
	Untracked bool             `json:",omitempty"` // beside Result: there is such work, and no job could be written
	Refusal   json.RawMessage  `json:",omitempty"` // code, message, detail, retryable, retry_after_ms
	RuntimeID *string          `json:"RuntimeId"`  // incarnation that answered
	Timing    *Timing
}

// Timing is what was observed of a call.
type Timing struct {
	OfferedUTC *string `json:"OfferedUtc"`
	StartedUTC *string `json:"StartedUtc"` // null: it never ran
	EndedUTC   *string `json:"EndedUtc"`
	QueueMS    *int64  `json:"QueueMs"`
	RunMS      *int64  `json:"RunMs"`
}

func timingView(t broker.Timing) *Timing {
	if t.Offered.IsZero() {
		return nil
	}
	v := &Timing{OfferedUTC: timeText(t.Offered), StartedUTC: timeText(t.Started), EndedUTC: timeText(t.Ended)}
	if !t.Started.IsZero() {
		v.QueueMS = millis(t.Started.Sub(t.Offered))
		if !t.Ended.IsZero() {
			v.RunMS = millis(t.Ended.Sub(t.Started))
		}
	}
	return v
}

// Rotated is the answer of POST /api/v1/token/rotate. It never holds the token.
type Rotated struct {
	Success    bool
	RotatedUTC string `json:"RotatedUtc"`
}

func millis(d time.Duration) *int64 {
	ms := d.Milliseconds()
	return &ms
}

func timeText(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := broker.FormatTime(t)
	return &s
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
