package broker

import (
	"encoding/json"
	"errors"
	"time"
)

// Record is one thing that the broker keeps beside its jobs: a credential, a
// hold, a note, a mission. It stands for itself: nothing of it lies in another
// record.
type Record struct {
	Kind string
	ID   string // unique within its kind
	// Revision is 1 when the record is first written and grows by one with each
	// change. An id that is deleted and written again begins at 1.
	Revision uint64
	Value    json.RawMessage // one JSON value
	// Keys are the index entries under which the record is listed, in byte
	// order. Each names a list, and a record that is to stand in none has none.
	Keys []string
	// Expires is when the record may be removed; the zero time: never.
	Expires time.Time
}

// RecordChange writes or deletes one record, with its index entries and events,
// as one step.
type RecordChange struct {
	Kind, ID string
	// If is the revision that the stored record must have; 0: it must not
	// exist; nil: whatever is there is replaced.
	If *uint64
	// Value is what the record becomes; nil deletes it.
	Value   json.RawMessage
	Keys    []string
	Expires time.Time
	Events  []Event
}

// RecordQuery selects records of a kind.
type RecordQuery struct {
	Kind string
	// Key is the list to read; the records of a list come in the order of their
	// ids. Empty: every record of the kind.
	Key string
	// After is where an earlier page ended: an id, not itself listed again.
	After  string
	Newest bool // greatest id first
	Limit  int  // 1000 when zero or less; 10,000 at most
}

var (
	// ErrRecordNotFound is a record that does not exist.
	ErrRecordNotFound = errors.New("there is no such record")
	// ErrRecordRevision is a change that met another revision than it named.
	ErrRecordRevision = errors.New("the record has another revision")
)

// MaxRecord is the most that a record's value may have, in bytes.
const MaxRecord = 1 << 20

// AtRevision names a revision for RecordChange.If.
func AtRevision(n uint64) *uint64 { return &n }
