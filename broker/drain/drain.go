// Package drain keeps which backends take no new calls because an operator said
// so.
//
// It owns a record of the journal for each such backend (kind `drain`), written
// with its event before the backend hears of it: an operator's stop is not lost
// with the process, and only a resume ends it. It refuses names that are no
// configured backend, and the broker's own verbs. What a drained backend does
// with calls is the business of its actor.
//
// A Desk is safe for concurrent use.
package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"berth/broker"
)

// The records, and the events of their changes.
const (
	Kind           = "drain"
	EventDrained   = "backend.drained"
	EventResumed   = "backend.resumed"
	EventRestarted = "backend.restarted"
)

// MaxReason is the length of a reason, in characters.
const MaxReason = 500

// Notice is why a backend takes no new calls.
type Notice struct {
	Reason string    `json:"reason"` // may be empty
	By     string    `json:"by"`     // the principal
	Since  time.Time `json:"since"`
}

// View is a notice as it is shown.
type View struct {
	Reason   *string
	By       string
	SinceUTC string `json:"SinceUtc"`
}

// View gives the notice as it is shown; nil stays nil.
func (n *Notice) View() *View {
	if n == nil {
		return nil
	}
	v := &View{By: n.By, SinceUTC: broker.FormatTime(n.Since)}
	if n.Reason != "" {
		v.Reason = &n.Reason
	}
	return v
}

// Refuse is the answer to a new call of the backend.
func (n *Notice) Refuse(backend string) *broker.Refusal {
	detail := map[string]any{"backend": backend, "by": n.By, "since": broker.FormatTime(n.Since)}
	if n.Reason != "" {
		detail["reason"] = n.Reason
	}
	return broker.Refuse(broker.CodeBackendDraining, "The backend "+backend+" is being drained by an operator and takes no new calls; nothing was sent.", detail)
}

// Reader lists records.
type Reader interface {
	Records(q broker.RecordQuery) ([]broker.Record, error)
}

// Store keeps the records.
type Store interface {
	Reader
	Put(ctx context.Context, c broker.RecordChange) (broker.Record, error)
	AppendEvent(ctx context.Context, e broker.Event) error
	Jobs(filter broker.JobFilter) (broker.JobPage, error)
}

// Backends are what is drained.
type Backends interface {
	// Drainable reports whether a backend of the name is configured and is not
	// the broker itself.
	Drainable(backend string) bool
	// SetDraining has a backend refuse new calls; nil lets it take them again.
	SetDraining(ctx context.Context, backend string, n *Notice) *broker.Refusal
	// AwaitIdle gives how many calls and jobs are left at the backend, once there
	// are none or ctx is over.
	AwaitIdle(ctx context.Context, backend string) int
	// Renew ends the present life of a backend and begins another. What still ran
	// is answered as a life that ends; ended is how many those were.
	Renew(ctx context.Context, backend string) (ended int, refusal *broker.Refusal)
}

// Desk is the operator's hand on the backends.
type Desk struct {
	store    Store
	backends func() Backends
	now      func() time.Time
}

// NewDesk makes a desk. backends is asked with each change: they come up after
// the records were read.
func NewDesk(store Store, backends func() Backends, now func() time.Time) *Desk {
	return &Desk{store: store, backends: backends, now: now}
}

// Read gives what is drained according to a store, by backend.
func Read(from Reader) (map[string]*Notice, error) {
	out := map[string]*Notice{}
	for after := ""; ; {
		records, err := from.Records(broker.RecordQuery{Kind: Kind, After: after})
		if err != nil {
			return nil, fmt.Errorf("read what is drained: %w", err)
		}
		if len(records) == 0 {
			return out, nil
		}
		for _, r := range records {
			n := &Notice{}
			if err := json.Unmarshal(r.Value, n); err != nil {
				return nil, fmt.Errorf("read what is drained: %s: %w", r.ID, err)
			}
			out[r.ID], after = n, r.ID
		}
	}
}

// Drained is the answer to a change.
type Drained struct {
	Name     string
	Status   string // draining, drained (nothing is left there), resumed or restarted
	Draining *View
	Left     int // calls and jobs that run or wait there
	// UnfinishedJobs are the backend's jobs that are not final, oldest first:
	// also those whose work is followed there.
	UnfinishedJobs []json.RawMessage
	// Ended is how many calls still ran when a restart ended them; null for the
	// other changes.
	Ended *int
}

// Drain has a backend refuse new calls until it is resumed. It is durable
// before the backend hears of it, and replaces an earlier reason.
func (d *Desk) Drain(ctx context.Context, who broker.Principal, backend, reason string) (Drained, error) {
	if err := d.check(backend, reason); err != nil {
		return Drained{}, err
	}
	n := &Notice{Reason: reason, By: who.Key(), Since: d.now()}
	value, err := json.Marshal(n)
	if err != nil {
		return Drained{}, fmt.Errorf("drain a backend: %w", err)
	}
	_, err = d.store.Put(ctx, broker.RecordChange{Kind: Kind, ID: backend, Value: value,
		Events: []broker.Event{d.event(EventDrained, who, backend, reason, "takes no new calls", nil)}})
	if err != nil {
		return Drained{}, unwritten(err)
	}
	if r := d.backends().SetDraining(ctx, backend, n); r != nil {
		return Drained{}, r
	}
	return d.standing(ctx, backend, "draining", n, nil)
}

