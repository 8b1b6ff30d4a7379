package minimal

import (
	"regexp/syntax"
	"strings"
	"unicode"
)

// matching lists strings that a pattern may match, the shortest first: each
// repetition is taken as often as it must be, and then more often, for where
// a string has to be longer. Whether they match is left to the validator.
func matching(pattern string, least, most int) []string {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	var out []string
	for _, more := range []int{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, least} {
		if more > most {
			continue
		}
		g := generator{more: more}
		g.write(tree.Simplify(), 0)
		if g.failed {
			break
		}
		text := g.out.String()
		// A pattern without anchors matches inside of a longer text.
		if n := least - len([]rune(text)); n > 0 && n <= maxLength {
			out = append(out, text+strings.Repeat("x", n))
		}
		out = append(out, text)
	}
	return out
}

// generator writes one string of a pattern.
type generator struct {
	out    strings.Builder
	more   int // how much oftener than it must a repetition is taken
	failed bool
}

func (g *generator) write(re *syntax.Regexp, depth int) {
	if g.failed || depth > 200 || g.out.Len() > 4*maxLength {
		g.failed = true
		return
	}
	again := func(n int) {
		for range min(n, maxLength) {
			g.write(re.Sub[0], depth+1)
		}
	}
	switch re.Op {
	case syntax.OpNoMatch:
		g.failed = true
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if re.Flags&syntax.FoldCase != 0 {
				r = unicode.ToLower(r)
			}
			g.out.WriteRune(r)
		}
	case syntax.OpCharClass:
		g.class(re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		g.out.WriteByte('x')
	case syntax.OpCapture:
		g.write(re.Sub[0], depth+1)
	case syntax.OpStar:
		again(g.more)
	case syntax.OpPlus:
		again(1 + g.more)
	case syntax.OpQuest:
		again(min(g.more, 1))
	case syntax.OpRepeat:
		n := re.Min + g.more
		if re.Max >= 0 {
			n = min(n, re.Max)
		}
		again(n)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			g.write(sub, depth+1)
		}
	case syntax.OpAlternate:
		g.write(re.Sub[0], depth+1)
	}
}

// class writes a letter, a digit or else the first printable character of a class.
func (g *generator) class(ranges []rune) {
	in := func(r rune) bool {
		for i := 0; i+1 < len(ranges); i += 2 {
			if r >= ranges[i] && r <= ranges[i+1] {
				return true
			}
		}
		return false
	}
	for _, r := range "x" + "abcdefghijklmnopqrstuvwyz" + "0123456789" + "XABCDEFGHIJKLMNOPQRSTUVWYZ" + "-_./" {
		if in(r) {
			g.out.WriteRune(r)
			return
		}
	}
	for i := 0; i+1 < len(ranges); i += 2 {
		if r := max(ranges[i], ' '); r <= ranges[i+1] && r != unicode.ReplacementChar {
			g.out.WriteRune(r)
			return
		}
	}
	if len(ranges) == 0 {
		g.failed = true
		return
	}
	g.out.WriteRune(ranges[0])
}
