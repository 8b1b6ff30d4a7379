package actors

import (
	"context"
	"log/slog"

	"berth/broker"
)

// TaskChanged is the method of the notice that a job has another status or asks
// something else. Its params hold the job's id as taskId, and no more: what the
// job is now is the listener's to read.
const TaskChanged = "notifications/tasks"

// telling is a journal whose changes are told once they are durable.
type telling struct {
	Journal
	sys *System
}

// CreateJob implements Journal.
func (t telling) CreateJob(ctx context.Context, job broker.Job) (broker.Job, bool, error) {
	stored, created, err := t.Journal.CreateJob(ctx, job)
	if err == nil && created {
		t.sys.tellChange(stored)
	}
	return stored, created, err
}

// ChangeJob implements Journal. A note of tracked work changes no status. The
// first write of a job that succeeds after others failed is followed by their
// warning.
func (t telling) ChangeJob(ctx context.Context, id string, change broker.JobChange) (broker.Job, error) {
	stored, err := t.Journal.ChangeJob(ctx, id, change)
	if err != nil {
		return stored, err
	}
	if change.Tracking == nil {
		t.sys.tellChange(stored)
	}
	if warning, delayed := t.sys.delayed.Load(id); delayed {
		if err := t.AppendEvent(ctx, warning.(broker.Event)); err != nil {
			t.sys.log.Warn("the warning of a delayed write was not journalled", slog.String("job", id), slog.String("cause", err.Error()))
		}
	}
	return stored, nil
}

func (s *System) tellTask(backend, id string) {
	s.hub.publish(Notice{Backend: backend, Method: TaskChanged, Params: encode(map[string]string{"taskId": id})})
}

// tellChange tells of a job as it was just written.
func (s *System) tellChange(j broker.Job) {
	s.tellTask(j.Backend, j.ID)
	s.opts.Live(broker.Event{EventType: broker.EventJobChanged, EntityType: "job", EntityID: j.ID, TenantID: j.Tenant,
		Message: j.ID + " is " + string(j.Status) + ".", CreatedAt: s.now(),
		Payload: encode(struct {
			Status             broker.JobStatus
			Operation, Backend string
			Reason             broker.Code
		}{j.Status, j.Operation, j.Backend, j.Reason})})
}

// tellDelayed notes that a write of a job has to be repeated: at once to who
// reads along, and in the journal when it takes writes again.
func (s *System) tellDelayed(j broker.Job) {
	warning := broker.Event{EventType: broker.EventJobDelayed, EntityType: "job", EntityID: j.ID, TenantID: j.Tenant,
		Message: j.ID + ": a write to the journal failed and is repeated; until then the record is behind.", CreatedAt: s.now(),
		Payload: encode(struct{ Status broker.JobStatus }{j.Status})}
	if _, known := s.delayed.LoadOrStore(j.ID, warning); !known {
		s.opts.Live(warning)
	}
}

// cancelEvent says who asked for a job's end, and why. It is written with that
// end, so a cancel that came too late leaves none.
func (s *System) cancelEvent(j broker.Job, reason string, by broker.Principal) *broker.Event {
	return &broker.Event{EventType: broker.EventJobCancel, EntityType: "job", EntityID: j.ID, TenantID: j.Tenant,
		Message: j.ID + ": " + by.Key() + " asked for its end: " + reason, CreatedAt: s.now(), Payload: encode(struct{ By, Reason string }{by.Key(), reason})}
}
