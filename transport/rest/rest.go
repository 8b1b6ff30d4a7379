package rest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/credential"
	"berth/broker/drain"
	"berth/broker/live"
	"berth/transport/httpguard"
)

// Calls runs calls. *actors.System satisfies it, as it does Views and Jobs.
type Calls interface {
	// Do runs one call that passed policy. The end of ctx is the caller's
	// connection having dropped.
	Do(ctx context.Context, r actors.Request) actors.Reply
	// Catalog gives the present snapshot.
	Catalog() *catalog.Snapshot
	// AwaitCatalog gives a snapshot in which nothing of the profile is
	// pending, or the present one when ctx ends.
	AwaitCatalog(ctx context.Context, profile string) *catalog.Snapshot
	// WhyPending refuses what depends on backends of which nothing is known.
	WhyPending(backends []string) *broker.Refusal
}

// Views shows what the broker is doing.
type Views interface {
	Sessions() []actors.SessionView
	Backends(ctx context.Context) []actors.BackendView
}

// Jobs reads and cancels jobs.
type Jobs interface {
	Job(id string) (broker.Job, error)
	Jobs(filter broker.JobFilter) (broker.JobPage, error)
	// Watch gives a channel that is signalled or closed when the job changes,
	// and what ends the watch.
	Watch(id string) (<-chan struct{}, func())
	CancelJob(ctx context.Context, id, reason string, by broker.Principal) (broker.Job, error)
}

// Uploads keeps an archive on the broker's host while it is restored.
type Uploads interface {
	// Keep writes body under a name that is made harmless first.
	Keep(body io.Reader, name string) (path string, remove func() error, err error)
}

// Drains is the operator's hand on the backends; *drain.Desk is one.
type Drains interface {
	Drain(ctx context.Context, who broker.Principal, backend, reason string) (drain.Drained, error)
	Resume(ctx context.Context, who broker.Principal, backend, reason string) (drain.Drained, error)
	// Restart gives what runs until wait is over.
	Restart(ctx, wait context.Context, who broker.Principal, backend, reason string) (drain.Drained, error)
	// Idle is the same answer once nothing is left there, or ctx is over.
	Idle(ctx context.Context, was drain.Drained) (drain.Drained, error)
}

// Accepter takes what a pinned backend lists now as what it may list.
type Accepter interface {
	AcceptCatalog(ctx context.Context, backend string) *broker.Refusal
}

// Journal gives its facts as values that encode to JSON.
type Journal interface {
	Stats(ctx context.Context) (any, error)
	Check(ctx context.Context) (any, error)
	// LookAt is Check as far as it comes until ctx ends; its value says what was
	// not looked at.
	LookAt(ctx context.Context) (any, error)
}

// Credentials makes and ends credentials; *credential.Desk satisfies it.
type Credentials interface {
	List() []credential.Record
	// Create gives the token, once.
	Create(ctx context.Context, by broker.Principal, spec credential.Spec) (credential.Record, string, error)
	Revoke(ctx context.Context, by broker.Principal, id, reason string) (credential.Record, error)
}

// Token replaces the credential; *statedir.Dir satisfies it. The old one must
// be refused once RotateToken has returned; the new one is found in the state
// directory only.
type Token interface {
	RotateToken() error
}

