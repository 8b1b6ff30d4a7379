package shape

import (
	"encoding/base32"
	"fmt"
	"io"
	"slices"
	"strings"
)

// The units that the rest of an answer is counted in.
const (
	UnitItems  = "items"  // of an array in a JSON text
	UnitBlocks = "blocks" // content blocks that did not fit
	UnitBytes  = "bytes"  // of a text, or of JSON that has no array to part
)

// MaxKept is how much is kept under one handle, in bytes.
const MaxKept = 16 << 20

// HandlePrefix is what every handle begins with.
const HandlePrefix = "m_"

var handleText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewHandle makes a handle of 128 random bits. random must give unpredictable
// bytes; it fails only when random does.
func NewHandle(random io.Reader) (string, error) {
	var bits [16]byte
	if _, err := io.ReadFull(random, bits[:]); err != nil {
		return "", fmt.Errorf("random bytes for a handle: %w", err)
	}
	return HandlePrefix + handleText.EncodeToString(bits[:]), nil
}

// Kept is what was cut from an answer, whole: what the caller was given of it
// and the rest. It is immutable.
type Kept struct {
	Handle  string
	Unit    string
	Total   int // in units
	First   int // the first that the caller was not given
	Dropped int // units that were over MaxKept and are not kept
	Budget  Budget
	Repeats bool // all that it says stands in another piece or in what was given, too

	text string // of bytes; of items and blocks a compact array
	list list
}

// Size is what the piece takes of memory, in bytes, its index aside.
func (k *Kept) Size() int { return len(k.text) }

// Text is everything that is kept: the text, or the JSON array of the items.
func (k *Kept) Text() string { return k.text }

// keepText keeps a text, of which the caller has the first bytes.
func keepText(handle, text string, first int, b Budget) Kept {
	n := len(text)
	if n > MaxKept {
		n = cutAtRune(text, MaxKept)
	}
	return Kept{Handle: handle, Unit: UnitBytes, Total: n, First: first, Dropped: len(text) - n, Budget: b, text: strings.Clone(text[:n])}
}

// keepList keeps the items of a list, of which the caller has the first.
func keepList(handle, unit string, l list, first int, b Budget) Kept {
	k := Kept{Handle: handle, Unit: unit, First: first, Budget: b}
	n := l.total
	if l.end(n)-l.open > MaxKept {
		for n = 0; n < l.total && l.end(min(n+stride, l.total))-l.open <= MaxKept; {
			n = min(n+stride, l.total)
		}
		for n < l.total && l.end(n+1)-l.open <= MaxKept {
			n++
		}
	}
	k.Total, k.Dropped = n, l.total-n
	k.text = "[" + l.text[l.open+1:l.end(n)] + "]"
	k.list = newList(k.text, 0, len(k.text))
	return k
}

// keepBlocks keeps content blocks that the caller was not given.
func keepBlocks(handle string, blocks []block, b Budget) Kept {
	var text strings.Builder
	sep := byte('[')
	for _, block := range blocks {
		text.WriteByte(sep)
		sep = ','
		if compact, err := Compact(block.raw); err == nil {
			text.Write(compact)
		} else {
			text.Write(block.raw)
		}
	}
	text.WriteByte(']')
	return keepList(handle, UnitBlocks, newList(text.String(), 0, text.Len()), 0, b)
}

// OnlyRepeat reports whether an answer of which these pieces were kept was given
// whole all the same: they only repeat it.
func OnlyRepeat(keep []Kept) bool {
	return !slices.ContainsFunc(keep, func(k Kept) bool { return !k.Repeats })
}
