//go:build unix

package dock

import (
	"path"
	"strings"
)

// guards reports whether one of a vessel's protected paths holds a path of its
// repository. A protected path is a file, or a directory with all that is below
// it; * and ? stand for parts of a name, and ** for any number of names.
func guards(protected []string, file string) bool {
	names := strings.Split(file, "/")
	for _, p := range protected {
		p = strings.Trim(path.Clean("/"+p), "/")
		if p != "" && holds(strings.Split(p, "/"), names) {
			return true
		}
	}
	return false
}

// holds reports whether the names begin with what the patterns mean.
func holds(patterns, names []string) bool {
	if len(patterns) == 0 {
		return true
	}
	if patterns[0] == "**" {
		for skip := range len(names) + 1 {
			if holds(patterns[1:], names[skip:]) {
				return true
			}
		}
		return false
	}
	if len(names) == 0 {
		return false
	}
	matches, err := path.Match(patterns[0], names[0])
	return (matches || err != nil && patterns[0] == names[0]) && holds(patterns[1:], names[1:])
}
