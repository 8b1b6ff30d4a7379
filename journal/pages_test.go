package journal_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"berth/journal"
)

// image is the bytes of a closed journal of many pages.
type image struct {
	data []byte
	size int              // of a page
	used int              // pages that the heads speak of
	of   map[string][]int // pages by their kind, as bbolt calls it
}

// newImage makes a journal whose records stand in a tree. listed has the file
// list its free pages, as one does that was just created.
func newImage(t *testing.T, listed bool) image {
	t.Helper()
	path := newPath(t)
	j := openAt(t, path)
	for n := range 40 {
		made := job(n)
		made.FailureMessage = strings.Repeat("x", 600)
		if _, _, err := j.CreateJob(context.Background(), made); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, j, 50, `"`+strings.Repeat("x", 20<<10)+`"`)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: !listed, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	im := image{size: db.Info().PageSize, of: map[string][]int{}}
	if err := db.Update(func(*bbolt.Tx) error { return nil }); err != nil { // writes the list, or lets go of it
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for id := 0; ; id++ {
			p, err := tx.Page(id)
			if err != nil {
				return err
			}
			if p == nil {
				return errListed
			}
			im.of[p.Type] = append(im.of[p.Type], id)
			id += p.OverflowCount
			im.used = id + 1
		}
	})
	if errors.Is(err, errListed) { // a commit would move pages
		err = nil
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if im.data, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	im.data = im.data[:im.used*im.size] // bbolt lets the file grow far ahead
	return im
}

var errListed = errors.New("all pages were listed")

func (im image) copy() image {
	im.data = bytes.Clone(im.data)
	return im
}

func (im image) page(id int) []byte { return im.data[id*im.size : (id+1)*im.size] }

// first and last give a page of a kind.
func (im image) first(t *testing.T, kind string) []byte { return im.page(im.pages(t, kind)[0]) }

func (im image) last(t *testing.T, kind string) []byte {
	of := im.pages(t, kind)
	return im.page(of[len(of)-1])
}

func (im image) pages(t *testing.T, kind string) []int {
	t.Helper()
	if len(im.of[kind]) == 0 {
		t.Fatalf("the journal has no %s page: %v", kind, im.of)
	}
	return im.of[kind]
}

// head changes one number of both heads and makes their sums fit again.
func (im image) head(at int, value uint64) {
	for _, id := range []int{0, 1} {
		m := im.page(id)[16:80]
		binary.NativeEndian.PutUint64(m[at:], value)
		sum := fnv.New64a()
		_, _ = sum.Write(m[:56])
		binary.NativeEndian.PutUint64(m[56:], sum.Sum64())
	}
}

func put16(b []byte, at int, v uint16) { binary.NativeEndian.PutUint16(b[at:], v) }
func put32(b []byte, at int, v uint32) { binary.NativeEndian.PutUint32(b[at:], v) }
func put64(b []byte, at int, v uint64) { binary.NativeEndian.PutUint64(b[at:], v) }
func fill(b []byte, with byte)         { copy(b, bytes.Repeat([]byte{with}, len(b))) }

