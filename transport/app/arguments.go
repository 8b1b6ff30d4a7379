package app

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"berth/broker/shape"
)

// maxDigits bounds the digits of an id: longer numbers name nothing.
const maxDigits = 40

// maxOffset bounds how far into a list a page begins.
const maxOffset = math.MaxInt32

// Args are the arguments of a call, read by the table of its tool.
type Args struct {
	texts map[string]string   // Text, Word, ID as digits
	lists map[string][]string // Texts, IDs as digits
	ints  map[string]int
	flags map[string]bool
	raw   Object // as they came, nulls left out
}

// Given reports whether an argument came and was not null.
func (a *Args) Given(name string) bool { return a.raw.Get(name) != nil }

// Text gives a Text or a Word, an ID as printed digits; empty when not given.
func (a *Args) Text(name string) string { return a.texts[name] }

// List gives Texts, IDs as printed digits; nil when not given.
func (a *Args) List(name string) []string { return a.lists[name] }

// Int gives a Count, a Limit or an Offset; its default when not given.
func (a *Args) Int(name string) int { return a.ints[name] }

// Flag gives a boolean; false when not given.
func (a *Args) Flag(name string) bool { return a.flags[name] }

// Raw gives an argument as it came; nil when not given.
func (a *Args) Raw(name string) json.RawMessage { return a.raw.Get(name) }

// Read reads arguments by a tool's table. What the table does not name is
// ignored. The refusal names the argument and never its value.
func (t *Tool) Read(arguments Object) (*Args, *Problem) {
	a := &Args{texts: map[string]string{}, lists: map[string][]string{}, ints: map[string]int{}, flags: map[string]bool{}}
	for _, f := range arguments {
		if !IsNull(f.Value) {
			a.raw = append(a.raw, f)
		}
	}
	for i := range t.Params {
		if problem := a.read(&t.Params[i]); problem != nil {
			return nil, problem
		}
	}
	return a, nil
}

func (a *Args) read(p *Param) *Problem {
	raw := bytes.TrimSpace(a.raw.Get(p.Name))
	given := len(raw) > 0
	if p.Refused != "" {
		if given {
			return Invalid(p.Refused, map[string]any{"argument": p.Name})
		}
		return nil
	}
	if p.Required && (!given || isEmpty(raw)) {
		return Invalid("The argument "+p.Name+" is required.", map[string]any{"argument": p.Name})
	}
	if !given {
		a.ints[p.Name] = p.Else
		if p.Default != "" {
			a.texts[p.Name] = p.Default
		}
		return nil
	}
	if why := readers[p.Kind](a, p, raw); why != "" {
		return Invalid("The argument "+p.Name+" "+why+".", map[string]any{"argument": p.Name})
	}
	return nil
}

// isEmpty reports whether a value is "" or [].
func isEmpty(raw json.RawMessage) bool {
	if s, ok := shape.Text(raw); ok {
		return s == ""
	}
	rows, ok := ReadArray(raw)
	return ok && len(rows) == 0
}

