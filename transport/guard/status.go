//go:build unix

package guard

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxStatusLine bounds a line on the status pipe, in bytes.
const maxStatusLine = 4096

// event is one line on the status pipe.
type event struct {
	kind   eventKind
	pid    int    // started
	start  uint64 // started
	number int    // exited: the code; signaled: the signal
	reason string // failed
}

type eventKind string

const (
	eventStarted  eventKind = "started"
	eventFailed   eventKind = "failed"
	eventExited   eventKind = "exited"
	eventSignaled eventKind = "signaled"
)

// String renders the event as one line without its end.
func (e event) String() string {
	switch e.kind {
	case eventStarted:
		return fmt.Sprintf("%s %d %d", e.kind, e.pid, e.start)
	case eventFailed:
		reason := strings.Join(strings.Fields(e.reason), " ")
		if room := maxStatusLine - len(e.kind) - 2; len(reason) > room {
			reason = strings.ToValidUTF8(reason[:room], "")
		}
		return string(e.kind) + " " + reason
	default:
		return fmt.Sprintf("%s %d", e.kind, e.number)
	}
}

var errStatus = errors.New("the guard sent a status line that means nothing")

// parseEvent reads a line as String wrote it.
func parseEvent(line string) (event, error) {
	kind, rest, _ := strings.Cut(line, " ")
	e := event{kind: eventKind(kind)}
	var err error
	switch e.kind {
	case eventStarted:
		pid, start, _ := strings.Cut(rest, " ")
		if e.pid, err = strconv.Atoi(pid); err != nil || e.pid <= 1 {
			return event{}, errStatus
		}
		if e.start, err = strconv.ParseUint(start, 10, 64); err != nil {
			return event{}, errStatus
		}
	case eventFailed:
		if rest == "" {
			return event{}, errStatus
		}
		e.reason = rest
	case eventExited, eventSignaled:
		if e.number, err = strconv.Atoi(rest); err != nil || e.number < 0 {
			return event{}, errStatus
		}
	default:
		return event{}, errStatus
	}
	return e, nil
}
