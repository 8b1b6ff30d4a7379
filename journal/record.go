package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"
	"unicode/utf8"

	"berth/broker"
)

// A record is stored as a header of six bytes and JSON: format version, status,
// CRC-32C of all other bytes. The header lets a list count and skip records
// without decoding them, and the sum finds a damaged page, which bbolt does not.
const (
	recordVersion = 1
	headerBytes   = 6

	maxRecord = broker.MaxRecord // of one encoded record; results are kept apart
	maxID     = 64
	maxName   = 1024 // of tenant, user, operation and idempotency key, each
)

// ErrUnreadable is a record that is there and cannot be decoded.
var ErrUnreadable = errors.New("the journal record cannot be read")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// statusBytes are the statuses in the header. They are never renumbered.
var statusBytes = map[broker.JobStatus]byte{
	broker.JobAccepted: 1, broker.JobRunning: 2, broker.JobSucceeded: 3, broker.JobFailed: 4, broker.JobLost: 5,
}

var statusNames = func() map[byte]broker.JobStatus {
	m := map[byte]broker.JobStatus{}
	for s, b := range statusBytes {
		m[b] = s
	}
	return m
}()

// record is a job as it is stored.
type record struct {
	broker.Job
	ResultFile bool   `json:"resultFile,omitempty"` // the result is a file beside the journal
	EndEvent   string `json:"endEvent,omitempty"`   // id of the job.failed or job.lost event
}

func (r record) encode() ([]byte, error) {
	status, ok := statusBytes[r.Status]
	if !ok {
		return nil, fmt.Errorf("encode the record of %s: unknown status %q", r.ID, r.Status)
	}
	buf := bytes.NewBuffer(make([]byte, headerBytes, 768))
	if err := encodeJSON(buf, r); err != nil {
		return nil, fmt.Errorf("encode the record of %s: %w", r.ID, err)
	}
	raw := buf.Bytes()
	if len(raw) > maxRecord {
		return nil, fmt.Errorf("encode the record of %s: %d bytes, and a record may have %d", r.ID, len(raw), maxRecord)
	}
	raw[0], raw[1] = recordVersion, status
	binary.BigEndian.PutUint32(raw[2:], checksum(raw))
	return raw, nil
}

func encodeJSON(buf *bytes.Buffer, v any) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	buf.Truncate(buf.Len() - 1) // the encoder's newline
	return nil
}

func checksum(raw []byte) uint32 {
	return crc32.Update(crc32.Checksum(raw[:2], castagnoli), castagnoli, raw[headerBytes:])
}

// peek gives the status of a stored record without decoding it, after its sum
// was checked.
func peek(raw []byte) (broker.JobStatus, error) {
	if len(raw) < headerBytes {
		return "", fmt.Errorf("%w: %d bytes", ErrUnreadable, len(raw))
	}
	if raw[0] != recordVersion {
		return "", fmt.Errorf("%w: record format %d, and this program reads %d", ErrUnreadable, raw[0], recordVersion)
	}
	status, ok := statusNames[raw[1]]
	if !ok {
		return "", fmt.Errorf("%w: unknown status %d", ErrUnreadable, raw[1])
	}
	if binary.BigEndian.Uint32(raw[2:]) != checksum(raw) {
		return "", fmt.Errorf("%w: its checksum is wrong", ErrUnreadable)
	}
	return status, nil
}

// decode reads a stored record. Nothing of raw is kept.
func decode(id string, raw []byte) (record, error) {
	status, err := peek(raw)
	if err != nil {
		return record{}, err
	}
	var r record
	if err := json.Unmarshal(raw[headerBytes:], &r); err != nil {
		return record{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	switch {
	case r.ID != id:
		return record{}, fmt.Errorf("%w: it names another id", ErrUnreadable)
	case r.Status != status:
		return record{}, fmt.Errorf("%w: its header says %s and its body another status", ErrUnreadable, status)
	case !storable(r.SubmittedAt) || (status.Final() && (r.CompletedAt == nil || !storable(*r.CompletedAt))):
		return record{}, fmt.Errorf("%w: a time is missing or out of range", ErrUnreadable)
	}
	return r, nil
}

// normal gives the job as it will be read back: times in UTC without a
// monotonic part, copied where they were pointers.
func normal(j broker.Job) broker.Job {
	j.SubmittedAt = utc(j.SubmittedAt)
	j.StartedAt, j.CompletedAt = utcPtr(j.StartedAt), utcPtr(j.CompletedAt)
	if j.Tracking != nil {
		t := *j.Tracking
		t.LastGood = utc(t.LastGood)
		j.Tracking = &t
	}
	return j
}

func utc(t time.Time) time.Time { return t.Round(0).UTC() }

func utcPtr(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := utc(*t)
	return &u
}

// checkNew refuses a job that could not be found, ended or pruned later.
func checkNew(j broker.Job) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("the job %q cannot be journalled: %s", j.ID, fmt.Sprintf(format, args...))
	}
	if !validID(j.ID) {
		return bad("an id has 1 to %d of A-Z a-z 0-9 _ -", maxID)
	}
	if j.Status != broker.JobAccepted && j.Status != broker.JobRunning {
		return bad("a new record is Accepted or Running, not %q", j.Status)
	}
	if !storable(j.SubmittedAt) {
		return bad("it has no usable time of submission")
	}
	if (j.Status == broker.JobRunning) != (j.StartedAt != nil) {
		return bad("StartedAt is set exactly when it is Running")
	}
	if j.CompletedAt != nil || len(j.Result) != 0 || j.ResultBytes != 0 {
		return bad("a new record has no outcome")
	}
	for _, s := range []string{j.Tenant, j.User, j.Operation, j.Backend, j.IdempotencyKey, j.Digest} {
		if len(s) > maxName || !utf8.ValidString(s) {
			return bad("a name is longer than %d bytes or not UTF-8", maxName)
		}
	}
	return nil
}

// validID also keeps an id safe as the name of a file.
func validID(id string) bool {
	if id == "" || len(id) > maxID {
		return false
	}
	return strings.IndexFunc(id, func(c rune) bool {
		return !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' || c == '-')
	}) < 0
}
