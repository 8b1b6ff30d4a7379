package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.etcd.io/bbolt"

	"berth/broker"
)

const (
	maxRecordKeys  = 32
	maxRecordKey   = 512 // bytes of one index key
	defaultRecords = 1000
	maxRecords     = 10_000

	// A stored record is a format byte, CRC-32C of what follows, and JSON.
	rowVersion = 1
	rowHeader  = 5
)

// recordRow is a record as it is stored. Its value stands in it as bytes,
// because an encoder changes white space and escapes of raw JSON.
type recordRow struct {
	Revision uint64    `json:"revision"`
	Value    []byte    `json:"value"`
	Keys     []string  `json:"keys,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
}

// Put writes or deletes one record in one transaction with its index entries
// and its events, and gives the record as it then stands (deleted: as it
// stood). A revision that does not fit is broker.ErrRecordRevision, the
// deletion of what is not there broker.ErrRecordNotFound; nothing is written
// then, the events included. It waits for its turn as long as ctx lasts; after
// an error that wraps ErrInDoubt the change may have happened.
func (j *Journal) Put(ctx context.Context, c broker.RecordChange) (broker.Record, error) {
	out, err := j.PutAll(ctx, c)
	if err != nil {
		return broker.Record{}, err
	}
	return out[0], nil
}

// PutAll is Put for several records as one step: all of them are written, or
// none. No two changes may be of one record. It gives them in the order of the
// changes.
func (j *Journal) PutAll(ctx context.Context, changes ...broker.RecordChange) ([]broker.Record, error) {
	size, seen, changes := 0, make(map[[2]string]bool, len(changes)), slices.Clone(changes)
	for i, c := range changes {
		c, err := checkRecord(c)
		if err != nil {
			return nil, err
		}
		of := [2]string{c.Kind, c.ID}
		if seen[of] {
			return nil, fmt.Errorf("the record %s %q is changed twice in one step", c.Kind, c.ID)
		}
		seen[of], changes[i] = true, c
		size += len(c.Value) + 256
		for _, e := range c.Events {
			size += len(e.Message) + len(e.Payload) + 256
		}
	}
	out := make([]broker.Record, len(changes))
	err := j.do(ctx, &write{point: "record", size: size, apply: func(t *txn) error {
		for i, c := range changes {
			var err error
			if out[i], err = t.putRecord(c); err != nil {
				return err
			}
		}
		return nil
	}}, false)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// checkRecord refuses a change that could not be stored or found again.
func checkRecord(c broker.RecordChange) (broker.RecordChange, error) {
	bad := func(what string) (broker.RecordChange, error) {
		return c, fmt.Errorf("the record %s %q cannot be journalled: %s", c.Kind, c.ID, what)
	}
	switch {
	case !validID(c.Kind):
		return bad("its kind is not a name")
	case c.ID == "" || len(c.ID) > maxRecordKey || !utf8.ValidString(c.ID) || strings.ContainsRune(c.ID, 0):
		return bad(fmt.Sprintf("an id has 1 to %d bytes of text", maxRecordKey))
	case len(c.Value) > maxRecord:
		return bad(fmt.Sprintf("%d bytes, and a record may have %d", len(c.Value), maxRecord))
	case c.Value != nil && !json.Valid(c.Value):
		return bad("its value is not JSON")
	case len(c.Keys) > maxRecordKeys:
		return bad(fmt.Sprintf("it has more than %d index keys", maxRecordKeys))
	case !c.Expires.IsZero() && !storable(c.Expires):
		return bad("it has no usable time of expiry")
	}
	c.Keys = slices.Clone(c.Keys)
	slices.Sort(c.Keys)
	c.Keys = slices.Compact(c.Keys)
	for _, k := range c.Keys {
		if k == "" || len(k) > maxRecordKey || !utf8.ValidString(k) || strings.ContainsRune(k, 0) {
			return bad(fmt.Sprintf("an index key has 1 to %d bytes of text", maxRecordKey))
		}
	}
	for _, e := range c.Events {
		if e.ID != "" || e.EventType == "" {
			return bad("an event needs a type, and its id is the journal's to give")
		}
	}
	if !c.Expires.IsZero() {
		c.Expires = utc(c.Expires)
	}
	return c, nil
}

func (t *txn) putRecord(c broker.RecordChange) (broker.Record, error) {
	key := recordKey(c.Kind, c.ID)
	var before broker.Record
	if raw := t.bucket(bucketRecords).Get(key); raw != nil {
		var err error
		if before, err = decodeRecord(c.Kind, c.ID, raw); err != nil {
			return before, err
		}
	}
	switch {
	case c.If != nil && *c.If != before.Revision:
		return before, fmt.Errorf("%w: %s %s is at %d, not %d", broker.ErrRecordRevision, c.Kind, c.ID, before.Revision, *c.If)
	case c.Value == nil && before.Revision == 0:
		return before, fmt.Errorf("%w: %s %s", broker.ErrRecordNotFound, c.Kind, c.ID)
	}
	next := broker.Record{Kind: c.Kind, ID: c.ID, Revision: before.Revision + 1, Value: c.Value, Keys: c.Keys, Expires: c.Expires}
	if c.Value == nil {
		next.Keys, next.Expires = nil, time.Time{}
	}
	if err := t.reindex(before, next); err != nil {
		return before, err
	}
	for _, e := range c.Events {
		if e.CreatedAt.IsZero() {
			e.CreatedAt = t.j.opts.Now()
		}
		if _, err := t.append(e); err != nil {
			return before, err
		}
	}
	t.jobs = append(t.jobs, recordSignal(c.Kind, c.ID), recordSignal(c.Kind, ""))
	if c.Value == nil {
		return before, t.delete(bucketRecords, key)
	}
	raw, err := encodeRecord(next)
	if err != nil {
		return before, err
	}
	return next, t.put(bucketRecords, key, raw)
}

// reindex moves the index entries from one state of a record to the next.
func (t *txn) reindex(before, next broker.Record) error {
	for _, k := range before.Keys {
		if !slices.Contains(next.Keys, k) {
			if err := t.delete(bucketRecordKeys, recordKey(next.Kind, k, next.ID)); err != nil {
				return err
			}
		}
	}
	for _, k := range next.Keys {
		if !slices.Contains(before.Keys, k) {
			if err := t.put(bucketRecordKeys, recordKey(next.Kind, k, next.ID), nil); err != nil {
				return err
			}
		}
	}
	if before.Expires.Equal(next.Expires) {
		return nil
	}
	if !before.Expires.IsZero() {
		if err := t.delete(bucketRecordExpiry, expiryKey(before)); err != nil {
			return err
		}
	}
	if next.Expires.IsZero() {
		return nil
	}
	return t.put(bucketRecordExpiry, expiryKey(next), nil)
}

// recordKey joins parts that hold no zero byte.
func recordKey(parts ...string) []byte { return []byte(strings.Join(parts, "\x00")) }

func expiryKey(r broker.Record) []byte { return timeKey(r.Expires, r.Kind+"\x00"+r.ID) }

// recordSignal names a record, or every record of a kind, among the watched.
// The id of a job holds no zero byte.
func recordSignal(kind, id string) string { return kind + "\x00" + id }

// WatchRecords gives a channel that gets a signal after each committed change
// of a record, or with an empty id of any record of the kind. It is as Watch
// otherwise.
func (j *Journal) WatchRecords(kind, id string) (<-chan struct{}, func()) {
	return j.Watch(recordSignal(kind, id))
}

// Record gives one record, or broker.ErrRecordNotFound.
func (j *Journal) Record(kind, id string) (broker.Record, error) {
	var out broker.Record
	err := j.view(func(tx *bbolt.Tx) error {
		raw := []byte(nil)
		if b := tx.Bucket(bucketRecords); b != nil { // a file of version 1 that is open read-only
			raw = b.Get(recordKey(kind, id))
		}
		if raw == nil {
			return fmt.Errorf("%w: %s %s", broker.ErrRecordNotFound, kind, id)
		}
		var err error
		out, err = decodeRecord(kind, id, raw)
		return err
	})
	return out, err
}

// Records lists records of a kind, or those of one list of it. Records that
// cannot be decoded are left out and named in the error, which wraps
// ErrUnreadable and comes with all the others.
func (j *Journal) Records(q broker.RecordQuery) ([]broker.Record, error) {
	if q.Limit <= 0 {
		q.Limit = defaultRecords
	}
	q.Limit = min(q.Limit, maxRecords)
	var out []broker.Record
	var bad []error
	err := j.view(func(tx *bbolt.Tx) error {
		records := tx.Bucket(bucketRecords)
		if records == nil {
			return nil
		}
		return eachRecordID(tx, q, func(id string) error {
			r, err := decodeRecord(q.Kind, id, records.Get(recordKey(q.Kind, id)))
			if err != nil {
				bad = append(bad, err)
				return nil
			}
			out = append(out, r)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	return out, errors.Join(bad...)
}

// CountRecords counts what Records would list, without reading the records; it
// stops at the limit of the query.
func (j *Journal) CountRecords(q broker.RecordQuery) (int, error) {
	n := 0
	if q.Limit <= 0 {
		q.Limit = maxRecords
	}
	err := j.view(func(tx *bbolt.Tx) error {
		if tx.Bucket(bucketRecords) == nil {
			return nil
		}
		return eachRecordID(tx, q, func(string) error { n++; return nil })
	})
	if err != nil {
		return 0, fmt.Errorf("count records: %w", err)
	}
	return n, nil
}

// eachRecordID walks the ids that a query selects, in its order and up to its
// limit.
func eachRecordID(tx *bbolt.Tx, q broker.RecordQuery, fn func(id string) error) error {
	name, prefix := bucketRecords, recordKey(q.Kind, "")
	if q.Key != "" {
		name, prefix = bucketRecordKeys, recordKey(q.Kind, q.Key, "")
	}
	c := tx.Bucket(name).Cursor()
	from := append(slices.Clone(prefix), q.After...)
	var k []byte
	step := c.Next
	switch {
	case !q.Newest:
		if k, _ = c.Seek(from); k != nil && q.After != "" && bytes.Equal(k, from) {
			k, _ = c.Next()
		}
	default:
		if q.After == "" {
			from[len(from)-1]++ // behind every key with the prefix, whose last byte is zero
		}
		step = c.Prev
		if k, _ = c.Seek(from); k == nil {
			k, _ = c.Last()
		}
		for k != nil && bytes.Compare(k, from) >= 0 {
			k, _ = c.Prev()
		}
	}
	for n := 0; k != nil && bytes.HasPrefix(k, prefix) && n < q.Limit; n++ {
		if err := fn(string(k[len(prefix):])); err != nil {
			return err
		}
		k, _ = step()
	}
	return nil
}

func encodeRecord(r broker.Record) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, rowHeader, rowHeader+len(r.Value)*4/3+128))
	if err := encodeJSON(buf, recordRow{Revision: r.Revision, Value: r.Value, Keys: r.Keys, Expires: r.Expires}); err != nil {
		return nil, fmt.Errorf("encode the record %s %s: %w", r.Kind, r.ID, err)
	}
	raw := buf.Bytes()
	raw[0] = rowVersion
	binary.BigEndian.PutUint32(raw[1:], crc32.Checksum(raw[rowHeader:], castagnoli))
	return raw, nil
}

// decodeRecord reads a stored record. Nothing of raw is kept.
func decodeRecord(kind, id string, raw []byte) (broker.Record, error) {
	bad := func(format string, args ...any) (broker.Record, error) {
		return broker.Record{}, fmt.Errorf("the record %s %s: %w: %w", kind, id, ErrUnreadable, fmt.Errorf(format, args...))
	}
	switch {
	case raw == nil:
		return bad("an index entry has no record")
	case len(raw) < rowHeader || raw[0] != rowVersion:
		return bad("its format is not one that this program reads")
	case binary.BigEndian.Uint32(raw[1:]) != crc32.Checksum(raw[rowHeader:], castagnoli):
		return bad("its checksum is wrong")
	}
	var row recordRow
	if err := json.Unmarshal(raw[rowHeader:], &row); err != nil {
		return bad("%w", err)
	}
	return broker.Record{Kind: kind, ID: id, Revision: row.Revision, Value: row.Value, Keys: row.Keys, Expires: row.Expires}, nil
}

// pruneRecords removes records that have expired, a few hundred in a commit.
func (j *Journal) pruneRecords(ctx context.Context, now time.Time) error {
	upTo := timeKey(now.Add(1), "")
	var after []byte
	for {
		ids, last, err := j.scan(bucketRecordExpiry, after, upTo, chunk)
		if err != nil || len(ids) == 0 {
			return err
		}
		after = last
		err = j.do(ctx, &write{point: "prune", size: len(ids) * 64, apply: func(t *txn) error {
			for _, id := range ids {
				if err := t.expire(id, now); err != nil {
					return err
				}
			}
			return nil
		}}, false)
		if err != nil {
			return fmt.Errorf("prune records: %w", err)
		}
	}
}

// expire deletes a record whose time is over by now. One that was changed
// meanwhile, or cannot be decoded, stays.
func (t *txn) expire(name string, now time.Time) error {
	kind, id, _ := strings.Cut(name, "\x00")
	key := recordKey(kind, id)
	raw := t.bucket(bucketRecords).Get(key)
	if raw == nil {
		return nil
	}
	r, err := decodeRecord(kind, id, raw)
	if errors.Is(err, ErrUnreadable) || r.Expires.IsZero() || r.Expires.After(now) {
		return nil
	}
	if err := t.reindex(r, broker.Record{Kind: kind, ID: id}); err != nil {
		return err
	}
	t.jobs = append(t.jobs, recordSignal(kind, id), recordSignal(kind, ""))
	return t.delete(bucketRecords, key)
}

// checkRecords compares records with their index entries, in both directions.
func (c *checker) checkRecords(tx *bbolt.Tx) {
	records := tx.Bucket(bucketRecords)
	if records == nil {
		return
	}
	keys, expiry := tx.Bucket(bucketRecordKeys), tx.Bucket(bucketRecordExpiry)
	entries, expiries := 0, 0
	c.each(records, func(k, v []byte) error {
		kind, id, _ := strings.Cut(string(k), "\x00")
		r, err := decodeRecord(kind, id, v)
		if err != nil {
			c.add("record", kind+" "+id, "%v", err)
			return nil
		}
		for _, key := range r.Keys {
			entries++
			if !has(keys, recordKey(kind, key, id)) {
				c.add("index", kind+" "+id, "the record is not in its list %q", key)
			}
		}
		if !r.Expires.IsZero() {
			expiries++
			if !has(expiry, expiryKey(r)) {
				c.add("index", kind+" "+id, "the record is not in the index by expiry")
			}
		}
		return nil
	})
	if c.over() {
		return
	}
	for _, index := range []struct {
		bucket *bbolt.Bucket
		want   int
	}{{keys, entries}, {expiry, expiries}} {
		n := 0
		c.each(index.bucket, func(_, _ []byte) error { n++; return nil })
		if n > index.want && !c.over() {
			c.add("index", "", "%d index entries belong to no record", n-index.want)
		}
	}
}
