package board_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/broker"
	"berth/broker/native/board"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// memory keeps records as the journal does and counts what is read. It can be
// told to fail.
type memory struct {
	mu      sync.Mutex
	records map[string]broker.Record // by kind NUL id
	ids     map[string][]string      // of each list, in order
	events  []broker.Event
	touched int // records and index entries that were read
	fail    error
}

func newMemory() *memory {
	return &memory{records: map[string]broker.Record{}, ids: map[string][]string{}}
}

func (m *memory) Put(_ context.Context, c broker.RecordChange) (broker.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return broker.Record{}, m.fail
	}
	before := m.records[c.Kind+"\x00"+c.ID]
	switch {
	case c.If != nil && *c.If != before.Revision:
		return before, broker.ErrRecordRevision
	case c.Value == nil && before.Revision == 0:
		return before, broker.ErrRecordNotFound
	}
	for _, k := range append([]string{""}, before.Keys...) { // the list without a name has all
		list := c.Kind + "\x00" + k
		if i, ok := slices.BinarySearch(m.ids[list], c.ID); ok {
			m.ids[list] = slices.Delete(m.ids[list], i, i+1)
		}
	}
	m.events = append(m.events, c.Events...)
	if c.Value == nil {
		delete(m.records, c.Kind+"\x00"+c.ID)
		return before, nil
	}
	next := broker.Record{Kind: c.Kind, ID: c.ID, Revision: before.Revision + 1, Value: c.Value, Keys: slices.Clone(c.Keys), Expires: c.Expires}
	m.records[c.Kind+"\x00"+c.ID] = next
	for _, k := range append([]string{""}, c.Keys...) {
		list := c.Kind + "\x00" + k
		i, _ := slices.BinarySearch(m.ids[list], c.ID)
		m.ids[list] = slices.Insert(m.ids[list], i, c.ID)
	}
	return next, nil
}

func (m *memory) Record(kind, id string) (broker.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.touched++
	r, ok := m.records[kind+"\x00"+id]
	if !ok {
		return r, broker.ErrRecordNotFound
	}
	return r, m.fail
}

func (m *memory) select_(q broker.RecordQuery) []string {
	ids := m.ids[q.Kind+"\x00"+q.Key]
	if q.Newest {
		if q.After != "" {
			i, _ := slices.BinarySearch(ids, q.After)
			ids = ids[:i]
		}
		ids = slices.Clone(ids)
		slices.Reverse(ids)
	} else {
		i, found := slices.BinarySearch(ids, q.After)
		if found {
			i++
		}
		ids = ids[i:]
	}
	return ids[:min(len(ids), q.Limit)]
}

func (m *memory) Records(q broker.RecordQuery) ([]broker.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	var out []broker.Record
	for _, id := range m.select_(q) {
		m.touched++
		out = append(out, m.records[q.Kind+"\x00"+id])
	}
	return out, nil
}

func (m *memory) CountRecords(q broker.RecordQuery) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.select_(q))
	m.touched += n
	return n, m.fail
}

// sequence is randomness whose ids differ.
type sequence struct {
	mu sync.Mutex
	n  uint64
}

func (s *sequence) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range p {
		s.n = s.n*6364136223846793005 + 1442695040888963407
		p[i] = byte(s.n >> 56)
	}
	return len(p), nil
}

func newBoard(store board.Store, wake board.AgentWake, due func()) (*board.Board, *strings.Builder) {
	var log strings.Builder
	return board.New(board.Options{Store: store, Now: func() time.Time { return at.Add(time.Minute) }, Random: &sequence{n: 7},
		Log: slog.New(slog.NewTextHandler(&log, nil)), AgentWake: wake, Due: due}), &log
}

var admin = broker.LocalOperator

func member(tenant string) broker.Principal {
	return broker.Principal{Tenant: tenant, User: "u", Role: broker.User}
}

func as(p broker.Principal, participant string, now time.Time) board.Caller {
	return board.Caller{Principal: p, Participant: participant, Now: now}
}

// must gives a value that has no error.
func must[T any](v T, err error) func(fataler) T {
	return func(t fataler) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// code is that of a refusal; empty without an error.
func code(err error) broker.Code {
	if err == nil {
		return ""
	}
	return broker.AsRefusal(err).Code
}

func contents(room board.Room) string {
	var out []string
	for _, m := range room.Messages {
		out = append(out, m.Content)
	}
	return strings.Join(out, " ")
}

func payloads(wakes []board.Signal) string {
	var out []string
	for _, w := range wakes {
		out = append(out, w.Payload)
	}
	return strings.Join(out, "|")
}

func seconds(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }

func text(n int) string { return fmt.Sprintf("n%d", n) }

// fataler is a test, or one run of a property.
type fataler interface {
	Helper()
	Fatal(args ...any)
}
