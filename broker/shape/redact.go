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

// rule is one kind of credential-shaped text. Whatever it finds holds one of
// signs, in small letters: most text has none, and looking for them is a hundred
// times cheaper than looking for the shape.
type rule struct {
	signs []string
	find  *regexp.Regexp
	with  string
}

// secretSigns are the signs of secretName.
var secretSigns = []string{"token", "secret", "passw", "passphrase", "pwd", "apikey", "api_key", "api-key", "accesskey", "access_key", "access-key",
	"privatekey", "private_key", "private-key", "credential", "authorization", "cookie", "sessionkey", "session_key", "session-key", "signature"}

// rules run in this order; earlier ones take the larger shapes.
var rules = []rule{
	{[]string{"-----begin "}, regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]{1,40}-----.*?(?:-----END [A-Z0-9 ]{1,40}-----|$)`), mark},
	// The end of a block whose beginning was cut off.
	{[]string{"-----end "}, regexp.MustCompile(`(?:[A-Za-z0-9+/=]{16,}\s+)+[A-Za-z0-9+/=]*\s*-----END [A-Z0-9 ]{1,40}-----`), mark},
	{[]string{"://"}, regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>]*@`), "${1}" + mark + "@"},
	{[]string{"authorization"}, regexp.MustCompile(`(?i)((?:proxy-)?authorization\\*["']?\s*[:=]\s*\\*["']?)[^\r\n"'\\]+`), "${1}" + mark},
	{[]string{"cookie"}, regexp.MustCompile(`(?i)\b((?:set-)?cookie\\*["']?\s*[:=]\s*\\*["']?)[^\r\n"'\\]+`), "${1}" + mark},
	{[]string{"bearer"}, regexp.MustCompile(`(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{4,}`), "${1}" + mark},
	{[]string{"basic"}, regexp.MustCompile(`(?i)\b(basic\s+)[A-Za-z0-9+/_-]{15,}={0,2}`), "${1}" + mark},
	// name="value", name='value', name=\"value\", name=value; a value that is cut off counts.
	{secretSigns, regexp.MustCompile(`(?i)(` + secretName + `["']?\s*(?:[:=]|=>)\s*")(?:[^"\\]|\\.)*`), "${1}" + mark},
	{secretSigns, regexp.MustCompile(`(?i)(` + secretName + `["']?\s*(?:[:=]|=>)\s*')(?:[^'\\]|\\.)*`), "${1}" + mark},
	{secretSigns, regexp.MustCompile(`(?i)(` + secretName + `\\+["']\s*(?:[:=]|=>)\s*\\+["'])[^"'\\]*`), "${1}" + mark},
	{secretSigns, regexp.MustCompile(`(?i)(` + secretName + `\\*["']?\s*(?:[:=]|=>)\s*)[^\s,;&"'\\{}\[\]()<>]+`), "${1}" + mark},
	{secretSigns, regexp.MustCompile(`(?i)(--?` + secretName + `\s+)[^\s"'-][^\s"']*`), "${1}" + mark},
	{secretSigns, regexp.MustCompile(`(?i)(` + secretName + `\s+(?:is\s+)?)[A-Za-z0-9+/_=-]{20,}`), "${1}" + mark},
	{[]string{"sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "akia", "asia", "aiza", "npm_", "eyj"}, regexp.MustCompile(`\b(?:sk-[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{8,}|github_pat_[A-Za-z0-9_]{8,}|glpat-[A-Za-z0-9_-]{8,}|xox[a-z]-[A-Za-z0-9-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{20,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?)`), mark},
}

// longRun is how long a run of characters is that may be a random key.
const longRun = 40

// inRun are the characters of one.
var inRun = func() (in [256]bool) {
	for c := range in {
		in[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("_+=-", byte(c)) >= 0
	}
	return in
}()

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
	small := folded(s)
	var signs []string // that were looked for last
	found := false
	for _, r := range rules {
		if len(signs) == 0 || &signs[0] != &r.signs[0] {
			signs, found = r.signs, hasAny(small, r.signs)
		}
		if !found {
			continue
		}
		if next := r.find.ReplaceAllString(s, r.with); next != s {
			s, small, signs = next, folded(next), nil
		}
	}
	return withoutRuns(s)
}

// folded is text in which a sign is found whatever its case, as (?i) finds it.
func folded(s string) string {
	return strings.ReplaceAll(strings.ToLower(s), "\u017F", "s") // a long s counts as one
}

func hasAny(text string, signs []string) bool {
	for _, sign := range signs {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// withoutRuns replaces long runs that mix cases and digits.
func withoutRuns(s string) string {
	var out strings.Builder
	kept := 0 // up to here s is in out
	for i := 0; i < len(s); i++ {
		if !inRun[s[i]] {
			continue
		}
		begin, digit, lower, upper := i, false, false, false
		for ; i < len(s) && inRun[s[i]]; i++ {
			digit = digit || s[i] <= '9' && s[i] >= '0'
			lower = lower || s[i] >= 'a'
			upper = upper || s[i] >= 'A' && s[i] <= 'Z'
		}
		if i-begin >= longRun && digit && lower && upper {
			out.WriteString(s[kept:begin] + mark)
			kept = i
		}
	}
	if kept == 0 {
		return s
	}
	return out.String() + s[kept:]
}
