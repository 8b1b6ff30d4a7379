package rest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"berth/broker"
	"berth/broker/live"
	"berth/broker/native"
)

// What a stream gives again to a reader that comes back (contracts/native.md
// section 21). A reader that missed more hears of a gap.
const (
	maxReplay      = 128
	maxReplayBytes = 1 << 20
)

// eventRetention is how long the journal keeps events; a cursor that is older
// may have lost some.
const eventRetention = 90 * 24 * time.Hour

// Journalled reads the events of the journal in their order; *journal.Journal
// is one.
type Journalled interface {
	// EventsAfter gives what follows a cursor, oldest first, within two limits.
	EventsAfter(cursor string, limit, size int) (broker.EventRun, error)
	// WatchEvents signals every commit with an event until the function is called.
	WatchEvents() (<-chan struct{}, func())
}

// StreamEvent is what one message of the stream holds.
type StreamEvent struct {
	// StreamID names the life of the broker that the message came from.
	StreamID string `json:"StreamId"`
	// Cursor is where to go on after this message. It outlives a restart.
	Cursor string
	Event  broker.EventView
}

// stream answers GET /api/v1/events/stream. The journal is its queue: nothing
// is kept for a reader, who is read for at his own pace and is cut off when a
// write to him takes too long. No writer of the journal waits for that.
type stream struct {
	sse
	api     *api
	cursor  string
	changes bool // changes of jobs are wanted too
}

func (a *api) stream(w http.ResponseWriter, r *http.Request) {
	s, missed, err := a.openStream(w, r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	free, refusal := a.stay()
	if refusal != nil {
		a.fail(w, r, refusal)
		return
	}
	defer free()
	if err := s.serve(r, missed); err != nil {
		a.Log.Info("a stream of events ended early", slog.String("cause", err.Error()))
	}
}

// openStream finds where the stream begins: after the cursor of the query, else
// of the header that a browser's EventSource sends when it comes back, else now.
// What the reader missed, or a gap, comes with it.
func (a *api) openStream(w http.ResponseWriter, r *http.Request) (*stream, []broker.Event, error) {
	if a.Journalled == nil {
		return nil, nil, broker.Refuse(broker.CodeNotFound, "This broker has no journal to look at.", nil)
	}
	changes, err := truth(r, "live")
	if err != nil {
		return nil, nil, err
	}
	s := &stream{sse: sse{w, a.StreamWrite}, api: a, changes: changes}
	cursor := r.Header.Get("Last-Event-ID")
	if given := r.URL.Query().Get("cursor"); given != "" && cursor == "" {
		cursor = given // a page that reconnects repeats its address, and the header is newer
	}
	made, wellFormed := broker.EventIDTime(cursor)
	if cursor != "" && !wellFormed {
		return nil, nil, badRequest(broker.CodeInvalidArguments, "cursor must be one that the list or the stream of events gave.", map[string]any{"Name": "cursor"})
	}
	run, err := a.Journalled.EventsAfter(orLast(cursor), maxReplay, maxReplayBytes)
	if err != nil {
		return nil, nil, native.Unreadable(a.Log, err)
	}
	s.cursor = cursor
	why := ""
	switch {
	case cursor == "":
		s.cursor = run.Last
	case cursor > run.Last:
		why = "the journal has no such event; it may be another one than before"
	case cursor != broker.FirstCursor && a.Now().Sub(made) >= eventRetention:
		why = "the cursor is older than the events that are kept"
	case run.More:
		why = fmt.Sprintf("more than %d events or %d bytes lie between", maxReplay, maxReplayBytes)
	}
	if why == "" {
		return s, run.Events, nil
	}
	s.cursor = run.Last
	return s, []broker.Event{s.gap(cursor, run.Last, why)}, nil
}

// orLast: a stream without a cursor wants the last id only.
func orLast(cursor string) string {
	if cursor == "" {
		return broker.EventPrefix + "~" // behind every event
	}
	return cursor
}

// gap stands for events that are not given again.
func (s *stream) gap(from, to, why string) broker.Event {
	return broker.Event{EventType: broker.EventGap, EntityType: "stream", CreatedAt: s.api.Now(),
		Message: "Events may be missing here: " + why + ". Read the list.",
		Payload: raw(map[string]string{"From": from, "To": to})}
}

// serve writes until the reader leaves, falls behind or the broker stops.
func (s *stream) serve(r *http.Request, missed []broker.Event) error {
	// Both watches begin before the journal is read again, so nothing falls
	// between what was read and what is signalled.
	changed, stop := s.api.Journalled.WatchEvents()
	defer stop()
	reader := &live.Reader{}
	if s.api.Live != nil {
		reader = s.api.Live.Read()
		defer reader.Stop()
	}
	if err := s.open(); err != nil {
		return err
	}
	if err := s.send(missed); err != nil {
		return err
	}
	if err := s.catchUp(); err != nil {
		return err
	}
	alive := time.NewTicker(s.api.KeepAlive)
	defer alive.Stop()
	for {
		var err error
		select {
		case <-r.Context().Done():
			return nil
		case <-s.api.Done:
			return nil
		case <-alive.C:
			err = s.write(": \n\n")
		case <-changed:
			err = s.catchUp()
		case e, ok := <-reader.Events():
			if !ok {
				return fmt.Errorf("the reader is too slow: %d live events waited", live.Pending)
			}
			if s.changes || e.EventType != broker.EventJobChanged {
				err = s.send([]broker.Event{e})
			}
		}
		if err != nil {
			return err
		}
	}
}

// catchUp writes what the journal holds behind the cursor, a bounded part at a
// time.
func (s *stream) catchUp() error {
	for {
		run, err := s.api.Journalled.EventsAfter(s.cursor, maxReplay, maxReplayBytes)
		if err != nil {
			return err
		}
		if err := s.send(run.Events); err != nil || !run.More {
			return err
		}
	}
}

// send writes events. One that the journal holds moves the cursor.
func (s *stream) send(events []broker.Event) error {
	for _, e := range events {
		if e.ID != "" {
			s.cursor = e.ID
		}
		data, err := json.Marshal(StreamEvent{s.api.RuntimeID, s.cursor, e.View()})
		if err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		if err := s.write("id: " + s.cursor + "\ndata: " + string(data) + "\n\n"); err != nil {
			return err
		}
	}
	return nil
}
