package catalog

import (
	"encoding/json"

	"berth/broker/shape"
)

// TaskSupport is `execution.taskSupport` of an entry (protocol 2025-11-25).
type TaskSupport string

// The values of TaskSupport. An entry without one forbids.
const (
	TaskForbidden TaskSupport = ""
	TaskOptional  TaskSupport = "optional"
	TaskRequired  TaskSupport = "required"
)

// TakesTask reports whether a call of the verb may be asked for as a task: the
// broker makes a job of each, or the backend has tasks of its own for it. A
// surface's contract knows no tasks.
func (v *Verb) TakesTask() bool {
	return !v.Native && v.Surface == nil && (v.Long || v.OwnTask != TaskForbidden)
}

// taskSupport is what a client is told: a plain call is answered, too, with the
// handle of the job, unless the operator wants tasks only.
func (v *Verb) taskSupport() TaskSupport {
	if v.RequireTask {
		return TaskRequired
	}
	return TaskOptional
}

// readTaskSupport reads an entry's `execution`; what is none of the protocol's
// words forbids.
func readTaskSupport(execution json.RawMessage) TaskSupport {
	members, err := shape.Members(execution)
	if err != nil {
		return TaskForbidden
	}
	support := TaskForbidden
	for _, m := range members {
		if m.Name == "taskSupport" {
			support = TaskForbidden
			switch word, _ := shape.Text(m.Value); TaskSupport(word) {
			case TaskOptional, TaskRequired:
				support = TaskSupport(word)
			}
		}
	}
	return support
}

// withTaskSupport gives a compact entry with the word for the verb; everything
// else keeps its bytes. nil when the entry cannot be read.
func withTaskSupport(entry json.RawMessage, v *Verb) json.RawMessage {
	word := json.RawMessage(`"` + string(v.taskSupport()) + `"`)
	execution := json.RawMessage(`{"taskSupport":` + string(word) + `}`)
	members, err := shape.Members(entry)
	if err != nil {
		return nil
	}
	for _, m := range members {
		if m.Name == "execution" {
			if own := setMember(m.Value, "taskSupport", word); own != nil {
				execution = own
			}
		}
	}
	return setMember(entry, "execution", execution)
}

// setMember replaces a member of an object where it first stands and drops its
// repetitions, or appends it; nil when there is no object.
func setMember(object json.RawMessage, name string, value json.RawMessage) json.RawMessage {
	members, err := shape.Members(object)
	if err != nil {
		return nil
	}
	out := []byte{'{'}
	put := func(raw, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, raw...), ':'), value...)
	}
	done := false
	for _, m := range members {
		switch {
		case m.Name != name:
			put(m.Raw, m.Value)
		case !done:
			put(m.Raw, value)
			done = true
		}
	}
	if !done {
		put([]byte(`"`+name+`"`), value)
	}
	return append(out, '}')
}
