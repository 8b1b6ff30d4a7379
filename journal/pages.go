package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// ErrDamaged is a file that cannot be a whole journal. Nothing was changed in
// it.
var ErrDamaged = errors.New("the file is damaged")

// The layout of a bbolt file, as far as bbolt trusts it: it follows ids and
// offsets wherever they lead, through a memory map and in goroutines of its
// own, where a wrong one ends the process. So every page that can be reached is
// looked at first, with ordinary reads.
//
// A page has a header of 16 bytes (id, flags, count, overflow). The first two
// hold a head each, of which the one with the higher transaction counts. A
// branch or leaf has its entries behind the header, 16 bytes each, and then
// their keys and values in the same order.
const (
	boltPageHeader = 16
	boltMeta       = 64
	boltMagic      = 0xED0CDAED
	boltVersion    = 2
	boltEntry      = 16
	boltBucket     = 16 // a bucket's value: its root's id, zero when it is inline, and its sequence
	boltMaxKey     = 32768
	boltNoFreelist = ^uint64(0)

	boltBranch   = 0x01
	boltLeaf     = 0x02
	boltFreelist = 0x10

	boltIsBucket = 0x01 // of an entry

	minPageSize, maxPageSize = 1 << 10, 16 << 20
	maxTreeDepth             = 64 // trees of this depth have more pages than any file
)

var order = binary.NativeEndian

// head is what one of the two heads says.
type head struct{ pageSize, root, freelist, pages, txid uint64 }

// readHead reads the head of the page at an offset; ok is false where there is
// none that is whole.
func readHead(f io.ReaderAt, at int64) (h head, ok bool, err error) {
	var b [boltPageHeader + boltMeta]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		if errors.Is(err, io.EOF) {
			return head{}, false, nil
		}
		return head{}, false, err
	}
	m := b[boltPageHeader:]
	sum := fnv.New64a()
	_, _ = sum.Write(m[:56])
	if order.Uint32(m) != boltMagic || order.Uint32(m[4:]) != boltVersion || order.Uint64(m[56:]) != sum.Sum64() {
		return head{}, false, nil
	}
	h = head{pageSize: uint64(order.Uint32(m[8:])), root: order.Uint64(m[16:]), freelist: order.Uint64(m[32:]),
		pages: order.Uint64(m[40:]), txid: order.Uint64(m[48:])}
	ok = h.pageSize >= minPageSize && h.pageSize <= maxPageSize && h.pageSize&(h.pageSize-1) == 0
	return h, ok, nil
}

// readHeads gives the head that counts. alone says that the other is damaged,
// as after a crash in the middle of its writing. Without the first the second is
// looked for behind a page of each possible size.
func readHeads(f io.ReaderAt) (newest head, alone bool, err error) {
	first, ok, err := readHead(f, 0)
	if err != nil {
		return head{}, false, err
	}
	if ok {
		second, ok, err := readHead(f, int64(first.pageSize))
		switch {
		case err != nil:
			return head{}, false, err
		case !ok || second.pageSize != first.pageSize:
			return first, true, nil
		case second.txid > first.txid:
			return second, false, nil
		}
		return first, false, nil
	}
	for at := uint64(minPageSize); at <= maxPageSize; at <<= 1 {
		second, ok, err := readHead(f, int64(at))
		if err != nil {
			return head{}, false, err
		}
		if ok && second.pageSize == at {
			return second, true, nil
		}
	}
	return head{}, false, fmt.Errorf("%w: neither of its two heads is whole, or it is no journal", ErrDamaged)
}

// inspection is one walk over the pages of a file.
type inspection struct {
	file  io.ReaderAt
	head  head
	seen  []uint64 // a bit for each page
	most  int      // problems to collect
	found []string
	// rooms are what pages are read into, one for each depth: a page is looked
	// at while those above it are, and never after it.
	rooms [][]byte

	inBucket bool
	counting bool // the bucket is that of records
	records  int
}

// errEnough ends a walk that has found as much as it may.
var errEnough = errors.New("enough was found")

// inspect reads the pages that can be reached, size is that of the file. Its
// error is ErrDamaged when there is nothing to walk, or that of a read; what the
// walk finds is in the list, of at most so many sentences.
func inspect(f io.ReaderAt, size int64, most int) (w *inspection, alone bool, err error) {
	h, alone, err := readHeads(f)
	if err != nil {
		return nil, false, err
	}
	if h.pages < 3 {
		return nil, alone, fmt.Errorf("%w: its head speaks of %d pages", ErrDamaged, h.pages)
	}
	// The division, as a product of two numbers of the file may overflow.
	if h.pages > uint64(size)/h.pageSize {
		return nil, alone, fmt.Errorf("%w: it has %d bytes and its head speaks of %d pages of %d", ErrDamaged, size, h.pages, h.pageSize)
	}
	w = &inspection{file: f, head: h, seen: make([]uint64, h.pages/64+1), most: most}
	err = w.tree(h.root, place{}, 0, nil, nil)
	if err == nil {
		err = w.freelist()
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, alone, err
	}
	return w, alone, nil
}

