package rest

import (
	"fmt"
	"net/http"
	"time"

	"berth/broker"
)

// sse writes server-sent events.
type sse struct {
	w      http.ResponseWriter
	within time.Duration // to accept one message
}

// stay takes one of the places of streams; free gives it back.
func (a *api) stay() (free func(), refusal *broker.Refusal) {
	select {
	case a.streaming <- struct{}{}:
		return func() { <-a.streaming }, nil
	default:
		return nil, broker.Refuse(broker.CodeOverloaded, "Too many streams of events are open.",
			map[string]any{"Streams": cap(a.streaming)}).Retry(5 * time.Second)
	}
}

// open begins the answer.
func (s sse) open() error {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy that collects would undo the flush
	s.w.WriteHeader(http.StatusOK)
	return s.write(": open\n\n")
}

// write gives the reader one limit for each message. Whoever takes longer loses
// the connection and may come back with his cursor.
func (s sse) write(message string) error {
	control := http.NewResponseController(s.w)
	_ = control.SetWriteDeadline(time.Now().Add(s.within)) // a test's writer may know none
	if _, err := s.w.Write([]byte(message)); err != nil {
		return fmt.Errorf("write to a stream of events: %w", err)
	}
	if err := control.Flush(); err != nil {
		return fmt.Errorf("write to a stream of events: %w", err)
	}
	return nil
}
