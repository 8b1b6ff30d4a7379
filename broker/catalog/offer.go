package catalog

import "strings"

// PromptName is the name of a backend's prompt in the merged profile. It is
// made as a verb's is.
func PromptName(backend, prompt string) string { return outward(backend + "__" + prompt) }

// MatchesTemplate reports whether a URI may be one that an RFC 6570 template
// makes: its literal parts stand in it in order, the first at its beginning and
// the last at its end, with something in place of each simple expression. It
// says who to ask, not whether the resource exists.
func MatchesTemplate(template, uri string) bool {
	head, rest, ok := strings.Cut(template, "{")
	if !strings.HasPrefix(uri, head) {
		return false
	}
	uri = uri[len(head):]
	for ok {
		var expression, literal string
		if expression, rest, ok = strings.Cut(rest, "}"); !ok {
			return false // no template
		}
		// These may make nothing at all; any other makes at least a character.
		least := 1
		if expression != "" && strings.ContainsRune("?&#/.;", rune(expression[0])) {
			least = 0
		}
		literal, rest, ok = strings.Cut(rest, "{")
		if len(uri) < least {
			return false
		}
		if !ok { // the last literal stands at the end
			return strings.HasSuffix(uri[least:], literal)
		}
		at := strings.Index(uri[least:], literal)
		if at < 0 {
			return false
		}
		uri = uri[least+at+len(literal):]
	}
	return uri == ""
}
