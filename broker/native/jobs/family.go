package jobs

import (
	"log/slog"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/native"
)

// Backend is the name of the native family among the backends.
const Backend = catalog.NativeName

// Verb and Alias are the names of the one verb.
const (
	Verb  = "job_status"
	Alias = "armada_job_status"
)

// MaxWait is the longest wait for a change, in seconds.
const MaxWait = 50

const entry = `{"name":"job_status","title":"Status of a job",` +
	`"description":"Status and result of a job: the record behind a JobId that an earlier call answered with. Status is Accepted or Running while the work goes on, then Succeeded (Result holds what the call answered), Failed or Lost (FailureMessage and Reason say why; a Lost job is never run again by itself). ` +
	`Give waitSeconds to wait for a change instead of asking again and again: the answer comes as soon as the status changes, at the latest when the time is over, and a job that is still Running then can be asked for again.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"jobId":{"type":"string","description":"The JobId of the job, such as job_mpkd6cu0_Uuql5kDlrM4."},` +
	`"waitSeconds":{"type":"integer","default":0,"description":"How long to wait for the status to change, in seconds, 0 to 50; a number outside is taken as the nearest one inside."}` +
	`},"required":["jobId"]},` +
	`"annotations":{"idempotentHint":true,"openWorldHint":false}}`

// Store is what the family reads jobs from.
type Store interface {
	// Job reads one record with its result. An id that is not there is an
	// error that wraps broker.ErrJobNotFound.
	Job(id string) (broker.Job, error)
	// Jobs lists records without results, newest submission first.
	Jobs(filter broker.JobFilter) (broker.JobPage, error)
	// Watch gives a channel that is closed, or receives, after the next change
	// of the job, and a function that gives it up. A nil channel never does.
	Watch(id string) (<-chan struct{}, func())
	// Delayed reports whether an outcome of the job is known and not yet durable.
	Delayed(id string) bool
}

// Options are the optional and the injected parts of a family.
type Options struct {
	// RuntimeID names this life of the broker; it becomes the incarnation's.
	RuntimeID string
	// Server is what the incarnation says of itself.
	Server broker.ServerInfo
	Now    func() time.Time
	Log    *slog.Logger // nil discards
	// After gives a channel that receives once d is over, and a function that
	// gives it up. Without it nothing waits: waitSeconds counts as 0.
	After func(d time.Duration) (<-chan time.Time, func())
}

// Family is the native family jobs, an upstream in the process.
type Family struct {
	*native.Verbs
	store Store
	opts  Options
}

// New makes the family.
func New(store Store, opts Options) *Family {
	f := &Family{store: store, opts: opts}
	f.Verbs = native.NewFamily("jobs", native.Options{RuntimeID: opts.RuntimeID, Server: opts.Server, Now: opts.Now, Log: opts.Log}, native.Verb{
		Name: Verb, Entry: entry, Aliases: []string{Alias}, Effects: broker.Read, Control: true, Beside: true,
		Facts: catalog.Facts{Essential: true, Required: true}, Answer: f.status,
	})
	return f
}
