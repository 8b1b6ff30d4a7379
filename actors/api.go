package actors

import (
	"context"
	"encoding/json"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/drain"
)

// Upstream is a way to reach one backend. Open brings up a new incarnation and
// returns once its tools are listed; it is called again after that life has
// ended, never twice at once. Its error is a *broker.OpenError. hear takes what
// that life sends outside of any call.
type Upstream interface {
	Open(ctx context.Context, hear broker.Hear) (broker.Conn, error)
}

// Journal is what the actors need of the journal. Every method is safe for
// concurrent use; a write returns only when it is durable.
type Journal interface {
	// CreateJob writes a new record, Accepted or (a promoted call) Running.
	// When its idempotency key already names a job in the same scope, that job
	// is returned with created false if the digests are equal, else the error
	// is the refusal idempotency_conflict. It fails with an error that wraps
	// broker.ErrJournalBusy when too many creations wait.
	CreateJob(ctx context.Context, job broker.Job) (stored broker.Job, created bool, err error)
	// FirstJob gives the job that the idempotency key of job names in its scope,
	// judged as by CreateJob; found is false when there is none. Nothing is
	// written.
	FirstJob(job broker.Job) (first broker.Job, found bool, err error)
	// ChangeJob applies change to the record of id in one transaction with its
	// index entries and events. It waits for its turn however long the queue is.
	ChangeJob(ctx context.Context, id string, change broker.JobChange) (broker.Job, error)
	// Job reads one record with its result.
	Job(id string) (broker.Job, error)
	// Jobs lists records without results, newest submission first.
	Jobs(filter broker.JobFilter) (broker.JobPage, error)
	// Watch signals each committed change of a job until the function is called.
	Watch(id string) (<-chan struct{}, func())
	// AppendEvent writes an event that belongs to no other write.
	AppendEvent(ctx context.Context, e broker.Event) error
	// Prune removes final records past their retention, at most limit, and says
	// how many.
	Prune(ctx context.Context, now time.Time, limit int) (int, error)
	// SaveCatalog keeps a backend's catalog for the next start, and writes the
	// events of what changed in it, in one transaction.
	SaveCatalog(ctx context.Context, c broker.StoredCatalog, events ...broker.Event) error
}

// Request is one call as a transport hands it over, after policy.
type Request struct {
	Call      *broker.Call
	RequestID string // raw JSON of the JSON-RPC id; empty: it cannot be cancelled by id

	// PromoteAfter is how long the caller waits before the call becomes a job;
	// zero or less: never.
	PromoteAfter time.Duration
	// Long asks for a job at once. So does an IdempotencyKey.
	Long           bool
	IdempotencyKey string
	Digest         string // of verb and arguments; with a key
	// Held says that a hold stops the call.
	Held bool
	// Binding names the instance of a local app that the caller's session brings;
	// nil: the configured one answers.
	Binding *Binding
	// CallTimeout limits the run, QueueTimeout the wait; zero is the backend's default.
	CallTimeout  time.Duration
	QueueTimeout time.Duration

	// Peer is the caller while it waits; nothing of it is called after Do has
	// returned.
	Peer broker.Peer
	// Tasks says that the caller takes a job as a task: what the backend asks
	// after the reply is kept as a question of the job, unless Tasks gives the
	// error that answers it at once. Nil: the caller of a job cannot be asked.
	Tasks func(method string, params json.RawMessage) *broker.RPCError
	// DropCancels makes the end of Do's ctx a cancel, as in the stateless era of
	// the protocol, where a client has no other way to say it.
	DropCancels bool
	// Away reports that nobody waits for the call at the moment: its caller was
	// asked something and may come back with the answer, or not. Nil: never. It
	// must not block and is asked as long as the call runs.
	Away func() bool

	// Span is the part of a trace that the call is in; nil: it is not traced.
	Span Span

	asking func() bool // a question to the caller is open; nil: never
}

// Reply is the one answer to a Request: exactly one of Answer, Refusal and Job
// is set, or Cancelled is true and nothing is to be said.
type Reply struct {
	Answer *broker.Answer
	// Tracked stands beside an Answer: the job that follows the work which the
	// call began in a local app. Untracked: there is such work, and the journal
	// could not take its record.
	Tracked   *broker.Job
	Untracked bool
	Refusal   *broker.Refusal
	Job       *broker.Job
	Replayed  bool // Job is the first job of a repeated idempotency key
	Cancelled bool
	Timing    broker.Timing
}

// SessionInfo is what is known of a harness session. It never holds the
// session's token.
type SessionInfo struct {
	Key             string // names the session in queues, logs and lists
	Principal       broker.Principal
	Profile         string // empty for the merged profile
	ProtocolVersion string
	ClientName      string
	ClientVersion   string
	Capabilities    json.RawMessage
	Started         time.Time
}

// SessionView is a session as an operator sees it.
type SessionView struct {
	SessionInfo
	InFlight int
	Calls    uint64
	LastSeen time.Time
}

// BackendState is what a backend is doing.
type BackendState string

// The states of a backend. Idle is a lazy backend that was not needed yet.
const (
	StateIdle     BackendState = "idle"
	StateStarting BackendState = "starting"
	StateReady    BackendState = "ready"
	StateBackoff  BackendState = "backoff"
	StateRefused  BackendState = "refused"
	StateDraining BackendState = "draining" // its life ends, for another one or for good
	StateStopped  BackendState = "stopped"
	StateDisabled BackendState = "disabled"
)

// Availability is the state as the catalog tells it: what comes up with a call
// counts as ready.
func (s BackendState) Availability() catalog.Availability {
	switch s {
	case StateIdle, StateReady:
		return catalog.Ready
	case StateStarting, StateDraining:
		return catalog.Starting
	}
	return catalog.Down
}

// BackendView is a backend as an operator sees it. A nil pointer is unknown.
type BackendView struct {
	Name         string
	Kind         string // native, stdio or http
	State        BackendState
	Since        time.Time
	BackoffUntil *time.Time
	LastError    string
	FailedStarts int // since it last came up: with one or more, Idle is no sign that it does
	RuntimeID    *string
	Reported     bool
	PID          int
	Incarnations int
	Tools        *int
	InFlight     int
	Seats        int
	QueuedCalls  int
	QueuedJobs   int
	Answered     uint64
	Failed       uint64
	Shed         uint64
	Abandoned    uint64
	OldestWait   time.Duration
	Flags        []string
	Draining     *drain.Notice // by an operator; nil: it takes calls
	EnvNames     []string      // names only
	HeaderNames  []string      // names only
}