func (w *inspection) problem(format string, args ...any) error {
	w.found = append(w.found, fmt.Sprintf(format, args...))
	if len(w.found) >= w.most {
		return errEnough
	}
	return nil
}

// place names a page, or a bucket inside of one, in a sentence; zero is the
// head. It is made for every page and becomes text for a damaged one only.
type place struct {
	id     uint64
	inside bool
}

func (p place) String() string {
	switch {
	case p.inside:
		return fmt.Sprintf("a bucket in page %d", p.id)
	case p.id == 0:
		return "the head"
	}
	return fmt.Sprintf("page %d", p.id)
}

// page is a page, or a bucket inside of one.
type page struct {
	name            place
	id              uint64
	flags, count    uint16
	overflow        uint32
	length          uint64 // of all of it, in bytes
	first           []byte // the beginning of it
	file            io.ReaderAt
	at              int64
	inline, damaged bool
}

// bytes gives part of a page; the caller has checked that it is inside.
func (p *page) bytes(from, n uint64) ([]byte, error) {
	if from+n <= uint64(len(p.first)) {
		return p.first[from : from+n], nil
	}
	b := make([]byte, n)
	if _, err := p.file.ReadAt(b, p.at+int64(from)); err != nil {
		return nil, fmt.Errorf("read %s: %w", p.name, err)
	}
	return b, nil
}

func (p *page) header() {
	p.id, p.flags = order.Uint64(p.first), order.Uint16(p.first[8:])
	p.count, p.overflow = order.Uint16(p.first[10:]), order.Uint32(p.first[12:])
}

// open reads a page that by refers to and notes all of it as used; one that
// cannot be used is damaged, and that has been told.
func (w *inspection) open(id uint64, by place, depth int) (*page, error) {
	if id < 2 || id >= w.head.pages {
		return &page{damaged: true}, w.problem("%s refers to page %d and the pages in use are 2 to %d", by, id, w.head.pages-1)
	}
	for len(w.rooms) <= depth {
		w.rooms = append(w.rooms, make([]byte, w.head.pageSize))
	}
	p := &page{name: place{id: id}, file: w.file, at: int64(id * w.head.pageSize), first: w.rooms[depth]}
	if _, err := w.file.ReadAt(p.first, p.at); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	p.header()
	p.damaged = true
	switch {
	case p.id != id:
		return p, w.problem("page %d calls itself page %d", id, p.id)
	case p.flags != boltBranch && p.flags != boltLeaf && p.flags != boltFreelist:
		return p, w.problem("page %d is of no known kind (%#x)", id, p.flags)
	case uint64(p.overflow) >= w.head.pages-id:
		return p, w.problem("page %d has %d pages behind it, which is more than there are", id, p.overflow)
	}
	for n := id; n <= id+uint64(p.overflow); n++ {
		if w.used(n) {
			return p, w.problem("page %d is used twice", n)
		}
		w.seen[n/64] |= 1 << (n % 64)
	}
	p.damaged = false
	p.length = (uint64(p.overflow) + 1) * w.head.pageSize
	return p, nil
}

func (w *inspection) used(id uint64) bool { return w.seen[id/64]&(1<<(id%64)) != 0 }

// tree walks over a page and all below it. Its keys are not before low and
// before high; nil is no bound.
func (w *inspection) tree(id uint64, by place, depth int, low, high []byte) error {
	if depth > maxTreeDepth {
		return w.problem("page %d lies deeper than a tree can be", id)
	}
	p, err := w.open(id, by, depth)
	if err != nil || p.damaged {
		return err
	}
	switch p.flags {
	case boltBranch:
		return w.branch(p, depth, low, high)
	case boltLeaf:
		return w.leaf(p, depth, low, high)
	}
	return w.problem("%s refers to page %d, which lists free pages", by, id)
}

// entry is one entry of a page.
type entry struct {
	key            []byte
	child          uint64 // of a branch
	bucket         bool   // of a leaf, as the rest
	valueAt, value uint64
}

