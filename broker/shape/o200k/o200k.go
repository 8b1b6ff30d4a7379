// Package o200k counts tokens with the o200k vocabulary
// (contracts/catalog.md section 10).
//
// It owns the one codec of the process, which is made when something is first
// counted and shared by all goroutines: a process that counts nothing loads no
// vocabulary. It is a package of its own so that a program which only shapes
// JSON does not carry 7 MB of it. It refuses nothing: what cannot be counted
// exactly is estimated, and says so.
//
// Counting takes time (megabytes a second), so it runs in the goroutine of the
// call and never in an actor. Everything here is safe for concurrent use.
package o200k

import (
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"berth/broker/shape"

	"github.com/tiktoken-go/tokenizer/codec"
)

// Sizes of a count, in bytes.
const (
	// MaxExact is the longest text that is counted whole.
	MaxExact = 256 << 10
	// windows of windowSize bytes each stand for a longer one.
	windows    = 64
	windowSize = 4 << 10

	// chunkSize is how much the codec is given at once, where the text can be
	// parted without changing the count.
	chunkSize = 4 << 10
	// maxSpace is the longest run of white space that the codec is given: its
	// pattern takes time quadratic in one.
	maxSpace = 512
)

var (
	loaded atomic.Bool
	load   = sync.OnceValue(func() *codec.Codec {
		loaded.Store(true)
		return codec.NewO200kBase()
	})
)

// Loaded reports whether the vocabulary is in memory.
func Loaded() bool { return loaded.Load() }

// Counter counts with the codec of the process. The zero value is ready.
type Counter struct{}

var _ shape.Counter = Counter{}

// Count counts the tokens of text: exactly up to MaxExact bytes, unless it has
// a run of white space that is too long; else by samples at even distances,
// the same text giving the same count.
func (Counter) Count(text string) shape.Count {
	if text == "" {
		return shape.Count{Exact: true}
	}
	c := load()
	if len(text) <= MaxExact {
		n, exact := whole(c, text)
		return shape.Count{Tokens: n, Exact: exact}
	}
	tokens, bytes := 0, 0
	for i := range windows {
		from := atRune(text, int(int64(len(text)-windowSize)*int64(i)/(windows-1)))
		to := atRune(text, from+windowSize)
		n, _ := whole(c, text[from:to])
		tokens, bytes = tokens+n, bytes+to-from
	}
	return shape.Count{Tokens: int((int64(tokens)*int64(len(text)) + int64(bytes) - 1) / int64(bytes))}
}

// atRune gives the first place at or after i where a character begins.
func atRune(text string, i int) int {
	for i < len(text) && !utf8.RuneStart(text[i]) {
		i++
	}
	return min(i, len(text))
}

// whole counts text piece by piece.
func whole(c *codec.Codec, text string) (tokens int, exact bool) {
	exact = true
	for text != "" {
		n, forced := cut(text)
		k, ok := count(c, text[:n])
		tokens, exact, text = tokens+k, exact && ok && !forced, text[n:]
	}
	return tokens, exact
}

// count asks the codec. The codec is fed by backends: should one of them find
// an error or a panic in it, the text counts as one token a byte, which is the
// most it can have.
func count(c *codec.Codec, text string) (n int, ok bool) {
	defer func() {
		if recover() != nil {
			n, ok = len(text), false
		}
	}()
	n, err := c.Count(text)
	if err != nil {
		return len(text), false
	}
	// The codec passes over U+007F, which has a token.
	skipped := strings.Count(text, "\x7f")
	return n + skipped, skipped == 0
}

// cut gives the length of the next piece of text: at least chunkSize and up to
// a place where no token can cross, or, forced, the end of as much white space
// as the codec can take.
func cut(text string) (n int, forced bool) {
	space := 0
	for i, r := range text {
		if i > 0 && i >= chunkSize && parts(text[i-1], text[i]) {
			return i, false
		}
		if !isSpace(r) {
			space = 0
			continue
		}
		if space += utf8.RuneLen(r); space >= maxSpace {
			end := i + utf8.RuneLen(r)
			return end, end < len(text)
		}
	}
	return len(text), false
}

// parts reports whether every reading of the vocabulary's pattern ends a piece
// between two ASCII bytes: a word or number ends before what is neither its
// continuation nor the apostrophe of a contraction.
func parts(before, after byte) bool {
	if after >= utf8.RuneSelf || after == '\'' {
		return false
	}
	switch {
	case letter(before):
		return !letter(after)
	case digit(before):
		return !digit(after)
	}
	return false
}

func letter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }
func digit(b byte) bool  { return b >= '0' && b <= '9' }

func isSpace(r rune) bool {
	return r <= ' ' || (r >= utf8.RuneSelf && strings.ContainsRune("\u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000", r)) || (r >= '\u2000' && r <= '\u200a')
}
