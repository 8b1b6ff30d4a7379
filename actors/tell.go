package actors

import (
	"context"

	"berth/broker"
)

// TaskChanged is the method of the notice that a job has another status or asks
// something else. Its params hold the job's id as taskId, and no more: what the
// job is now is the listener's to read.
const TaskChanged = "notifications/tasks"

// telling is a journal whose changes are told once they are durable.
type telling struct {
	Journal
	tell func(backend, id string)
}

// CreateJob implements Journal.
func (t telling) CreateJob(ctx context.Context, job broker.Job) (broker.Job, bool, error) {
	stored, created, err := t.Journal.CreateJob(ctx, job)
	if err == nil && created {
		t.tell(stored.Backend, stored.ID)
	}
	return stored, created, err
}

// ChangeJob implements Journal. A note of tracked work changes no status.
func (t telling) ChangeJob(ctx context.Context, id string, change broker.JobChange) (broker.Job, error) {
	stored, err := t.Journal.ChangeJob(ctx, id, change)
	if err == nil && change.Tracking == nil {
		t.tell(stored.Backend, stored.ID)
	}
	return stored, err
}

func (s *System) tellTask(backend, id string) {
	s.hub.publish(Notice{Backend: backend, Method: TaskChanged, Params: encode(map[string]string{"taskId": id})})
}
