package codeindex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/dispatch"
	"berth/broker/native"
	"berth/broker/shape"
)

// Operation is what a job that updates an index is called.
const Operation = "code_index_update"

// Store is what the family reads and writes; *journal.Journal satisfies it.
type Store interface {
	Put(ctx context.Context, c broker.RecordChange) (broker.Record, error)
	Record(kind, id string) (broker.Record, error)
	Jobs(f broker.JobFilter) (broker.JobPage, error)
}

// Vessels gives a vessel that a principal may know of, or refuses it.
type Vessels interface {
	Vessel(who broker.Principal, id string) (dispatch.Vessel, error)
}

// Family is the native family codeindex.
type Family struct {
	*native.Verbs
	store   Store
	vessels Vessels
	index   Index
	opts    Options

	mu      sync.Mutex
	updates map[string]*update // by vessel
	calls   calls
}

// Options is what the family needs. Those of native are required.
type Options struct {
	native.Options
	// Counter counts the tokens of a pack; nil: there is no context_pack.
	Counter shape.Counter
	// Within gives a context that ends after a time; nil: nothing ends by itself.
	Within func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	// Missions has the missions that search; nil: there is no mission_code_search.
	Missions dispatch.Reader
	Captains CaptainSearch
}

// within limits ctx where the family was told how.
func (o Options) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if o.Within == nil {
		return ctx, func() {}
	}
	return o.Within(ctx, d)
}

// update is one that runs.
type update struct {
	job       string // its id; empty: not known
	progress  Progress
	heartbeat string
}

const vesselProperty = `"vesselId":{"type":"string","description":"The Id of the vessel."}`

var administrators = []broker.Role{broker.GlobalAdministrator}

// New makes the family.
func New(store Store, vessels Vessels, index Index, opts Options) *Family {
	opts.Captains.MaxResults, opts.Captains.MaxCalls = cmp.Or(opts.Captains.MaxResults, 10), cmp.Or(opts.Captains.MaxCalls, 40)
	f := &Family{store: store, vessels: vessels, index: index, opts: opts, updates: map[string]*update{}}
	verbs := []native.Verb{
		{Name: "index_status", Effects: broker.Read, Answer: f.statusVerb,
			Entry: `{"name":"index_status","title":"State of a code index","description":"What there is of the code index of a vessel: its commit, whether it is fresh, and how far an update is.","inputSchema":{"type":"object","properties":{` + vesselProperty + `},"required":["vesselId"]}}`},
		{Name: "index_update", Effects: broker.Write, Long: true, Answer: f.updateVerb,
			Entry: `{"name":"index_update","title":"Update a code index","description":"Bring the code index of a vessel to the present commit of its default branch. Answers with a job at once; ask job_status for its end and index_status for its progress. One update a vessel at a time.","inputSchema":{"type":"object","properties":{` + vesselProperty + `,"idempotencyKey":{"type":"string","minLength":1,"maxLength":128}},"required":["vesselId"]}}`},
		{Name: "code_search", Effects: broker.Read, Answer: f.searchVerb,
			Entry: `{"name":"code_search","title":"Search code","description":"Search the code index of a vessel for names and words. A name is found in any spelling, whole or by its parts, its definition first. Without an index the answer is unavailable and says what to do.","inputSchema":{"type":"object","properties":{` + vesselProperty +
				`,"query":{"type":"string","description":"Names or words."},"limit":{"type":"integer","default":10,"description":"1 to 100."},"pathPrefix":{"type":"string","description":"Only files below it."},"language":{"type":"string","description":"Only files of it, such as go or python."},"includeContent":{"type":"boolean","default":false,"description":"The whole text of each hit."},"includeReferenceOnly":{"type":"boolean","default":false,"description":"Also vendored and generated files and test data."}},"required":["vesselId","query"]}}`},
	}
	if opts.Counter != nil {
		verbs = append(verbs, f.packEntry())
	}
	for i := range verbs {
		verbs[i].Facts = catalog.Facts{Scope: administrators}
	}
	if opts.Missions != nil {
		verbs = append(verbs, f.missionEntry())
	}
	for i := range verbs {
		verbs[i].Aliases = []string{"armada_" + verbs[i].Name}
	}
	f.Verbs = native.NewFamily("codeindex", opts.Options, verbs...)
	return f
}

// vessel reads the vessel that a call is about.
func (f *Family) vessel(who broker.Principal, arguments json.RawMessage) (dispatch.Vessel, error) {
	var args struct {
		VesselID string `json:"vesselId"`
	}
	if err := json.Unmarshal(arguments, &args); err != nil || strings.TrimSpace(args.VesselID) == "" {
		return dispatch.Vessel{}, broker.Refuse(broker.CodeMissingVesselID, "vesselId is missing: name the vessel.", nil)
	}
	return f.vessels.Vessel(who, strings.TrimSpace(args.VesselID))
}

