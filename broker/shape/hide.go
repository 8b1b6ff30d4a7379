package shape

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// minPiece is how much of a cut-off literal, in bytes, is still taken for it.
const minPiece = 6

var credentialName = regexp.MustCompile(`(?i)^` + secretName + `$`)

// NamesCredential reports whether a field of this name holds a credential, as
// Redact sees it.
func NamesCredential(name string) bool { return credentialName.MatchString(name) }

// Hiding gives Redact for text that may hold one of these literals: each is
// replaced by ***, whatever stands around it, and then Redact does its work.
// A literal counts in its plain form, with the escapes of JSON or of a URL, in
// base64, and by its lines; so does a piece of one at the beginning or the end
// of the text, where a cut may have gone through it. Empty literals hide
// nothing. The function is safe for concurrent use.
func Hiding(literals []string) func(string) string {
	var forms []string
	for _, l := range literals {
		forms = append(forms, formsOf(l)...)
	}
	// Their order is of no account: finds that overlap are joined, so that the
	// shorter of two leaves nothing of the longer.
	slices.Sort(forms)
	forms = slices.Compact(forms)
	return func(s string) string { return Redact(hide(s, forms)) }
}

// formsOf lists the ways in which a program writes a literal down.
func formsOf(literal string) []string {
	trimmed := strings.TrimSpace(literal)
	if trimmed == "" {
		return nil
	}
	forms := []string{literal, trimmed, url.QueryEscape(trimmed), url.PathEscape(trimmed)}
	if quoted, err := json.Marshal(trimmed); err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]), // with \u003c, as Go writes it
			strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(quoted[1:len(quoted)-1])))
	}
	// Without padding, so that it is found before a continuation too. Of a short
	// text the encoding is a short word that may well be another.
	if len(trimmed) >= minPiece {
		forms = append(forms, base64.RawStdEncoding.EncodeToString([]byte(trimmed)), base64.RawURLEncoding.EncodeToString([]byte(trimmed)))
	}
	if strings.ContainsAny(trimmed, "\r\n") {
		for line := range strings.FieldsFuncSeq(trimmed, func(r rune) bool { return r == '\r' || r == '\n' }) {
			if line = strings.TrimSpace(line); len(line) >= 2*minPiece { // shorter ones are braces and words
				forms = append(forms, line)
			}
		}
	}
	return forms
}

// hide replaces every stretch of s that one of forms covers.
func hide(s string, forms []string) string {
	type span struct{ from, to int }
	var found []span
	for _, f := range forms {
		for from := 0; ; {
			i := strings.Index(s[from:], f)
			if i < 0 {
				break
			}
			found = append(found, span{from + i, from + i + len(f)})
			from += i + 1 // the next may overlap this one
		}
		for n := min(len(f)-1, len(s)); n >= minPiece; n-- {
			if s[:n] == f[len(f)-n:] {
				found = append(found, span{0, n})
				break
			}
		}
		for n := min(len(f)-1, len(s)); n >= minPiece; n-- {
			if s[len(s)-n:] == f[:n] {
				found = append(found, span{len(s) - n, len(s)})
				break
			}
		}
	}
	if len(found) == 0 {
		return s
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var out strings.Builder
	end := 0
	for i, f := range found {
		if i == 0 || f.from > end {
			out.WriteString(s[end:f.from])
			out.WriteString(mark)
		}
		end = max(end, f.to)
	}
	out.WriteString(s[end:])
	return out.String()
}
