package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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

// EventsPage lists events, newest first unless the query says otherwise. An
// event that cannot be decoded is listed as EventUnreadable where no filter is
// set, and matches no filter.
//
// A long list is read in several short transactions: what is deleted meanwhile
// may be counted or not, what is written meanwhile is not in it.
func (j *Journal) EventsPage(q broker.EventQuery) (broker.EventPage, error) {
	l := eventLister{query: q}
	l.plain = q == broker.EventQuery{OldestFirst: q.OldestFirst, Limit: q.Limit, Offset: q.Offset}
	for !l.over {
		if err := j.view(l.step); err != nil {
			return broker.EventPage{}, fmt.Errorf("list events: %w", err)
		}
	}
	return l.page, nil
}

// eventLister walks the events a chunk at a time, up to the last one there was
// when it began.
type eventLister struct {
	query broker.EventQuery
	plain bool // nothing is filtered
	last  []byte
	over  bool
	page  broker.EventPage
}

func (l *eventLister) step(tx *bbolt.Tx) error {
	c := tx.Bucket(bucketEvents).Cursor()
	if l.page.Cursor == "" {
		l.page.Cursor = lastEventOf(tx)
	}
	next := c.Prev
	if l.query.OldestFirst {
		next = c.Next
	}
	k, v := l.resume(c)
	for n := 0; k != nil && n < chunk; k, v = next() {
		if l.query.OldestFirst && string(k) > l.page.Cursor {
			k = nil
			break
		}
		n++
		l.last = append(l.last[:0], k...)
		if len(v) > 0 { // an empty row is reserved for an event that was deleted
			l.visit(string(k), v)
		}
	}
	l.over = k == nil
	return nil
}

// resume gives the row behind the one that was visited last.
func (l *eventLister) resume(c *bbolt.Cursor) (k, v []byte) {
	switch {
	case l.last == nil && l.query.OldestFirst:
		return c.First()
	case l.last == nil:
		return c.Last()
	case l.query.OldestFirst:
		if k, v = c.Seek(l.last); k != nil && bytes.Equal(k, l.last) {
			return c.Next()
		}
		return k, v
	}
	if k, _ = c.Seek(l.last); k == nil { // everything from there on was pruned
		return c.Last()
	}
	return c.Prev()
}

// visit decodes an event only when the filter or the page needs it.
func (l *eventLister) visit(id string, raw []byte) {
	q := l.query
	inPage := l.page.Total >= q.Offset && (q.Limit <= 0 || len(l.page.Events) < q.Limit)
	if l.plain && !inPage {
		l.page.Total++
		return
	}
	// A look at the bytes spares the decoding of most that do not match. An
	// encoder leaves the characters of our own event types as they are.
	if q.EventType != "" && strings.Trim(q.EventType, "abcdefghijklmnopqrstuvwxyz_.") == "" && !bytes.Contains(raw, []byte(q.EventType)) {
		return
	}
	e := decodeEvent(id, raw)
	if !l.plain && (e.EventType == EventUnreadable || !q.Match(e)) {
		return
	}
	l.page.Total++
	if inPage {
		l.page.Events = append(l.page.Events, e)
	}
}

// EventsAfter gives the events after a cursor, oldest first: at most limit of
// them, and at most size bytes as they are stored, though always one.
func (j *Journal) EventsAfter(cursor string, limit, size int) (broker.EventRun, error) {
	var run broker.EventRun
	err := j.view(func(tx *bbolt.Tx) error {
		run.Last = lastEventOf(tx)
		c := tx.Bucket(bucketEvents).Cursor()
		k, v := c.Seek([]byte(cursor))
		if k != nil && string(k) == cursor {
			k, v = c.Next()
		}
		sum := 0
		for ; k != nil; k, v = c.Next() {
			if len(v) == 0 {
				continue
			}
			sum += len(v)
			if n := len(run.Events); n == limit || (n > 0 && sum > size) {
				run.More = true
				return nil
			}
			run.Events = append(run.Events, decodeEvent(string(k), v))
		}
		return nil
	})
	if err != nil {
		return run, fmt.Errorf("read events: %w", err)
	}
	return run, nil
}

func lastEventOf(tx *bbolt.Tx) string {
	if k, _ := tx.Bucket(bucketEvents).Cursor().Last(); k != nil {
		return string(k)
	}
	return broker.FirstCursor
}

// eventSignal names the events among the watched; no job has an empty id.
const eventSignal = ""

// WatchEvents gives a channel that gets a signal after each commit that wrote
// or deleted an event. It is as Watch otherwise.
func (j *Journal) WatchEvents() (<-chan struct{}, func()) { return j.Watch(eventSignal) }

// DeleteEvents deletes events, all in one transaction, and gives the ids of
// those that were there. The row of each stays and is empty: it is how Check
// knows that the event of a job's end was not lost, and it keeps ids growing.
func (j *Journal) DeleteEvents(ctx context.Context, ids []string) ([]string, error) {
	var gone []string
	err := j.do(ctx, &write{size: len(ids) * 64, apply: func(t *txn) error {
		gone = nil
		for _, id := range ids {
			if id == "" || len(t.bucket(bucketEvents).Get([]byte(id))) == 0 {
				continue
			}
			if err := t.put(bucketEvents, []byte(id), nil); err != nil {
				return err
			}
			gone = append(gone, id)
		}
		if len(gone) > 0 {
			t.jobs = append(t.jobs, eventSignal)
		}
		return nil
	}}, false)
	if err != nil {
		return nil, fmt.Errorf("delete events: %w", err)
	}
	return gone, nil
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
	t.jobs = append(t.jobs, eventSignal)
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