// TestDamagedPagesAreRefusedAndLeftAlone spoils one thing at a time. bbolt ends
// the process on some of these, from a goroutine of its own.
func TestDamagedPagesAreRefusedAndLeftAlone(t *testing.T) {
	plain, listed := newImage(t, false), newImage(t, true)
	for _, tt := range []struct {
		name   string
		listed bool
		spoil  func(t *testing.T, im *image)
	}{
		{name: "both heads overwritten", spoil: func(_ *testing.T, im *image) { fill(im.data[:2*im.size], 0xAA) }},
		{name: "both heads zeroed", spoil: func(_ *testing.T, im *image) { fill(im.data[:2*im.size], 0) }},
		{name: "a root outside of the file", spoil: func(_ *testing.T, im *image) { im.head(16, 1<<40) }},
		{name: "a root that is a head", spoil: func(_ *testing.T, im *image) { im.head(16, 1) }},
		{name: "more pages than the file has", spoil: func(_ *testing.T, im *image) { im.head(40, 1<<52) }},
		{name: "no pages", spoil: func(_ *testing.T, im *image) { im.head(40, 0) }},
		{name: "a list of free pages outside of the file", spoil: func(_ *testing.T, im *image) { im.head(32, 1<<40) }},
		{name: "a list of free pages that is a leaf", spoil: func(t *testing.T, im *image) { im.head(32, uint64(im.pages(t, "leaf")[0])) }},
		{name: "the list of free pages overwritten", listed: true, spoil: func(t *testing.T, im *image) { fill(im.first(t, "freelist"), 0xAA) }},
		{name: "the list of free pages zeroed", listed: true, spoil: func(t *testing.T, im *image) { fill(im.first(t, "freelist"), 0) }},
		{name: "a list longer than its page", listed: true, spoil: func(t *testing.T, im *image) { put16(im.first(t, "freelist"), 10, 0xFFFE) }},
		{name: "a list of a length of its own", listed: true, spoil: func(t *testing.T, im *image) {
			put16(im.first(t, "freelist"), 10, 0xFFFF)
			put64(im.first(t, "freelist"), 16, 1<<63+1)
		}},
		{name: "a page in use listed as free", listed: true, spoil: func(t *testing.T, im *image) {
			put16(im.first(t, "freelist"), 10, 1)
			put64(im.first(t, "freelist"), 16, uint64(im.pages(t, "branch")[0]))
		}},
		{name: "a branch overwritten", spoil: func(t *testing.T, im *image) { fill(im.first(t, "branch"), 0xAA) }},
		{name: "a branch zeroed", spoil: func(t *testing.T, im *image) { fill(im.first(t, "branch"), 0) }},
		{name: "a branch without entries", spoil: func(t *testing.T, im *image) { put16(im.first(t, "branch"), 10, 0) }},
		{name: "a branch with too many entries", spoil: func(t *testing.T, im *image) { put16(im.first(t, "branch"), 10, 0xFFFF) }},
		{name: "a branch that leads outside of the file", spoil: func(t *testing.T, im *image) { put64(im.first(t, "branch"), 24, 1<<50) }},
		{name: "a branch that leads to itself", spoil: func(t *testing.T, im *image) { put64(im.first(t, "branch"), 24, uint64(im.pages(t, "branch")[0])) }},
		{name: "a branch that leads to one page twice", spoil: func(t *testing.T, im *image) {
			b := im.first(t, "branch")
			copy(b[24:32], b[40:48])
		}},
		{name: "a branch whose keys are elsewhere", spoil: func(t *testing.T, im *image) { put32(im.first(t, "branch"), 16, 1<<31) }},
		{name: "a branch whose keys are huge", spoil: func(t *testing.T, im *image) { put32(im.first(t, "branch"), 20, 1<<31) }},
		{name: "a branch whose entries are exchanged", spoil: func(t *testing.T, im *image) {
			b := im.first(t, "branch")
			first, second := bytes.Clone(b[24:32]), bytes.Clone(b[40:48])
			copy(b[24:], second)
			copy(b[40:], first)
		}},
		{name: "a leaf overwritten", spoil: func(t *testing.T, im *image) { fill(im.last(t, "leaf"), 0xAA) }},
		{name: "a leaf zeroed", spoil: func(t *testing.T, im *image) { fill(im.first(t, "leaf"), 0) }},
		{name: "every leaf overwritten with text", spoil: func(t *testing.T, im *image) {
			for _, id := range im.pages(t, "leaf") {
				copy(im.page(id), strings.Repeat("not a page of this file\n", im.size))
			}
		}},
		{name: "a leaf in the place of another", spoil: func(t *testing.T, im *image) { copy(im.first(t, "leaf"), im.last(t, "leaf")) }},
		{name: "a leaf of another kind", spoil: func(t *testing.T, im *image) { put16(im.first(t, "leaf"), 8, 0x04) }},
		{name: "a leaf of two kinds", spoil: func(t *testing.T, im *image) { put16(im.first(t, "leaf"), 8, 0x03) }},
		{name: "a leaf that goes on behind the end", spoil: func(t *testing.T, im *image) { put32(im.first(t, "leaf"), 12, 1<<30) }},
		{name: "a leaf that runs into the next page", spoil: func(t *testing.T, im *image) {
			for _, id := range im.pages(t, "leaf") {
				put32(im.page(id), 12, 1)
			}
		}},
		{name: "a leaf with too many entries", spoil: func(t *testing.T, im *image) { put16(im.first(t, "leaf"), 10, 0xFFFF) }},
		{name: "a leaf with an empty key", spoil: func(t *testing.T, im *image) { put32(im.first(t, "leaf"), 24, 0) }},
		{name: "a leaf whose value is huge", spoil: func(t *testing.T, im *image) { put32(im.first(t, "leaf"), 28, 1<<31) }},
		{name: "a file cut in half", spoil: func(_ *testing.T, im *image) { im.data = im.data[:im.used/2*im.size] }},
		{name: "a file without the end of its last page", spoil: func(_ *testing.T, im *image) { im.data = im.data[:im.used*im.size-1] }},
		{name: "a file cut inside its second head", spoil: func(_ *testing.T, im *image) { im.data = im.data[:im.size+20] }},
		{name: "a file of one byte", spoil: func(_ *testing.T, im *image) { im.data = im.data[:1] }},
		{name: "a file of zeroes", spoil: func(_ *testing.T, im *image) { fill(im.data, 0) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			im := plain.copy()
			if tt.listed {
				im = listed.copy()
			}
			tt.spoil(t, &im)
			refused(t, im)
		})
	}
}

