package config

import (
	"regexp"
	"strings"
)

// reference is what may stand between `${` and `}`: a name, optionally with
// Cursor's `env:` before it, optionally with `:-` and a default after it.
var reference = regexp.MustCompile(`^(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-(?s:(.*)))?$`)

// expander replaces references to environment variables.
type expander struct {
	env func(string) (string, bool)
	*report
	off bool // keep the text: the backend is disabled
}

// expand gives s with its references replaced; s stands at n. A variable that
// is set, even to nothing, goes before a default. `$${` is a literal `${`.
// What was put in is not looked at again. Problems name variables only.
func (e *expander) expand(n *node, s string) string {
	if e.off {
		return s
	}
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		s = s[i+2:]
		end := strings.IndexByte(s, '}')
		if end < 0 {
			e.refuse(n, "a ${ has no closing brace; write $${ for the two characters themselves")
			return b.String()
		}
		b.WriteString(e.resolve(n, s[:end]))
		s = s[end+1:]
	}
}

func (e *expander) resolve(n *node, inner string) string {
	m := reference.FindStringSubmatch(inner)
	if m == nil {
		e.refuse(n, "what stands in ${...} is no reference to a variable: use ${NAME} or ${NAME:-default}, or write $${ for the two characters ${ themselves")
		return ""
	}
	name, hasDefault := m[1], m[2] != ""
	if strings.Contains(m[3], "${") {
		e.refuse(n, "the default of ${%s:-...} holds another reference, which is not supported", name)
		return ""
	}
	if value, ok := e.env(name); ok {
		return value
	}
	if hasDefault {
		return m[3]
	}
	e.refuse(n, "the environment variable %s is not set and has no default: set it, or write ${%s:-default}", name, name)
	return ""
}