// Idle is [Drained] once nothing is left at the backend, or ctx is over.
func (d *Desk) Idle(ctx context.Context, was Drained) (Drained, error) {
	was.Left = d.backends().AwaitIdle(ctx, was.Name)
	if was.Left == 0 && was.Status == "draining" {
		was.Status = "drained"
	}
	page, err := d.store.Jobs(broker.JobFilter{Backend: was.Name, Unfinished: true})
	if err != nil {
		return was, fmt.Errorf("read the unfinished jobs of a backend: %w", err)
	}
	was.UnfinishedJobs = broker.UnfinishedViews(page.Jobs)
	return was, nil
}

// standing is how a backend is after a change, without a wait.
func (d *Desk) standing(ctx context.Context, backend, status string, n *Notice, ended *int) (Drained, error) {
	over, cancel := context.WithCancel(ctx)
	cancel()
	return d.Idle(over, Drained{Name: backend, Status: status, Draining: n.View(), Ended: ended})
}

// Resume lets a backend take calls again. One that was not drained is left as
// it is, without an event.
func (d *Desk) Resume(ctx context.Context, who broker.Principal, backend, reason string) (Drained, error) {
	if err := d.check(backend, reason); err != nil {
		return Drained{}, err
	}
	_, err := d.store.Put(ctx, broker.RecordChange{Kind: Kind, ID: backend,
		Events: []broker.Event{d.event(EventResumed, who, backend, reason, "takes calls again", nil)}})
	if err != nil && !errors.Is(err, broker.ErrRecordNotFound) {
		return Drained{}, unwritten(err)
	}
	if r := d.backends().SetDraining(ctx, backend, nil); r != nil {
		return Drained{}, r
	}
	return d.standing(ctx, backend, "resumed", nil, nil)
}

// Restart ends the present life of a backend and begins another. New calls are
// refused meanwhile; what runs has until wait is over. A backend that was
// drained stays so.
func (d *Desk) Restart(ctx, wait context.Context, who broker.Principal, backend, reason string) (Drained, error) {
	if err := d.check(backend, reason); err != nil {
		return Drained{}, err
	}
	before, err := Read(d.store)
	if err != nil {
		return Drained{}, err
	}
	n := &Notice{Reason: reason, By: who.Key(), Since: d.now()}
	if n.Reason == "" {
		n.Reason = "restart"
	}
	if kept := before[backend]; kept != nil {
		n = kept
	}
	if r := d.backends().SetDraining(ctx, backend, n); r != nil {
		return Drained{}, r
	}
	d.backends().AwaitIdle(wait, backend)
	ended, refusal := d.backends().Renew(ctx, backend)
	// Whatever came of it, what the journal says of the backend is what counts,
	// also if the caller has left or somebody drained or resumed it meanwhile.
	after, err := Read(d.store)
	if err != nil {
		after = before
	}
	if r := d.backends().SetDraining(context.WithoutCancel(ctx), backend, after[backend]); refusal == nil {
		refusal = r
	}
	if refusal != nil {
		return Drained{}, refusal
	}
	if err := d.store.AppendEvent(ctx, d.event(EventRestarted, who, backend, reason, "was restarted", &ended)); err != nil {
		return Drained{}, fmt.Errorf("the backend was restarted, and the event of it could not be written: %w", err)
	}
	return d.standing(ctx, backend, "restarted", after[backend], &ended)
}

func (d *Desk) check(backend, reason string) error {
	if !d.backends().Drainable(backend) {
		return broker.Refuse(broker.CodeNotFound, "There is no configured backend of this name that can be drained.", map[string]any{"backend": backend})
	}
	if len([]rune(reason)) > MaxReason {
		return broker.Refuse(broker.CodeInvalidArguments, fmt.Sprintf("A reason has at most %d characters.", MaxReason), map[string]any{"Name": "Reason"})
	}
	return nil
}

// unwritten is a change that may or may not be durable; the backend was not told.
func unwritten(err error) error {
	var r *broker.Refusal
	if errors.As(err, &r) {
		return r
	}
	return fmt.Errorf("keep what is drained: %w", err)
}

// told is the payload of an event.
type told struct {
	Principal string
	Reason    string `json:",omitempty"`
	Ended     *int   `json:",omitempty"`
}

func (d *Desk) event(kind string, who broker.Principal, backend, reason, what string, ended *int) broker.Event {
	payload, err := json.Marshal(told{who.Key(), reason, ended})
	if err != nil {
		panic("encode the event of a backend: " + err.Error()) // texts and a number
	}
	message := "The backend " + backend + " " + what + "."
	if reason != "" {
		message = "The backend " + backend + " " + what + ": " + reason
	}
	return broker.Event{EventType: kind, EntityType: "backend", EntityID: backend, TenantID: who.Tenant, Message: message, Payload: payload}
}