// readers take a value that is not null, by kind, or say what it must be.
var readers = [...]func(*Args, *Param, json.RawMessage) string{
	Text: func(a *Args, p *Param, raw json.RawMessage) string {
		s, ok := shape.Text(raw)
		if !ok {
			return "must be a string"
		}
		a.texts[p.Name] = s
		return ""
	},
	ID: func(a *Args, p *Param, raw json.RawMessage) string {
		id, ok := wholeNumber(raw)
		if !ok {
			return "must be a whole number"
		}
		a.texts[p.Name] = id
		return ""
	},
	IDs: func(a *Args, p *Param, raw json.RawMessage) string {
		rows, ok := ReadArray(raw)
		if !ok || len(rows) == 0 {
			return "must be an array of whole numbers"
		}
		ids := make([]string, len(rows))
		for i, r := range rows {
			if ids[i], ok = wholeNumber(r); !ok {
				return "must be an array of whole numbers"
			}
		}
		a.lists[p.Name] = ids
		return ""
	},
	Count: func(a *Args, p *Param, raw json.RawMessage) string {
		digits, ok := wholeNumber(raw)
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < p.Least {
			return "must be a whole number of at least " + strconv.Itoa(p.Least)
		}
		a.ints[p.Name] = n
		return ""
	},
	Limit: func(a *Args, p *Param, raw json.RawMessage) string {
		a.ints[p.Name] = p.Else
		if f, ok := number(raw); ok {
			a.ints[p.Name] = int(min(max(f, float64(p.Least)), float64(p.Most)))
		}
		return ""
	},
	Offset: func(a *Args, p *Param, raw json.RawMessage) string {
		if f, ok := number(raw); ok {
			a.ints[p.Name] = int(min(max(f, 0), maxOffset))
		}
		return ""
	},
	Texts:       readTexts,
	TextOrTexts: readTexts,
	Flag: func(a *Args, p *Param, raw json.RawMessage) string {
		b, ok := Boolean(raw)
		if !ok {
			return "must be true or false"
		}
		a.flags[p.Name] = b
		return ""
	},
	Word: func(a *Args, p *Param, raw json.RawMessage) string {
		s, ok := shape.Text(raw)
		if p.AnyCase {
			s = strings.ToLower(s)
		}
		if !ok || !slices.Contains(p.Words, s) {
			return "must be one of " + strings.Join(p.Words, ", ")
		}
		a.texts[p.Name] = s
		return ""
	},
	Any: func(*Args, *Param, json.RawMessage) string { return "" },
	Record: func(_ *Args, _ *Param, raw json.RawMessage) string {
		if _, ok := ReadObject(raw); !ok {
			return "must be an object"
		}
		return ""
	},
}

func readTexts(a *Args, p *Param, raw json.RawMessage) string {
	if s, ok := shape.Text(raw); ok && p.Kind == TextOrTexts {
		a.lists[p.Name] = []string{s}
		return ""
	}
	rows, ok := ReadArray(raw)
	if !ok {
		return "must be an array of strings"
	}
	list := make([]string, len(rows))
	for i, r := range rows {
		if list[i], ok = shape.Text(r); !ok {
			return "must be an array of strings"
		}
	}
	a.lists[p.Name] = list
	return ""
}

// Boolean reads a JSON boolean, or the words "true" and "false" in any case.
func Boolean(raw json.RawMessage) (value, ok bool) {
	word := string(bytes.TrimSpace(raw))
	if s, isText := shape.Text(raw); isText {
		word = strings.ToLower(s)
	}
	return word == "true", word == "true" || word == "false"
}

// number reads a JSON number, or a string that holds one.
func number(raw json.RawMessage) (float64, bool) {
	s := string(raw)
	if quoted, ok := shape.Text(raw); ok {
		s = strings.TrimSpace(quoted)
	}
	if s == "" || strings.Trim(s, "0123456789+-.eE") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && math.IsInf(f, 0) {
		return f, true // far outside: clamped like any other
	}
	return f, err == nil
}

// wholeNumber reads a whole JSON number or a string of decimal digits, and
// gives it as an integer is printed.
func wholeNumber(raw json.RawMessage) (string, bool) {
	raw = bytes.TrimSpace(raw)
	s := string(raw)
	if quoted, ok := shape.Text(raw); ok {
		if s = quoted; s == "" || len(s) > maxDigits || strings.Trim(s, "0123456789") != "" {
			return "", false
		}
	} else if len(s) == 0 || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return "", false
	}
	// Checked before it is expanded: 1e999999999 has few characters.
	if f, err := strconv.ParseFloat(s, 64); err != nil || math.Abs(f) >= 1e40 || len(s) > 2*maxDigits {
		return "", false
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || !r.IsInt() {
		return "", false
	}
	return r.Num().String(), true
}
