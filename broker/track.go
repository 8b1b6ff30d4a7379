package broker

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// TrackKind says how the status of work that lives in a backend is asked for.
type TrackKind string

// The kinds of tracking.
const (
	// TrackJobs is the convention of Berth's own verbs: JobId, Status and a
	// verb job_status.
	TrackJobs TrackKind = ""
	// TrackVerb is an operator's declaration, see [Track].
	TrackVerb TrackKind = "verb"
	// TrackTask is a task of the protocol's 2025-11-25 form.
	TrackTask TrackKind = "tasks/2025-11-25"
	// TrackTaskExtension is a task of the extension io.modelcontextprotocol/tasks.
	TrackTaskExtension TrackKind = "tasks/2026-07-28"
	// TrackApp is work in a local app, whose contract says how it is followed,
	// see [Follow].
	TrackApp TrackKind = "app"
)

// IsTask reports whether the work is a task of the protocol, whose id nobody
// else's work can have.
func (k TrackKind) IsTask() bool { return k == TrackTask || k == TrackTaskExtension }

// Track declares how the work that a verb starts is followed: where the verb's
// answer has the handle of the work, and which verb tells what became of it.
// The pointers (RFC 6901) are into the document of a tool result, see
// [ToolDocument].
type Track struct {
	Handle   string `json:"handle"`   // pointer into the verb's own answer
	Verb     string `json:"verb"`     // upstream name of the status verb
	Argument string `json:"argument"` // its argument that takes the handle
	Status   string `json:"status"`   // pointer into its answer

	// The backend's words for each status; case counts. A word that stands in
	// none of them is not understood, and the work goes on.
	Running   []string `json:"running,omitempty"`
	Succeeded []string `json:"succeeded,omitempty"`
	Failed    []string `json:"failed,omitempty"`
	Cancelled []string `json:"cancelled,omitempty"`
	Lost      []string `json:"lost,omitempty"`

	Result  string `json:"result,omitempty"`  // pointer to the outcome; empty: the whole answer
	Message string `json:"message,omitempty"` // pointer to why it failed
}

// HandleIn finds the handle in an answer of the verb: a string that is not
// empty, or a number.
func (t *Track) HandleIn(result json.RawMessage) (string, bool) {
	value, ok := Pointed(ToolDocument(result), t.Handle)
	if !ok {
		return "", false
	}
	return word(value)
}

// Arguments are the arguments of the status verb.
func (t *Track) Arguments(handle string) json.RawMessage {
	return marshal(map[string]string{t.Argument: handle})
}

// Change reads an answer of the status verb: the end of the job, or nil while
// the work goes on. known is false when the answer is not understood. The time
// is the caller's to set.
func (t *Track) Change(result json.RawMessage) (change *JobChange, known bool) {
	document := ToolDocument(result)
	value, ok := Pointed(document, t.Status)
	if !ok {
		return nil, false
	}
	status, ok := word(value)
	if !ok {
		return nil, false
	}
	message := ""
	if t.Message != "" {
		if value, ok := Pointed(document, t.Message); ok {
			message, _ = word(value)
		}
	}
	switch {
	case slices.Contains(t.Running, status):
		return nil, true
	case slices.Contains(t.Succeeded, status):
		outcome := result
		if t.Result != "" {
			if value, ok := Pointed(document, t.Result); ok {
				outcome = value
			}
		}
		return &JobChange{To: JobSucceeded, Result: outcome}, true
	case slices.Contains(t.Failed, status):
		return &JobChange{To: JobFailed, Reason: CodeOperationFailed, Message: message}, true
	case slices.Contains(t.Cancelled, status):
		if message == "" {
			message = "The work was cancelled in its backend."
		}
		return &JobChange{To: JobFailed, Reason: CodeCancelled, Message: message}, true
	case slices.Contains(t.Lost, status):
		if message == "" {
			message = "The backend reports this work as " + status + "; what became of it is unknown."
		}
		return &JobChange{To: JobLost, Reason: CodeTrackedWorkLost, Message: message}, true
	}
	return nil, false
}

// word reads a string that is not empty, or a number as it is written.
func word(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	if raw[0] == '"' {
		var s string
		if json.Unmarshal(raw, &s) != nil || s == "" {
			return "", false
		}
		return s, true
	}
	if raw[0] == '-' || (raw[0] >= '0' && raw[0] <= '9') {
		return string(raw), true
	}
	return "", false
}

// ToolDocument is the JSON document that a tool result carries: its structured
// content, else its first text block when that is JSON, else nil.
func ToolDocument(result json.RawMessage) json.RawMessage {
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}
	if json.Unmarshal(result, &r) != nil {
		return nil
	}
	if len(r.Structured) > 0 && string(r.Structured) != "null" {
		return r.Structured
	}
	for _, c := range r.Content {
		if c.Type == "text" && json.Valid([]byte(c.Text)) {
			return json.RawMessage(c.Text)
		}
	}
	return nil
}

// Pointed finds what a JSON pointer points at. Each step decodes one level.
func Pointed(document json.RawMessage, pointer string) (json.RawMessage, bool) {
	if len(document) == 0 {
		return nil, false
	}
	value := document
	if pointer == "" {
		return value, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	for _, step := range strings.Split(pointer[1:], "/") {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		var object map[string]json.RawMessage
		var list []json.RawMessage
		switch {
		case json.Unmarshal(value, &object) == nil && object != nil:
			next, ok := object[step]
			if !ok {
				return nil, false
			}
			value = next
		case json.Unmarshal(value, &list) == nil:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(list) || strconv.Itoa(i) != step {
				return nil, false
			}
			value = list[i]
		default:
			return nil, false
		}
	}
	return value, true
}
