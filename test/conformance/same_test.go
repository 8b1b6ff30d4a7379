package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// same reports how two texts differ as JSON in the sense of Berth's promise:
// order of members, text of numbers and values of strings count, white space
// and the way in which a character is escaped do not.
func same(want, got []byte) error {
	w, g := newTokens(want), newTokens(got)
	for n := 0; ; n++ {
		a, err := w.ReadToken()
		if errors.Is(err, io.EOF) {
			if b, err := g.ReadToken(); !errors.Is(err, io.EOF) {
				return fmt.Errorf("%v follows the value (%v)", b, err)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("what was wanted is no JSON: %w", err)
		}
		kind, left := a.Kind(), rawToken(want, w, a)
		b, err := g.ReadToken()
		if err != nil {
			return fmt.Errorf("token %d: %w, want %s", n, err, left)
		}
		right := rawToken(got, g, b)
		if kind != b.Kind() {
			return fmt.Errorf("token %d is %s, want %s", n, right, left)
		}
		switch kind {
		case '"':
			if !slices.Equal(units(left), units(right)) {
				return fmt.Errorf("token %d is %s, want %s", n, right, left)
			}
		case '0':
			if !bytes.Equal(left, right) {
				return fmt.Errorf("token %d is %s, want %s", n, right, left)
			}
		}
	}
}

func newTokens(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// rawToken is the text of the token that was read last.
func rawToken(text []byte, d *jsontext.Decoder, t jsontext.Token) []byte {
	end := int(d.InputOffset())
	if t.Kind() != '"' && t.Kind() != '0' {
		return text[end-1 : end]
	}
	start := end
	if t.Kind() == '0' {
		for start > 0 && bytes.IndexByte([]byte("+-.0123456789eE"), text[start-1]) >= 0 {
			start--
		}
		return text[start:end]
	}
	for start -= 2; ; start-- { // the quote that is not escaped
		if text[start] != '"' {
			continue
		}
		slashes := 0
		for i := start - 1; i >= 0 && text[i] == '\\'; i-- {
			slashes++
		}
		if slashes%2 == 0 {
			return text[start:end]
		}
	}
}

// units decodes a JSON string to UTF-16, in which a lone surrogate is a value
// like any other.
func units(raw []byte) []uint16 {
	var out []uint16
	for i := 1; i < len(raw)-1; {
		if raw[i] != '\\' {
			r, size := utf8.DecodeRune(raw[i:])
			out = utf16.AppendRune(out, r)
			i += size
			continue
		}
		switch c := raw[i+1]; c {
		case 'u':
			n, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
			if err != nil {
				panic(err)
			}
			out = append(out, uint16(n))
			i += 6
			continue
		case 'b', 'f', 'n', 'r', 't':
			out = append(out, uint16(map[byte]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}[c]))
		default:
			out = append(out, uint16(c))
		}
		i += 2
	}
	return out
}

// The comparison itself has to see what it is there to see.
func TestSameSeesWhatCounts(t *testing.T) {
	for _, tt := range []struct {
		name, a, b string
		same       bool
	}{
		{"white space", `{"a": [1, 2]}`, "{\n\"a\":[1,2] }", true},
		{"escapes", `"\u00e9\/\"\ud83d\ude00"`, `"é/\u0022😀"`, true},
		{"order", `{"a":1,"b":2}`, `{"b":2,"a":1}`, false},
		{"number text", `[1.0]`, `[1]`, false},
		{"exponent", `[1e3]`, `[1E3]`, false},
		{"big number", `[9007199254740993]`, `[9007199254740992]`, false},
		{"minus zero", `[-0]`, `[0]`, false},
		{"a lone surrogate", `"\ud800"`, `"\ufffd"`, false},
		{"the same lone surrogate", `"\ud800x"`, `"\uD800x"`, true},
		{"a member less", `{"a":1,"b":2}`, `{"a":1}`, false},
		{"a member more", `{"a":1}`, `{"a":1,"b":2}`, false},
		{"a repeated member", `{"a":1,"a":2}`, `{"a":2}`, false},
		{"something behind", `1`, `1 2`, false},
		{"another kind", `"1"`, `1`, false},
		{"a backslash at the end", `["a\\","b"]`, `["a\\","b"]`, true},
		{"null and false", `null`, `false`, false},
		{"empty object and array", `{}`, `[]`, false},
	} {
		if err := same([]byte(tt.a), []byte(tt.b)); (err == nil) != tt.same {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
