package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// The limits of an outward name (contracts/catalog.md section 1).
const (
	maxName    = 64
	keptOfName = 57
)

// NativeName is the backend name that is kept for the broker itself.
const NativeName = "berth"

// prefixes are what harnesses put before a name; one of them is stripped.
var prefixes = []string{"berth.", "mcp__berth__"}

// maxPrefix is the longest prefix that configuration may add, in bytes.
const maxPrefix = 64

// CheckPrefix says why a harness prefix cannot be used: it ends in what parts it
// from a name, so that no name is taken apart in its middle.
func CheckPrefix(prefix string) error {
	if prefix == "" || len(prefix) > maxPrefix {
		return fmt.Errorf("a harness prefix has 1 to %d bytes", maxPrefix)
	}
	for _, end := range []string{"__", ".", "/", ":"} {
		if strings.HasSuffix(prefix, end) {
			return nil
		}
	}
	return fmt.Errorf("the harness prefix %q does not end in two underscores, a dot, a slash or a colon", prefix)
}

// fold replaces every character outside [A-Za-z0-9_-] by an underscore.
func fold(name string) string {
	var b strings.Builder
	b.Grow(len(name))
	for _, r := range name {
		if r < 128 && nameByte(byte(r)) {
			b.WriteByte(byte(r))
		} else {
			b.WriteByte('_')
		}
	}
	return b.String()
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// outward is the name under which full is listed: folded, and cut to 57
// characters, an underscore and 6 hexadecimal characters of full's digest when
// it is longer than 64.
func outward(full string) string {
	name := fold(full)
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(full))
	return name[:keptOfName] + "_" + hex.EncodeToString(sum[:3])
}

// unprefixed gives name without one harness prefix.
func (p *Profile) unprefixed(name string) (string, bool) {
	known := p.prefixes
	if known == nil {
		known = prefixes
	}
	for _, prefix := range known {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest, true
		}
	}
	return name, false
}
