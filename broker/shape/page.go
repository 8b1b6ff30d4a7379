package shape

import (
	"encoding/json"
	"strconv"
)

// Page is one part of what was kept, as `more` answers it.
type Page struct {
	Document json.RawMessage // {unit, offset, count, total, next_offset, items | text}
	Offset   int             // of the first unit in it
	Count    int
	// Child holds an item that was larger than a page: it stands in the page as
	// a preview, and the rest of it is under a handle of its own. Whoever sends
	// Document keeps it first. Nil when there is none, or when it is kept already.
	Child *Kept
	// Split is set when the page's only item is such a preview.
	Split bool
}

// Page cuts the part that begins at offset to the budget, by default that of
// the first call. child gives the handle under which an item is kept already,
// and is asked for the item's index; handle makes a new one, and an error of it
// is the only one. An offset inside a character is moved to the next one, and
// one past the end gives an empty part.
func (k *Kept) Page(offset int, l Limits, counter Counter, child func(item int) (string, bool), handle func() (string, error)) (Page, error) {
	if l.Budget <= 0 {
		l.Budget = k.Budget
	}
	offset = min(max(offset, 0), k.Total)
	if k.Unit == UnitBytes {
		return k.textPage(offset, l, counter), nil
	}
	return k.itemsPage(offset, l, counter, child, handle)
}

func (k *Kept) textPage(offset int, l Limits, counter Counter) Page {
	for offset < k.Total && k.text[offset]&0xC0 == 0x80 {
		offset++
	}
	rest := k.text[offset:k.Total]
	document := func(n int) []byte {
		return append(append(k.head(offset, n, "text"), quoteText(rest[:n])...), '}')
	}
	n := cutAtLine(rest, longest(len(rest), int(l.Budget)*bytesPerToken, int(l.Budget), func(n int) int {
		return cost(counter, l, document(cutAtLine(rest, n)))
	}))
	if n == 0 && rest != "" {
		for n = 1; n < len(rest) && rest[n]&0xC0 == 0x80; n++ { // a part is never empty
		}
	}
	return Page{Document: document(n), Offset: offset, Count: n}
}

func (k *Kept) itemsPage(offset int, l Limits, counter Counter, child func(int) (string, bool), handle func() (string, error)) (Page, error) {
	rest := k.Total - offset
	document := func(n int) []byte {
		return append(append(append(k.head(offset, n, "items"), '['), k.list.items(offset, offset+n)...), "]}"...)
	}
	if rest == 0 {
		return Page{Document: document(0), Offset: offset}, nil
	}
	guess := int(l.Budget) * bytesPerToken / max(1, len(k.text)/k.Total)
	n := longest(rest, guess, int(l.Budget), func(n int) int { return cost(counter, l, document(n)) })
	if n > 0 {
		return Page{Document: document(n), Offset: offset, Count: n}, nil
	}
	item := k.list.items(offset, offset+1)
	h, known := child(offset)
	if !known {
		var err error
		if h, err = handle(); err != nil {
			return Page{}, err
		}
	}
	document = func(n int) []byte {
		n = cutAtRune(item, n)
		return append(append(append(k.head(offset, 1, "items"), '['), preview(item[:n], h, n)...), "]}"...)
	}
	n = cutAtRune(item, longest(len(item)-1, int(l.Budget)*bytesPerToken, int(l.Budget), func(n int) int { return cost(counter, l, document(n)) }))
	page := Page{Document: document(n), Offset: offset, Count: 1, Split: true}
	if !known {
		kept := keepText(h, item, n, k.Budget)
		page.Child = &kept
	}
	return page, nil
}

// head begins the document of a part.
func (k *Kept) head(offset, count int, last string) []byte {
	next := "null"
	if offset+count < k.Total {
		next = strconv.Itoa(offset + count)
	}
	out := append([]byte(`{"unit":"`), k.Unit...)
	out = strconv.AppendInt(append(out, `","offset":`...), int64(offset), 10)
	out = strconv.AppendInt(append(out, `,"count":`...), int64(count), 10)
	out = strconv.AppendInt(append(out, `,"total":`...), int64(k.Total), 10)
	return append(append(append(append(append(out, `,"next_offset":`...), next...), `,"`...), last...), `":`...)
}

func cost(counter Counter, l Limits, document []byte) int {
	return measure(counter, l, string(document)).Tokens
}
