package mcpclient

import (
	"encoding/json"
	"strings"
	"sync"

	"berth/broker"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	progressMethod  = string(mcp.MethodNotificationProgress)
	cancelledMethod = string(mcp.MethodNotificationCancelled)

	toolsChanged     = mcp.MethodNotificationToolsListChanged
	promptsChanged   = mcp.MethodNotificationPromptsListChanged
	resourcesChanged = mcp.MethodNotificationResourcesListChanged
	resourceUpdated  = mcp.MethodNotificationResourceUpdated
)

// general reports whether a notification is about the backend and no call,
// whatever stream it comes on.
func general(method string) bool {
	return listChanged(method) || method == resourceUpdated || strings.HasPrefix(method, "notifications/tasks")
}

func listChanged(method string) bool {
	switch method {
	case toolsChanged, promptsChanged, resourcesChanged:
		return true
	}
	return false
}

// attributable reports whether a notification that names no call is likely
// about the only one that it can be about.
func attributable(method string) bool {
	return method == string(mcp.MethodNotificationMessage) || method == string(mcp.MethodNotificationElicitationComplete)
}

// tell hands a notification on that belongs to no call.
func tell(hear broker.Hear, n *noise, m *message) {
	if hear == nil {
		n.notifications.Add(1)
		return
	}
	hear(m.method, m.params)
}

// missed says what may have changed while nothing could be heard: whatever the
// backend declares to report.
func missed(hear broker.Hear, capabilities json.RawMessage) {
	if hear == nil {
		return
	}
	for _, c := range changes(capabilities) {
		hear(c, nil)
	}
}

// changes lists the notifications of changed lists that capabilities declare.
func changes(capabilities json.RawMessage) []string {
	type list struct {
		ListChanged bool `json:"listChanged"`
	}
	var c struct{ Tools, Prompts, Resources list }
	// What does not decode declares nothing.
	_ = json.Unmarshal(capabilities, &c)
	var out []string
	if c.Tools.ListChanged {
		out = append(out, toolsChanged)
	}
	if c.Prompts.ListChanged {
		out = append(out, promptsChanged)
	}
	if c.Resources.ListChanged {
		out = append(out, resourcesChanged)
	}
	return out
}

// note is a notification for the caller of a call: progress when it has no
// method.
type note struct {
	method string
	params json.RawMessage
}

// notes are the notifications that wait for the goroutine of a call, which
// alone hands them on.
type notes struct {
	wake chan struct{} // capacity 1; nil: nobody takes any

	mu      sync.Mutex
	waiting []note
}

// put adds a note. When the reader is slow the oldest goes, so that the latest
// is kept; then it reports a loss.
func (n *notes) put(what note) (lost bool) {
	n.mu.Lock()
	if len(n.waiting) >= notesKept {
		n.waiting = append(n.waiting[:0], n.waiting[1:]...)
		lost = true
	}
	n.waiting = append(n.waiting, what)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
	return lost
}

// hand gives the caller what waits.
func (n *notes) hand(who *caller) {
	n.mu.Lock()
	waiting := n.waiting
	n.waiting = nil
	n.mu.Unlock()
	for _, w := range waiting {
		if w.method == "" {
			who.takeProgress(broker.Progress{Params: w.params})
		} else {
			who.notify(w.method, w.params)
		}
	}
}
