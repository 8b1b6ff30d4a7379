package journal

import (
	"fmt"
	"os"

	"go.etcd.io/bbolt"

	"berth/broker"
)

// Stats is what an operator sees of a journal. A nil pointer is not known.
type Stats struct {
	SchemaVersion int
	Jobs          map[broker.JobStatus]int // readable records
	Unreadable    int                      // records that cannot be decoded
	Events        int
	ResultFiles   int
	FileBytes     int64
	FreePages     *int // free or about to be; unknown when read-only
	PageBytes     int
	Commits       uint64 // since the journal was opened
	Writes        uint64 // in those commits
	MeanGroup     float64
	DroppedLate   uint64 // outcomes that met a final record, ever
	Waiting       int    // writes in the queue now
}

// Stats counts. It visits every record, without decoding it, in short read
// transactions: some tens of milliseconds for a hundred thousand records.
func (j *Journal) Stats() (Stats, error) {
	f := j.file.Load()
	s := Stats{SchemaVersion: f.schema, Jobs: map[broker.JobStatus]int{}, PageBytes: f.pageBytes}
	for status := range statusBytes {
		s.Jobs[status] = 0
	}
	var after []byte
	for over := false; !over; {
		err := j.view(func(tx *bbolt.Tx) error {
			c := tx.Bucket(bucketJobs).Cursor()
			k, v := c.Seek(after)
			if k != nil && after != nil && string(k) == string(after) {
				k, v = c.Next()
			}
			for n := 0; k != nil && n < chunk; n++ {
				if status, err := peek(v); err != nil {
					s.Unreadable++
				} else {
					s.Jobs[status]++
				}
				after = append(after[:0], k...)
				k, v = c.Next()
			}
			over = k == nil
			return nil
		})
		if err != nil {
			return Stats{}, fmt.Errorf("count the journal: %w", err)
		}
	}
	err := j.view(func(tx *bbolt.Tx) error {
		s.DroppedLate = counter(tx.Bucket(bucketMeta), metaDropped)
		return tx.Bucket(bucketEvents).ForEach(func(_, v []byte) error {
			if len(v) > 0 { // an empty row is reserved for an event that was deleted
				s.Events++
			}
			return nil
		})
	})
	if err != nil {
		return Stats{}, fmt.Errorf("count the journal: %w", err)
	}
	return s, j.addFigures(&s)
}

// Figures are the parts of Stats that cost nothing to read.
type Figures struct {
	FileBytes int64
	Commits   uint64 // since the journal was opened
	Writes    uint64 // in those commits
	Waiting   int    // writes in the queue now
}

// Figures reads them; they are those of one moment only one by one.
func (j *Journal) Figures() (Figures, error) {
	info, err := os.Stat(j.path)
	if err != nil {
		return Figures{}, fmt.Errorf("look at the journal: %w", err)
	}
	return Figures{FileBytes: info.Size(), Commits: j.commits.Load(), Writes: j.writes.Load(), Waiting: j.queue.len()}, nil
}

// JobCount is how many records there are, without a visit to any: they were
// counted when the file was opened, and are since. After a commit that may have
// happened it is not known.
func (j *Journal) JobCount() (n int, known bool) {
	return int(j.records.Load()), !j.doubtful.Load()
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.creations) + len(q.others)
}

func (j *Journal) addFigures(s *Stats) error {
	info, err := os.Stat(j.path)
	if err != nil {
		return fmt.Errorf("count the journal: %w", err)
	}
	s.FileBytes = info.Size()
	if entries, err := os.ReadDir(j.results); err == nil {
		s.ResultFiles = len(entries)
	} else if !os.IsNotExist(err) {
		return fmt.Errorf("count the journal: %w", err)
	}
	if !j.readOnly {
		b := j.file.Load().db.Stats()
		free := b.FreePageN + b.PendingPageN
		s.FreePages = &free
	}
	s.Commits, s.Writes = j.commits.Load(), j.writes.Load()
	if s.Commits > 0 {
		s.MeanGroup = float64(s.Writes) / float64(s.Commits)
	}
	s.Waiting = j.queue.len()
	return nil
}