// entries gives one entry after the other. It ends at the first that cannot be.
func (w *inspection) entries(p *page, low, high []byte, each func(entry) error) error {
	next := boltPageHeader + uint64(p.count)*boltEntry
	if next > p.length {
		return w.problem("%s has no room for its %d entries", p.name, p.count)
	}
	table, err := p.bytes(boltPageHeader, uint64(p.count)*boltEntry)
	if err != nil {
		return err
	}
	last := low
	for i := range uint64(p.count) {
		row := table[i*boltEntry:]
		var e entry
		var at, keySize, flags uint64
		if p.flags == boltBranch {
			at, keySize, e.child = uint64(order.Uint32(row)), uint64(order.Uint32(row[4:])), order.Uint64(row[8:])
		} else {
			flags, at = uint64(order.Uint32(row)), uint64(order.Uint32(row[4:]))
			keySize, e.value = uint64(order.Uint32(row[8:])), uint64(order.Uint32(row[12:]))
		}
		at += boltPageHeader + i*boltEntry
		e.valueAt, e.bucket = at+keySize, flags == boltIsBucket
		switch {
		case flags&^boltIsBucket != 0, keySize == 0, keySize > boltMaxKey, at < next, e.valueAt+e.value > p.length:
			return w.problem("entry %d of %s cannot be read", i, p.name)
		}
		next = e.valueAt + e.value
		if e.key, err = p.bytes(at, keySize); err != nil {
			return err
		}
		if c := bytes.Compare(last, e.key); i > 0 && c >= 0 || i == 0 && c > 0 || high != nil && bytes.Compare(e.key, high) >= 0 {
			return w.problem("entry %d of %s is out of order", i, p.name)
		}
		last = e.key
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

func (w *inspection) branch(p *page, depth int, low, high []byte) error {
	if p.count == 0 {
		return w.problem("%s leads nowhere", p.name)
	}
	var before entry
	err := w.entries(p, low, high, func(e entry) error {
		var err error
		if before.key != nil {
			err = w.tree(before.child, p.name, depth+1, before.key, e.key)
		}
		before = e
		return err
	})
	if err != nil || before.key == nil {
		return err
	}
	return w.tree(before.child, p.name, depth+1, before.key, high)
}

func (w *inspection) leaf(p *page, depth int, low, high []byte) error {
	return w.entries(p, low, high, func(e entry) error {
		if !w.inBucket {
			w.inBucket, w.counting = true, string(e.key) == string(bucketJobs)
			defer func() { w.inBucket, w.counting = false, false }()
		}
		switch {
		case !e.bucket:
			if w.counting {
				w.records++
			}
			return nil
		case p.inline, e.value < boltBucket, e.value > p.length:
			return w.problem("%s holds a bucket that cannot be one", p.name)
		}
		start, err := p.bytes(e.valueAt, boltBucket)
		if err != nil {
			return err
		}
		if root := order.Uint64(start); root != 0 {
			return w.tree(root, p.name, depth+1, nil, nil)
		}
		return w.inlined(p, e)
	})
}

// inlined walks over a bucket that is small enough to stand inside the page of
// another.
func (w *inspection) inlined(p *page, e entry) error {
	if e.value < boltBucket+boltPageHeader || e.value > w.head.pageSize {
		return w.problem("%s holds a bucket that cannot be one", p.name)
	}
	b, err := p.bytes(e.valueAt+boltBucket, e.value-boltBucket)
	if err != nil {
		return err
	}
	in := &page{name: place{id: p.name.id, inside: true}, first: b, length: uint64(len(b)), inline: true}
	in.header()
	if in.flags != boltLeaf {
		return w.problem("%s is of no known kind (%#x)", in.name, in.flags)
	}
	return w.leaf(in, 0, nil, nil)
}

// freelist looks at the list of free pages, which a file has that was just
// created.
func (w *inspection) freelist() error {
	if w.head.freelist == boltNoFreelist {
		return nil
	}
	p, err := w.open(w.head.freelist, place{}, 0)
	if err != nil || p.damaged {
		return err
	}
	if p.flags != boltFreelist {
		return w.problem("%s is not the list of free pages that the head takes it for", p.name)
	}
	from, count := uint64(boltPageHeader), uint64(p.count)
	if p.count == 0xFFFF { // the number did not fit and stands in front
		b, err := p.bytes(from, 8)
		if err != nil {
			return err
		}
		from, count = from+8, order.Uint64(b)
	}
	if count > (p.length-from)/8 {
		return w.problem("%s has no room for its %d free pages", p.name, count)
	}
	ids, err := p.bytes(from, count*8)
	if err != nil {
		return err
	}
	last := uint64(1)
	for i := range count {
		id := order.Uint64(ids[i*8:])
		if id <= last || id >= w.head.pages || w.used(id) {
			return w.problem("%s lists page %d, which is not free", p.name, id)
		}
		last = id
	}
	return nil
}