// Options is what the operator API stands on.
type Options struct {
	// Guard checks every request but /healthz. Required.
	Guard *httpguard.Guard
	// Calls, Views and Jobs are required. A route whose Journal, Inspect, Token
	// or Metrics is nil answers 404.
	Calls   Calls
	Views   Views
	Jobs    Jobs
	Journal Journal
	Inspect Inspect
	Token   Token
	Metrics http.Handler
	// Board is the coordination room; nil: 404.
	Board Board

	// Overview tells how the broker stands, beside what Views shows, and what
	// waits for an operator; nil: nobody does.
	Overview Overview

	// Events lists and deletes events, Journalled reads them for the streams;
	// nil: 404. Live has what happens now and is in no journal; nil: nothing.
	Events     Events
	Journalled Journalled
	Live       *live.Feed
	// Done ends the streams when it is closed.
	Done <-chan struct{}
	// MaxStreams is how many may be open; more are refused as overloaded. Zero
	// is 64.
	MaxStreams int
	// StreamWrite is how long a reader of a stream may take to accept a message
	// before it is cut off; zero is 10 s.
	StreamWrite time.Duration

	// LogEvery is how often a followed log is looked at; zero is 1 s.
	LogEvery time.Duration

	// Uploads keeps an archive that is to be restored; nil: 404.
	Uploads Uploads
	// Drains has backends take no new calls, and begin another life; nil: 404.
	Drains Drains
	// Credentials are those of the broker; nil: 404.
	Credentials Credentials
	// Reload puts the configuration file in force again; nil: 404.
	Reload Reloader
	// Accept is who takes the lists of pinned backends; nil: nobody.
	Accept Accepter
	// ReadOnly lets nobody do more than read, as the whole process does.
	ReadOnly bool
	// Proofs holds writes back until their callers saw what they change; nil: off.
	Proofs Proofs
	// JobCount counts the records of the journal without a visit to each; nil,
	// or not known: they are visited.
	JobCount func() (n int, known bool)
	// Tracer records what becomes of calls; nil: nobody does.
	Tracer Tracer
	// Refused is told of each call that policy refused; nil: nobody is.
	Refused func(broker.Code)
	// Surface is the tool surface of a profile; nil: 404.
	Surface func(*catalog.Profile) any
	// Tier is the profile of an endpoint that names none, TierSource where that
	// comes from.
	Tier, TierSource string

	// Configuration is the file that the broker was started with; empty: none.
	Configuration string
	// Version is the broker's, RuntimeID names its life, Started its begin.
	Version   string
	RuntimeID string
	Started   time.Time

	// PromoteAfter is how long a call waits before it becomes a job, when
	// neither the request nor the verb says; zero is 45 s.
	PromoteAfter time.Duration
	// KeepAlive is how often a waiting call writes white space, and a stream a
	// comment; zero is 10 s.
	KeepAlive time.Duration
	// CatalogWait is how long a list or an unknown name waits for backends of
	// which nothing is known yet; zero is 5 s.
	CatalogWait time.Duration
	// MaxWaiting is how many calls and waits for a job may be open at once;
	// more are refused as overloaded. Zero is 1024.
	MaxWaiting int
	// CallID makes ids of calls, unique in this process; nil counts.
	CallID func() string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log takes what a caller is not told; nil discards.
	Log *slog.Logger
}

type api struct {
	Options
	waiting   chan struct{} // a token for each open wait
	streaming chan struct{} // and for each stream
	described func() ([]byte, error)
}

// wait takes one of the places of those who wait; free gives it back.
func (a *api) wait() (free func(), refusal *broker.Refusal) {
	select {
	case a.waiting <- struct{}{}:
		return func() { <-a.waiting }, nil
	default:
		return nil, broker.Refuse(broker.CodeOverloaded, "Too many requests wait at the operator API; nothing was started.",
			map[string]any{"Waiting": cap(a.waiting)}).Retry(time.Second)
	}
}

// New builds the handler of every route in [Routes].
func New(o Options) http.Handler {
	if o.Guard == nil {
		o.Guard = httpguard.New(httpguard.Options{}) // lets nobody in
	}
	if o.PromoteAfter == 0 {
		o.PromoteAfter = 45 * time.Second
	}
	if o.KeepAlive <= 0 {
		o.KeepAlive = 10 * time.Second
	}
	if o.CatalogWait <= 0 {
		o.CatalogWait = 5 * time.Second
	}
	if o.MaxStreams <= 0 {
		o.MaxStreams = 64
	}
	if o.StreamWrite <= 0 {
		o.StreamWrite = 10 * time.Second
	}
	if o.LogEvery <= 0 {
		o.LogEvery = time.Second
	}
	if o.MaxWaiting <= 0 {
		o.MaxWaiting = 1024
	}
	if o.CallID == nil {
		o.CallID = countingIDs()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &api{Options: o, waiting: make(chan struct{}, o.MaxWaiting), streaming: make(chan struct{}, o.MaxStreams),
		described: sync.OnceValues(OpenAPI)}
	guarded := o.Guard.Wrap(a.mux())
	open := a.open()
	return httpguard.Recover(o.Log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The split is made before any mux, which would answer some paths with
		// a redirect and so without asking for a credential.
		if h, ok := open[r.URL.Path]; ok {
			httpguard.Headers(w)
			h.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	}))
}
