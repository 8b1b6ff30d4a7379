package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"berth/broker"
)

const (
	defaultEvents = 1000
	maxEvents     = 10_000
	maxEventBytes = 1 << 20
)

// EventUnreadable is the type of the event that stands in a list for one that
// cannot be decoded.
const EventUnreadable = "journal.unreadable_event"

// AppendEvent writes one event and waits for its turn like an outcome. The
// journal gives the id; an event that has one is refused. A missing time is
// filled in.
func (j *Journal) AppendEvent(ctx context.Context, e broker.Event) error {
	if err := j.appendable(&e); err != nil {
		return err
	}
	return j.do(ctx, &write{size: eventSize(e), apply: func(t *txn) error {
		_, err := t.append(e)
		return err
	}}, false)
}

// appendable refuses an event that the journal cannot give an id to, and fills
// in a missing time.
func (j *Journal) appendable(e *broker.Event) error {
	if e.ID != "" || e.EventType == "" {
		return errors.New("append an event: it needs a type, and its id is the journal's to give")
	}
	if e.CreatedAt.IsZero() {
		e.CreatedAt = j.opts.Now()
	}
	return nil
}

// eventSize is about how many bytes an event takes.
func eventSize(e broker.Event) int { return len(e.Message) + len(e.Payload) + 256 }

// Events lists events after the id `after`, oldest first; an empty id starts at
// the oldest. Ids grow with each event that is written, so a reader that goes
// on from the last id misses none. limit is 1000 when zero or less, 10,000 at
// most. An event that cannot be decoded is listed as EventUnreadable.
func (j *Journal) Events(after string, limit int) ([]broker.Event, error) {
	if limit <= 0 {
		limit = defaultEvents
	}
	limit = min(limit, maxEvents)
	var out []broker.Event
	err := j.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketEvents).Cursor()
		k, v := c.Seek([]byte(after))
		if k != nil && string(k) == after {
			k, v = c.Next()
		}
		for ; k != nil && len(out) < limit; k, v = c.Next() {
			if len(v) > 0 { // an empty row is reserved for an event that was deleted
				out = append(out, decodeEvent(string(k), v))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return out, nil
}

func decodeEvent(id string, raw []byte) broker.Event {
	var e broker.Event
	if err := json.Unmarshal(raw, &e); err != nil || e.ID != id {
		return broker.Event{ID: id, EventType: EventUnreadable, Message: "This event cannot be decoded."}
	}
	return e
}

// append writes e under a new id, greater than every id before it.
func (t *txn) append(e broker.Event) (string, error) {
	id, err := broker.NewID(broker.EventPrefix, t.j.opts.Now(), t.j.opts.Random)
	if err != nil {
		return "", err
	}
	if id <= t.j.lastEvent {
		id = successor(t.j.lastEvent) // same millisecond, or a clock that went back
	}
	e.ID, e.CreatedAt = id, utc(e.CreatedAt)
	var buf bytes.Buffer
	if err := encodeJSON(&buf, e); err != nil {
		return "", fmt.Errorf("encode an event: %w", err)
	}
	if buf.Len() > maxEventBytes {
		return "", fmt.Errorf("encode an event: %d bytes, and an event may have %d", buf.Len(), maxEventBytes)
	}
	t.j.lastEvent = id
	return id, t.put(bucketEvents, []byte(id), buf.Bytes())
}

// successor is the next id in byte order with the same alphabet and length.
func successor(id string) string {
	b := []byte(id)
	for i := len(b) - 1; i >= 0; i-- {
		switch c := b[i]; {
		case c == 'z':
			b[i] = '0'
			continue
		case c == '9':
			b[i] = 'A'
		case c == 'Z':
			b[i] = 'a'
		default:
			b[i] = c + 1
		}
		break
	}
	return string(b)
}