// refused holds that a file is refused both ways and not changed.
func refused(t *testing.T, im image) {
	t.Helper()
	path := newPath(t)
	if err := os.WriteFile(path, im.data, 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, open := range map[string]func() (*journal.Journal, error){
		"Open":         func() (*journal.Journal, error) { return journal.Open(path, journal.Options{}) },
		"OpenReadOnly": func() (*journal.Journal, error) { return journal.OpenReadOnly(path) },
	} {
		j, err := open()
		if err == nil {
			t.Errorf("%s opened it", kind)
			_ = j.Close()
			continue
		}
		if !errors.Is(err, journal.ErrDamaged) || strings.Contains(err.Error(), "goroutine") {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, im.data) {
		t.Errorf("the file was changed, error %v", err)
	}
}

func TestAHeadThatIsNotWholeIsAProblemAndTheOtherCounts(t *testing.T) {
	for id := range 2 {
		im := newImage(t, false)
		fill(im.page(id), 0xAA)
		path := newPath(t)
		if err := os.WriteFile(path, im.data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, open := range []func() (*journal.Journal, error){
			func() (*journal.Journal, error) { return journal.OpenReadOnly(path) },
			func() (*journal.Journal, error) { return journal.Open(path, journal.Options{}) },
		} {
			j, err := open()
			if err != nil {
				t.Fatal(err)
			}
			problems, err := j.Check(context.Background())
			if err != nil || len(problems) == 0 || problems[0].Kind != "page" || !strings.Contains(problems[0].Detail, "heads") {
				t.Errorf("head %d: found %v, error %v", id, problems, err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A file that is overwritten while it is open is told of, too, and whatever
// stands on such pages is not read.
func TestCheckOfAnOpenJournalFindsPagesThatWereOverwritten(t *testing.T) {
	im := newImage(t, false)
	path := newPath(t)
	if err := os.WriteFile(path, im.data, 0o600); err != nil {
		t.Fatal(err)
	}
	j := openAt(t, path)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range im.pages(t, "leaf") {
		if _, err := f.WriteAt(bytes.Repeat([]byte{0xAA}, im.size), int64(id*im.size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	problems, err := j.Check(context.Background())
	if err != nil || len(problems) == 0 {
		t.Fatalf("found %v, error %v", problems, err)
	}
	for _, p := range problems {
		if p.Kind != "page" {
			t.Errorf("found %v", p)
		}
	}
}

// Any bytes anywhere: the journal is refused as damaged, or it opens and can be
// checked and read. Both ways the process lives and the file stays as it is.
func TestAnyDamageEndsInAVerdict(t *testing.T) {
	images := []image{newImage(t, false), newImage(t, true)}
	path := newPath(t)
	rapid.Check(t, func(t *rapid.T) {
		im := images[rapid.IntRange(0, 1).Draw(t, "image")].copy()
		for range rapid.IntRange(1, 8).Draw(t, "places") {
			// Most of a page is values; what matters is its beginning.
			at := rapid.IntRange(0, im.used-1).Draw(t, "page") * im.size
			reach := rapid.SampledFrom([]int{16, 96, im.size}).Draw(t, "reach")
			at += rapid.IntRange(0, reach-1).Draw(t, "offset")
			with := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "bytes")
			copy(im.data[at:], with)
		}
		if err := os.WriteFile(path, im.data, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := journal.OpenReadOnly(path)
		if err != nil {
			if !errors.Is(err, journal.ErrDamaged) && !errors.Is(err, journal.ErrSchema) {
				t.Fatal(err)
			}
		} else if _, err := j.Check(context.Background()); errors.Join(err, j.Close()) != nil {
			t.Fatal(err)
		}
		if j, err = journal.Open(path, journal.Options{}); err == nil {
			err = j.Close()
		} else if errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrSchema) {
			err = nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, im.data) {
			t.Fatalf("the file was changed, error %v", err)
		}
	})
}
