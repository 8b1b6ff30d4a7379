package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"berth/broker"
)

func TestAWriteThatFailsHalfDoneIsTakenOutOfItsGroup(t *testing.T) {
	half := errors.New("half done")
	for name, fail := range map[string]func() error{
		"error": func() error { return half },
		"panic": func() error { panic("half done") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				j, err := Open(filepath.Join(t.TempDir(), "journal.db"), Options{Commit: func(commit func() error) error {
					<-gate
					return commit()
				}})
				if err != nil {
					t.Fatal(err)
				}
				put := func(key string, after func() error) <-chan error {
					ch := make(chan error, 1)
					go func() {
						ch <- j.do(context.Background(), &write{apply: func(tx *txn) error {
							if err := tx.put(bucketMeta, []byte(key), []byte("x")); err != nil {
								return err
							}
							return after()
						}}, true)
					}()
					synctest.Wait()
					return ch
				}
				fine := func() error { return nil }
				put("first", fine) // held in its commit, so that the rest is one group
				a, b, c := put("a", fine), put("b", fail), put("c", fine)
				close(gate)
				if err := <-a; err != nil {
					t.Error(err)
				}
				if err := <-b; err == nil || (name == "error" && !errors.Is(err, half)) {
					t.Errorf("the write that failed: %v", err)
				}
				if err := <-c; err != nil {
					t.Error(err)
				}
				err = j.view(func(tx *bbolt.Tx) error {
					for key, want := range map[string]bool{"a": true, "b": false, "c": true} {
						if got := tx.Bucket(bucketMeta).Get([]byte(key)) != nil; got != want {
							t.Errorf("%s is there: %v", key, got)
						}
					}
					return nil
				})
				if err := errors.Join(err, j.Close()); err != nil {
					t.Error(err)
				}
				if n := j.commits.Load(); n != 2 {
					t.Errorf("%d commits; the three were not one group", n)
				}
			})
		})
	}
}

func TestAGroupIsBoundedInNumberAndBytes(t *testing.T) {
	var q queue
	for range maxGroup + 10 {
		q.creations = append(q.creations, &write{size: 1})
	}
	if group, _ := q.take(); len(group) != maxGroup {
		t.Errorf("a group of %d", len(group))
	}
	q = queue{others: []*write{{size: maxGroupBytes * 2}, {size: maxGroupBytes - 1}, {size: 2}}}
	for _, want := range []int{1, 1, 1} {
		if group, _ := q.take(); len(group) != want {
			t.Errorf("a group of %d, want %d", len(group), want)
		}
	}
}

func TestSuccessorIsTheNextIDInByteOrder(t *testing.T) {
	for id, want := range map[string]string{
		"evt_0000_a0": "evt_0000_a1", "evt_0000_a9": "evt_0000_aA", "evt_0000_aZ": "evt_0000_aa", "evt_0000_az": "evt_0000_b0", "evt_0000_9zz": "evt_0000_A00",
	} {
		if got := successor(id); got != want || got <= id {
			t.Errorf("after %s comes %s, want %s", id, got, want)
		}
	}
}

// FuzzDecode holds that no stored bytes, damaged or from elsewhere, take the
// journal down, and that what can be read is written back as it was.
func FuzzDecode(f *testing.F) {
	at := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	r := record{Job: broker.Job{ID: "job_1", Status: broker.JobLost, SubmittedAt: at, CompletedAt: &at, Refusal: []byte(`{"a":"<"}`)}, EndEvent: "evt_1"}
	raw, err := r.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(nil))
	f.Add([]byte{recordVersion, 5, 0, 0, 0, 0, '{', '}'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, _ = decode("job_1", raw)
		if len(raw) >= headerBytes { // with a right sum, so that the body is reached
			raw = append([]byte(nil), raw...)
			raw[0] = recordVersion
			binary.BigEndian.PutUint32(raw[2:], checksum(raw))
		}
		first, err := decode("job_1", raw)
		if err != nil {
			if !errors.Is(err, ErrUnreadable) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		again, err := first.encode()
		if err != nil {
			return // what is too large, or a time that JSON has no form for
		}
		second, err := decode("job_1", again)
		if err != nil {
			t.Fatalf("it was read, written and cannot be read: %v", err)
		}
		if third, err := second.encode(); err != nil || string(third) != string(again) {
			t.Fatalf("it changes when it is written again: %s and %s, %v", again, third, err)
		}
	})
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add([]byte(`{"Id":"evt_1","EventType":"job.lost"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if e := decodeEvent("evt_1", raw); e.ID != "evt_1" {
			t.Fatalf("an event without its id: %+v", e)
		}
		if _, err := decodeCatalog("b", raw); err != nil && !errors.Is(err, ErrUnreadable) {
			t.Fatalf("an error of another kind: %v", err)
		}
	})
}
