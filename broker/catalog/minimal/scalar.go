package minimal

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"unicode/utf8"
)

// samples are values of the formats of JSON Schema, out of the ranges that are
// kept for documentation where there are such.
var samples = map[string]string{
	"date-time": "2000-01-01T00:00:00Z", "date": "2000-01-01", "time": "00:00:00Z", "duration": "PT1S", "period": "2000-01-01T00:00:00Z/PT1S",
	"email": "user@example.com", "hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
	"uri": "https://example.com/", "iri": "https://example.com/", "uri-reference": "/", "iri-reference": "/", "uri-template": "https://example.com/{id}",
	"uuid": "00000000-0000-4000-8000-000000000000", "json-pointer": "/a", "relative-json-pointer": "0", "regex": ".*", "semver": "1.0.0",
}

// texts lists strings, best first.
func texts(p plan) ([]any, error) {
	least, most := 0, maxLength
	var patterns, wanted []string
	for _, s := range p.atoms {
		if s.MinLength != nil {
			least = max(least, *s.MinLength)
		}
		if s.MaxLength != nil {
			most = min(most, *s.MaxLength)
		}
		if s.Pattern != nil {
			patterns = append(patterns, s.Pattern.String())
		}
		if s.Format != nil && samples[s.Format.Name] != "" {
			wanted = append(wanted, samples[s.Format.Name])
		}
	}
	if least > maxLength {
		return nil, &Impossible{p.name, fmt.Sprintf("it is a string of more than %d characters", maxLength)}
	}
	if least > most {
		return nil, &Impossible{p.name, "its shortest string is longer than its longest"}
	}
	free := "<" + p.name + ">"
	if p.name == "" {
		free = "<text>"
	}
	wanted = append(wanted, free, strings.Repeat("x", max(least, min(1, most))))
	for _, pattern := range patterns {
		if _, err := regexp.Compile(pattern); err != nil {
			return nil, &Impossible{p.name, "its pattern is in a dialect that cannot be read"}
		}
		wanted = append(wanted, matching(pattern, least, most)...)
	}
	var out []any
	for _, text := range append(wanted, "") {
		if n := utf8.RuneCountInString(text); n >= least && n <= most && utf8.ValidString(text) {
			out = append(out, text)
		}
	}
	return out, nil
}

// numbers gives the smallest number: the least that the limits allow, zero where
// they leave it open, else the greatest.
func numbers(p plan, integer bool) ([]any, error) {
	var low, high, step *big.Rat
	lowOpen, highOpen := false, false
	for _, s := range p.atoms {
		low, lowOpen = tighter(low, lowOpen, s.Minimum, false, 1)
		low, lowOpen = tighter(low, lowOpen, s.ExclusiveMinimum, true, 1)
		high, highOpen = tighter(high, highOpen, s.Maximum, false, -1)
		high, highOpen = tighter(high, highOpen, s.ExclusiveMaximum, true, -1)
		if s.MultipleOf != nil && (step == nil || s.MultipleOf.Cmp(step) > 0) {
			step = s.MultipleOf
		}
	}
	if integer && step == nil {
		step = big.NewRat(1, 1)
	}
	for _, r := range []*big.Rat{low, high, step} {
		if r != nil && (r.Num().BitLen() > maxBits || r.Denom().BitLen() > maxBits) {
			return nil, &Impossible{p.name, "its limits are too large to be computed with"}
		}
	}
	var out []any
	for _, r := range around(low, high, lowOpen, highOpen, step) {
		if digits, exact := r.FloatPrec(); exact && digits <= maxLength {
			out = append(out, json.Number(r.FloatString(digits)))
		}
	}
	return out, nil
}

// maxBits bounds the numbers that are computed with.
const maxBits = 1400

// tighter gives the stricter of two limits; sign is 1 for lower ones.
func tighter(have *big.Rat, haveOpen bool, other *big.Rat, open bool, sign int) (*big.Rat, bool) {
	switch {
	case other == nil:
		return have, haveOpen
	case have == nil || other.Cmp(have)*sign > 0:
		return other, open
	case other.Cmp(have) == 0:
		return have, haveOpen || open
	}
	return have, haveOpen
}

// around lists numbers worth trying between two limits, best first. Those that
// are no multiple of step, or outside, fail the check that follows.
func around(low, high *big.Rat, lowOpen, highOpen bool, step *big.Rat) []*big.Rat {
	one := big.NewRat(1, 1)
	unit := one
	if step != nil && step.Sign() > 0 {
		unit = step
	}
	var out []*big.Rat
	if low == nil {
		out = append(out, new(big.Rat))
		if high == nil {
			return append(out, unit)
		}
	} else {
		out = append(out, multiple(low, unit, true))
		if lowOpen {
			out = append(out, new(big.Rat).Add(multiple(low, unit, true), unit))
		}
		if step == nil && !lowOpen {
			out = append([]*big.Rat{low}, out...)
		}
	}
	if high != nil {
		top := multiple(high, unit, false)
		if highOpen {
			out = append(out, new(big.Rat).Sub(top, unit))
		}
		out = append(out, top)
		if step == nil {
			out = append(out, high)
		}
	}
	if low != nil && high != nil && step == nil {
		middle := new(big.Rat).Add(low, high)
		out = append(out, middle.Mul(middle, big.NewRat(1, 2)))
	}
	return out
}

// multiple is the nearest multiple of unit that is not below r, or not above it.
func multiple(r, unit *big.Rat, up bool) *big.Rat {
	q := new(big.Rat).Quo(r, unit)
	n := new(big.Int)
	n.Div(q.Num(), q.Denom()) // rounds down: the denominator is positive
	if up && !q.IsInt() {
		n.Add(n, big.NewInt(1))
	}
	return new(big.Rat).Mul(new(big.Rat).SetInt(n), unit)
}
