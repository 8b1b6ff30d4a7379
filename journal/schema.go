package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
)

// SchemaVersion is the version of the key layout that this package reads and
// writes. A file of version 1, which had no records beside jobs, is brought to
// it when it is opened for writing; any other refuses to open.
const SchemaVersion = 2

// firstSchema is the oldest version that is read.
const firstSchema = 1

var (
	bucketMeta       = []byte("meta")
	bucketJobs       = []byte("jobs")       // id -> record
	bucketByAge      = []byte("byAge")      // submission time, id -> nothing
	bucketUnfinished = []byte("unfinished") // submission time, id -> nothing; not final
	bucketEnded      = []byte("ended")      // completion time, id -> nothing; final
	bucketKeys       = []byte("keys")       // scope, idempotency key -> id
	bucketResults    = []byte("results")    // id -> result, up to maxInline
	bucketEvents     = []byte("events")     // event id -> event
	bucketCatalogs   = []byte("catalogs")   // backend -> catalog

	bucketRecords      = []byte("records")      // kind, id -> record
	bucketRecordKeys   = []byte("recordKeys")   // kind, index key, id -> nothing
	bucketRecordExpiry = []byte("recordExpiry") // expiry, kind, id -> nothing

	firstBuckets = [][]byte{bucketMeta, bucketJobs, bucketByAge, bucketUnfinished, bucketEnded,
		bucketKeys, bucketResults, bucketEvents, bucketCatalogs}
	laterBuckets = [][]byte{bucketRecords, bucketRecordKeys, bucketRecordExpiry}
	allBuckets   = slices.Concat(firstBuckets, laterBuckets)

	metaSchema  = []byte("schema")
	metaDropped = []byte("droppedLate")
)

// ErrSchema is a file that this version cannot read.
var ErrSchema = errors.New("the journal's schema is not one that this program reads")

// checkSchema accepts a file of a version that is read and, with create, makes
// an empty one and one of an earlier version ours.
func checkSchema(db *bbolt.DB, create bool) (version int, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		if first, _ := tx.Cursor().First(); first == nil {
			return nil
		}
		var err error
		version, err = schemaOf(tx)
		return err
	})
	switch {
	case err != nil || version == SchemaVersion || (version > 0 && !create): // version 0: the file is empty
		return version, err
	case !create:
		return 0, fmt.Errorf("%w: %s holds no journal yet", ErrSchema, db.Path())
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range allBuckets {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketMeta).Put(metaSchema, []byte(strconv.Itoa(SchemaVersion)))
	})
	if err != nil {
		return 0, fmt.Errorf("set up the journal %s: %w", db.Path(), err)
	}
	return SchemaVersion, nil
}

// schemaOf gives the version of a file that holds something.
func schemaOf(tx *bbolt.Tx) (int, error) {
	path := tx.DB().Path()
	meta := tx.Bucket(bucketMeta)
	if meta == nil || meta.Get(metaSchema) == nil {
		return 0, fmt.Errorf("%w: %s is a bbolt file without a journal's schema version; this program reads versions %d to %d", ErrSchema, path, firstSchema, SchemaVersion)
	}
	text := string(meta.Get(metaSchema))
	version, err := strconv.Atoi(text)
	if err != nil || text != strconv.Itoa(version) || version < firstSchema || version > SchemaVersion {
		return 0, fmt.Errorf("%w: %s has schema version %q and this program reads versions %d to %d", ErrSchema, path, text, firstSchema, SchemaVersion)
	}
	buckets := allBuckets
	if version == firstSchema {
		buckets = firstBuckets
	}
	for _, name := range buckets {
		if tx.Bucket(name) == nil {
			return 0, fmt.Errorf("%w: %s says schema version %d but has no bucket %q", ErrSchema, path, version, name)
		}
	}
	return version, nil
}

// ReadsSchema reports whether a journal of a version can be read.
func ReadsSchema(version int) bool { return version >= firstSchema && version <= SchemaVersion }

// timeKey is the key of a row in an index by time: eight bytes of nanoseconds,
// big-endian, then the id, so that rows sort by time and then by id.
func timeKey(t time.Time, id string) []byte {
	k := make([]byte, 8, 8+len(id))
	binary.BigEndian.PutUint64(k, uint64(t.UnixNano()))
	return append(k, id...)
}

// idOfTimeKey is the id in a key made by timeKey; false when it cannot be one.
func idOfTimeKey(k []byte) (string, bool) {
	if len(k) <= 8 {
		return "", false
	}
	return string(k[8:]), true
}

// scopedKey is the key of an idempotency row. The length in front keeps a scope
// and a key from being read as another scope and key.
func scopedKey(scope, key string) []byte {
	k := binary.AppendUvarint(make([]byte, 0, len(scope)+len(key)+2), uint64(len(scope)))
	k = append(k, scope...)
	return append(k, key...)
}

// storable reports whether t fits an index by time.
func storable(t time.Time) bool { return t.Year() >= 1970 && t.Year() < 2262 }

func counter(b *bbolt.Bucket, key []byte) uint64 {
	if v := b.Get(key); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}
