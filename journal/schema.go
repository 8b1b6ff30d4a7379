package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
)

// SchemaVersion is the version of the key layout that this package reads and
// writes. Any other refuses to open.
const SchemaVersion = 1

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

	allBuckets = [][]byte{bucketMeta, bucketJobs, bucketByAge, bucketUnfinished, bucketEnded,
		bucketKeys, bucketResults, bucketEvents, bucketCatalogs}

	metaSchema  = []byte("schema")
	metaDropped = []byte("droppedLate")
)

// ErrSchema is a file that this version cannot read.
var ErrSchema = errors.New("the journal's schema is not one that this program reads")

// checkSchema accepts a file of our version and, with create, makes an empty
// one ours.
func checkSchema(db *bbolt.DB, create bool) error {
	empty := false
	err := db.View(func(tx *bbolt.Tx) error {
		first, _ := tx.Cursor().First()
		if empty = first == nil; empty {
			return nil
		}
		return schemaOf(tx)
	})
	switch {
	case err != nil || !empty:
		return err
	case !create:
		return fmt.Errorf("%w: %s holds no journal yet", ErrSchema, db.Path())
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range allBuckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketMeta).Put(metaSchema, []byte(strconv.Itoa(SchemaVersion)))
	})
	if err != nil {
		return fmt.Errorf("set up the journal %s: %w", db.Path(), err)
	}
	return nil
}

func schemaOf(tx *bbolt.Tx) error {
	path := tx.DB().Path()
	meta := tx.Bucket(bucketMeta)
	if meta == nil || meta.Get(metaSchema) == nil {
		return fmt.Errorf("%w: %s is a bbolt file without a journal's schema version; this program reads version %d", ErrSchema, path, SchemaVersion)
	}
	if got := string(meta.Get(metaSchema)); got != strconv.Itoa(SchemaVersion) {
		return fmt.Errorf("%w: %s has schema version %q and this program reads version %d", ErrSchema, path, got, SchemaVersion)
	}
	for _, name := range allBuckets {
		if tx.Bucket(name) == nil {
			return fmt.Errorf("%w: %s says schema version %d but has no bucket %q", ErrSchema, path, SchemaVersion, name)
		}
	}
	return nil
}

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