func (f *Family) statusVerb(ctx context.Context, ask native.Ask) (any, error) {
	v, err := f.vessel(ask.Call.Principal, ask.Arguments)
	if err != nil {
		return nil, err
	}
	return f.status(ctx, v)
}

// Admit judges a call that is about to become a job, and says what the record
// calls it. Calls of other verbs are not the family's.
func (f *Family) Admit(call *broker.Call, job *broker.Job) *broker.Refusal {
	if call.Verb != "index_update" || call.Backend != catalog.NativeName {
		return nil
	}
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	_ = json.Unmarshal(call.Params, &params) // policy has read it
	v, err := f.vessel(call.Principal, params.Arguments)
	if err != nil {
		var refusal *broker.Refusal
		if errors.As(err, &refusal) {
			return refusal
		}
		return broker.Refuse(broker.CodeJobJournal, "The journal could not be read; ask again.", nil)
	}
	job.Operation, job.VesselID = Operation, v.ID
	page, err := f.store.Jobs(broker.JobFilter{Unfinished: true, VesselID: v.ID, Operation: Operation, Limit: 1})
	if err != nil {
		return broker.Refuse(broker.CodeJobJournal, "The journal could not be read; ask again.", nil)
	}
	if len(page.Jobs) > 0 {
		return inProgress(v.ID, page.Jobs[0].ID)
	}
	return nil
}

func inProgress(vessel, job string) *broker.Refusal {
	return broker.Refuse(broker.CodeIndexUpdating, "An update of this vessel's code index runs already.",
		map[string]any{"VesselId": vessel, "JobId": job, "Action": "Wait for that job (job_status), then ask again if you still need to."})
}

// updateVerb is the job's work.
func (f *Family) updateVerb(ctx context.Context, ask native.Ask) (any, error) {
	v, err := f.vessel(ask.Call.Principal, ask.Arguments)
	if err != nil {
		return nil, err
	}
	job := ""
	if page, err := f.store.Jobs(broker.JobFilter{Unfinished: true, VesselID: v.ID, Operation: Operation}); err == nil {
		for _, j := range page.Jobs {
			if j.CallID == ask.Call.ID {
				job = j.ID
			}
		}
	}
	f.mu.Lock()
	if other := f.updates[v.ID]; other != nil {
		f.mu.Unlock()
		return nil, inProgress(v.ID, other.job)
	}
	u := &update{job: job, progress: Progress{Stage: "Starting"}, heartbeat: broker.FormatTime(ask.Now)}
	f.updates[v.ID] = u
	f.mu.Unlock()

	built, warnings, err := f.index.Update(ctx, source(v), f.opts.Now, func(p Progress) {
		f.mu.Lock()
		defer f.mu.Unlock()
		u.progress, u.heartbeat = p, broker.FormatTime(f.opts.Now())
	})
	err = f.ended(ctx, v, built, warnings, err)
	f.mu.Lock()
	delete(f.updates, v.ID)
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return f.status(ctx, v)
}

// ended keeps how an update ended. A cancelled one says nothing of the index.
func (f *Family) ended(ctx context.Context, v dispatch.Vessel, built Built, warnings []string, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	o := outcome{VesselID: v.ID, Commit: built.Commit, Warnings: warnings, EndedUTC: f.opts.Now()}
	var events []broker.Event
	if err != nil {
		o.LastError = cut(err.Error(), 1000)
	} else {
		o.EndedUTC = built.IndexedAt
		payload, _ := json.Marshal(map[string]any{"CommitSha": built.Commit, "DocumentCount": built.Documents, "ChunkCount": built.Chunks}) // text and numbers
		events = []broker.Event{{EventType: "code_index.updated", EntityType: "vessel", EntityID: v.ID, TenantID: v.TenantID,
			Message: "The code index of " + v.Name + " is of commit " + built.Commit + ".", Payload: payload}}
	}
	value, wrong := json.Marshal(o)
	if wrong == nil {
		_, wrong = f.store.Put(context.WithoutCancel(ctx), broker.RecordChange{Kind: kind, ID: v.ID, Value: value, Events: events})
	}
	if err != nil {
		return errors.Join(broker.Refuse(broker.CodeOperationFailed, "The code index could not be updated: "+o.LastError+".",
			map[string]any{"VesselId": v.ID, "Action": "The index that there was is kept. Remove the cause and run index_update again."}), wrong)
	}
	return wrong
}

func cut(text string, n int) string {
	if len(text) > n {
		text = strings.ToValidUTF8(text[:n], "")
	}
	return strings.TrimRight(text, ".\n ")
}

// running says how far an update is.
func (f *Family) running(vesselID string, s *Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.updates[vesselID]
	if u == nil {
		return
	}
	p, heartbeat := u.progress, u.heartbeat
	s.InProgress, s.Stage, s.Heartbeat, s.Done = true, &p.Stage, &heartbeat, &p.Done
	if p.Total > 0 {
		percent := min(100, p.Done*100/p.Total)
		s.Total, s.Percent = &p.Total, &percent
	}
}
