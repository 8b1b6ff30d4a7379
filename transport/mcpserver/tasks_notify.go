package mcpserver

import (
	"slices"
	"sync"

	"berth/actors"
	"berth/transport/jsonrpc"
)

// This file tells of tasks: by notifications/tasks on the streams of
// subscriptions/listen, by notifications/tasks/status on a session's stream.

// agreeTasks leaves the caller's own tasks in the wish.
func (sub *subscription) agreeTasks() {
	w := &sub.wish
	w.tasks = slices.DeleteFunc(w.tasks, func(id string) bool {
		_, response := sub.s.findTask(sub.rq, id)
		return response != nil
	})
	agreed := make(map[string]bool, len(w.tasks))
	for _, id := range w.tasks {
		agreed[id] = true
	}
	sub.tasks.Store(&agreed)
}

// tells reports whether a notice is of a task that was agreed on. It is called
// with the hub's lock held.
func (sub *subscription) tells(n actors.Notice) bool {
	agreed := sub.tasks.Load()
	if agreed == nil || len(*agreed) == 0 {
		return false
	}
	id, _ := textOf(n.Params, "taskId")
	return (*agreed)[id]
}

// sendTasks writes each task as tasks/get would answer it now. The first time
// is right after the agreement, so that what happened before it is not missed.
func (sub *subscription) sendTasks(ids []string) error {
	for _, id := range ids {
		job, response := sub.s.findTask(sub.rq, id)
		if response != nil {
			continue // pruned, or unreadable now: the client can ask
		}
		view := sub.s.view(job)
		if state := view.state(); sub.told[id] == state {
			continue // several changes were one to us
		} else {
			sub.told[id] = state
		}
		if err := sub.send(actors.TaskChanged, sub.s.sized(sub.rq, job, view).detailed(false)); err != nil {
			return err
		}
	}
	return nil
}

// legacyTaskChanged is the notification of 2025-11-25.
const legacyTaskChanged = "notifications/tasks/status"

// maxGiven bounds the tasks of sessions that are told of.
const maxGiven = 8192

// given are the unfinished jobs that sessions got as tasks. Another job of a
// session is no task to its client. It is forgotten by a restart: a client that
// is told nothing asks.
type given struct {
	mu       sync.Mutex
	sessions map[string]string // by job
}

// to notes that a session got a job as a task. Over the bound another is
// forgotten.
func (g *given) to(session, job string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sessions == nil {
		g.sessions = map[string]string{}
	}
	if len(g.sessions) >= maxGiven {
		for any := range g.sessions {
			delete(g.sessions, any)
			break
		}
	}
	g.sessions[job] = session
}

func (g *given) is(session, job string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return job != "" && g.sessions[job] == session
}

func (g *given) over(job string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.sessions, job)
}

// tells reports whether a notice is of a task of this session.
func (h *hearing) tells(n actors.Notice) bool {
	id, _ := textOf(n.Params, "taskId")
	return h.s.given.is(h.rq.session.key, id)
}

// sendTask tells how a task of this session stands now.
func (h *hearing) sendTask(n actors.Notice) error {
	id, _ := textOf(n.Params, "taskId")
	job, response := h.s.findTask(h.rq, id)
	if response != nil {
		return nil // unreadable now: the client can ask
	}
	if job.Status.Final() {
		h.s.given.over(id)
	}
	return h.x.event(jsonrpc.AppendNotification(nil, legacyTaskChanged, h.s.view(job).legacy()))
}
