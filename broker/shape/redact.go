package shape

import (
	"regexp"
	"strings"
)

// mark stands where a credential stood. It holds no character that a rule
// below takes for part of a credential's frame, so redacting twice is redacting once.
const mark = "***"

// secretName is what the name of a field with a credential contains.
const secretName = `[A-Za-z0-9_.-]*(?:token|secret|passw(?:or)?d|passphrase|pwd|api[_-]?key|access[_-]?key|private[_-]?key|credential|authorization|cookie|session[_-]?key|signature)[A-Za-z0-9_.-]*`

// rule is one kind of credential-shaped text.
type rule struct {
	find *regexp.Regexp
	with string
}

// rules run in this order; earlier ones take the larger shapes.
var rules = []rule{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]{1,40}-----.*?(?:-----END [A-Z0-9 ]{1,40}-----|$)`), mark},
	// The end of a block whose beginning was cut off.
	{regexp.MustCompile(`(?:[A-Za-z0-9+/=]{16,}\s+)+[A-Za-z0-9+/=]*\s*-----END [A-Z0-9 ]{1,40}-----`), mark},
	{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>]*@`), "${1}" + mark + "@"},
	{regexp.MustCompile(`(?i)((?:proxy-)?authorization\\*["']?\s*[:=]\s*\\*["']?)[^\r\n"'\\]+`), "${1}" + mark},
	{regexp.MustCompile(`(?i)\b((?:set-)?cookie\\*["']?\s*[:=]\s*\\*["']?)[^\r\n"'\\]+`), "${1}" + mark},
	{regexp.MustCompile(`(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{4,}`), "${1}" + mark},
	{regexp.MustCompile(`(?i)\b(basic\s+)[A-Za-z0-9+/_-]{15,}={0,2}`), "${1}" + mark},
	// name="value", name='value', name=\"value\", name=value; a value that is cut off counts.
	{regexp.MustCompile(`(?i)(` + secretName + `["']?\s*(?:[:=]|=>)\s*")(?:[^"\\]|\\.)*`), "${1}" + mark},
	{regexp.MustCompile(`(?i)(` + secretName + `["']?\s*(?:[:=]|=>)\s*')(?:[^'\\]|\\.)*`), "${1}" + mark},
	{regexp.MustCompile(`(?i)(` + secretName + `\\+["']\s*(?:[:=]|=>)\s*\\+["'])[^"'\\]*`), "${1}" + mark},
	{regexp.MustCompile(`(?i)(` + secretName + `\\*["']?\s*(?:[:=]|=>)\s*)[^\s,;&"'\\{}\[\]()<>]+`), "${1}" + mark},
	{regexp.MustCompile(`(?i)(--?` + secretName + `\s+)[^\s"'-][^\s"']*`), "${1}" + mark},
	{regexp.MustCompile(`(?i)(` + secretName + `\s+(?:is\s+)?)[A-Za-z0-9+/_=-]{20,}`), "${1}" + mark},
	{regexp.MustCompile(`\b(?:sk-[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{8,}|github_pat_[A-Za-z0-9_]{8,}|glpat-[A-Za-z0-9_-]{8,}|xox[a-z]-[A-Za-z0-9-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{20,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?)`), mark},
}

// longRun is a run of characters that may be a random key.
var longRun = regexp.MustCompile(`[A-Za-z0-9_+=-]{40,}`)

// Redact replaces credential-shaped text by ***: PEM blocks, user parts of
// URLs, authorization headers, values of fields that are named like a
// credential, keys with a known prefix, and long runs that mix cases and
// digits. It takes too much rather than too little. The answer is at most four
// times as long as s, and Redact of the answer is the answer.
func Redact(s string) string {
	// A replacement can bring a new shape together; the shapes run out at once,
	// and the bound is only there so that this is plain to see.
	for range 4 {
		next := redactOnce(s)
		if next == s {
			break
		}
		s = next
	}
	return s
}

func redactOnce(s string) string {
	for _, r := range rules {
		s = r.find.ReplaceAllString(s, r.with)
	}
	return longRun.ReplaceAllStringFunc(s, func(run string) string {
		const digits, lower, upper = "0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		if strings.ContainsAny(run, digits) && strings.ContainsAny(run, lower) && strings.ContainsAny(run, upper) {
			return mark
		}
		return run
	})
}
