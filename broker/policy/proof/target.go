package proof

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"net/url"
	"path"
	"strings"

	"berth/broker/shape"

	"github.com/go-json-experiment/json/jsontext"
)

// Target is one thing that a call changes or an answer shows, in the one
// spelling that its kind has for it.
type Target struct {
	Kind string
	Text string // canonical

	id      [sha256.Size]byte // of kind and text
	value   json.RawMessage   // as the caller wrote it
	version json.RawMessage   // seen, or to be equal to; nil: none
	wants   bool              // the need names a version
}

// maxTarget is the longest target, in bytes; a longer one is unresolvable.
const maxTarget = 4 << 10

// canonicals are the spellings of kinds. Each is lexical only: two names of one
// file are two targets.
var canonicals = map[string]func(json.RawMessage, Kind) (string, bool){
	"exact":     func(v json.RawMessage, _ Kind) (string, bool) { return plainText(v) },
	"path":      func(v json.RawMessage, k Kind) (string, bool) { return pathOf(v, k.Base) },
	"path_fold": foldedPath,
	"url":       urlOf,
	"json":      jsonOf,
}

// newTarget makes the target of a value; ok is false when it is none.
func newTarget(kindName string, kind Kind, value json.RawMessage) (Target, bool) {
	canonical, ok := canonicals[kind.Canonical]
	if !ok {
		return Target{}, false
	}
	text, ok := canonical(value, kind)
	if !ok || text == "" || len(text) > maxTarget {
		return Target{}, false
	}
	return Target{Kind: kindName, Text: text, id: sha256.Sum256([]byte(kindName + "\x00" + text)), value: value}, true
}

// plainText gives a JSON string that is not empty and has no NUL, at which some
// programs end a name.
func plainText(v json.RawMessage) (string, bool) {
	s, ok := shape.Text(v)
	return s, ok && s != "" && !strings.Contains(s, "\x00")
}

func pathOf(v json.RawMessage, base string) (string, bool) {
	s, ok := plainText(v)
	if !ok {
		return "", false
	}
	return cleanPath(s, base)
}

func cleanPath(s, base string) (string, bool) {
	if !path.IsAbs(s) {
		if !path.IsAbs(base) {
			return "", false
		}
		s = base + "/" + s
	}
	return path.Clean(s), true
}

// foldedPath is for file systems that do not tell cases apart: letters are
// lower, a backslash parts like a slash, and a drive is absolute.
func foldedPath(v json.RawMessage, k Kind) (string, bool) {
	s, ok := plainText(v)
	if !ok {
		return "", false
	}
	return cleanPath(folded(s), folded(k.Base))
}

func folded(s string) string {
	s = strings.ReplaceAll(strings.ToLower(s), `\`, "/")
	if len(s) >= 3 && s[0] >= 'a' && s[0] <= 'z' && s[1] == ':' && s[2] == '/' {
		s = "/" + s
	}
	return s
}

// urlOf gives a URL with scheme and host in lower case, without default port,
// dot segments, user part and fragment.
func urlOf(v json.RawMessage, k Kind) (string, bool) {
	s, ok := plainText(v)
	if !ok {
		return "", false
	}
	u, err := url.Parse(s)
	if err != nil {
		return "", false
	}
	if !u.IsAbs() && k.Base != "" {
		base, err := url.Parse(k.Base)
		if err != nil {
			return "", false
		}
		u = base.ResolveReference(u)
	}
	if !u.IsAbs() || u.Host == "" {
		return "", false
	}
	u = (&url.URL{}).ResolveReference(u) // takes out dot segments
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := u.Port(); port != "" && port == map[string]string{"http": "80", "https": "443", "ftp": "21"}[u.Scheme] {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String(), true
}

// jsonOf gives any JSON value in its canonical spelling. It is the one kind
// whose targets need not be text: a number of an issue, an object of owner and
// name. Null and what is empty are no target.
func jsonOf(v json.RawMessage, _ Kind) (string, bool) {
	if !jsontext.Value(v).IsValid() { // a name that stands twice is no value that readers agree on
		return "", false
	}
	c, err := shape.Canonical(v)
	if err != nil || bytes.ContainsAny(c[:1], "n") {
		return "", false
	}
	switch string(c) {
	case `""`, "[]", "{}":
		return "", false
	}
	return string(c), true
}
