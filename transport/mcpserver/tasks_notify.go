package mcpserver

import (
	"slices"

	"berth/actors"
)

// This file tells of tasks on the streams of subscriptions/listen.

// agreeTasks leaves the caller's own tasks in the wish, if it takes tasks.
func (sub *subscription) agreeTasks() {
	w := &sub.wish
	if sub.rq.taskForm() != extensionTasks {
		w.tasks = nil
	}
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
		if err := sub.send(actors.TaskChanged, sub.s.view(job).detailed(false)); err != nil {
			return err
		}
	}
	return nil
}
