package condition

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Equal reports whether two JSON values have the same type and the same value.
// Numbers are compared exactly and as numbers: 1, 1.0 and 1e0 are equal. An
// object that has a name twice equals nothing.
func Equal(a, b json.RawMessage) bool {
	if kind(a) != kind(b) || !strict(a) || !strict(b) {
		return false
	}
	var x, y any
	if decode(a, &x) != nil || decode(b, &y) != nil {
		return false
	}
	return same(x, y)
}

func strict(v json.RawMessage) bool { return jsontext.Value(v).IsValid() }

func decode(raw json.RawMessage, into *any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(into)
}

func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && decimal(string(a)) == decimal(string(b))
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			w, ok := b[name]
			if !ok || !same(v, w) {
				return false
			}
		}
		return true
	}
	return a == b
}

// number is a decimal: its digits without zeros at either end, times ten to
// the power of exponent. Two equal numbers have one form.
type number struct {
	negative bool
	digits   string
	exponent int64
	odd      string // the text itself, where the exponent passes an int64
}

func decimal(text string) number {
	n := number{}
	mantissa := text
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		e, err := strconv.ParseInt(strings.TrimPrefix(text[i+1:], "+"), 10, 32)
		if err != nil {
			return number{odd: text}
		}
		n.exponent, mantissa = e, text[:i]
	}
	mantissa, n.negative = strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	n.exponent -= int64(len(fraction))
	digits := strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	n.exponent += int64(len(digits) - len(trimmed))
	if n.digits = trimmed; trimmed == "" {
		return number{} // zero has no sign and no exponent
	}
	return n
}
