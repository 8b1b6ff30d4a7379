package jobs

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/schema"
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

// inputSchema is the compiled form of the entry's schema. The entry is a
// constant and a test compiles it, so that it cannot fail here.
var inputSchema = sync.OnceValues(func() (*schema.Schema, error) {
	var e struct {
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	if err := json.Unmarshal([]byte(entry), &e); err != nil {
		return nil, err
	}
	return schema.Compile(e.InputSchema)
})

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
	// After gives a channel that receives once d is over, and a function that
	// gives it up. Without it nothing waits: waitSeconds counts as 0.
	After func(d time.Duration) (<-chan time.Time, func())
}

// Family is the native family jobs, an upstream in the process.
type Family struct {
	store Store
	opts  Options
}

// New makes the family.
func New(store Store, opts Options) *Family { return &Family{store: store, opts: opts} }

// Source is the family as the catalog takes it.
func (f *Family) Source() catalog.Source {
	return catalog.Source{
		Backend: Backend, Native: true, Family: "jobs", Listed: true, Server: f.opts.Server,
		Tools:   []broker.Tool{{Name: Verb, Raw: json.RawMessage(entry)}},
		Aliases: map[string]string{Alias: Verb},
		Effects: map[string]broker.Effects{Verb: broker.Read},
		Control: []string{Verb},
		Beside:  []string{Verb}, Handlers: []string{Verb},
		Facts: map[string]catalog.Facts{Verb: {Essential: true}},
	}
}

// Open gives a connection; it never fails and has no limit.
func (f *Family) Open(context.Context, broker.Hear) (broker.Conn, error) {
	return &conn{family: f, done: make(chan struct{})}, nil
}

// conn is one life of the family.
type conn struct {
	family *Family
	done   chan struct{}
	once   sync.Once
}

// Incarnation gives the facts of this life.
func (c *conn) Incarnation() broker.Incarnation {
	return broker.Incarnation{
		RuntimeID: c.family.opts.RuntimeID, Reported: c.family.opts.RuntimeID != "",
		Server: c.family.opts.Server, Tools: c.family.Source().Tools,
		Done: c.done, Cause: func() string { return "the native verbs were stopped" },
	}
}

// List gives the verbs, which do not change.
func (c *conn) List(context.Context) ([]broker.Tool, []string, error) {
	return c.family.Source().Tools, nil, nil
}

// Close ends the life; waits in it end with it.
func (c *conn) Close(context.Context) error {
	c.once.Do(func() { close(c.done) })
	return nil
}

// Call answers job_status. Its only errors are the ends of ctx and of this life.
func (c *conn) Call(ctx context.Context, call *broker.Call, _ broker.Peer) (broker.Answer, error) {
	var params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(call.Params, &params); err != nil || params.Name != Verb {
		return broker.Answer{}, &broker.Failure{Cause: "the native family jobs has no such verb", Refusal: broker.Refuse(
			broker.CodeVerbUnknown, "Tool not found: "+call.Verb, map[string]any{"name": call.Verb})}
	}
	answer, err := c.status(ctx, call.Principal, params.Arguments)
	if err != nil {
		return broker.Answer{}, err
	}
	answer.RuntimeID = c.family.opts.RuntimeID
	return answer, nil
}
