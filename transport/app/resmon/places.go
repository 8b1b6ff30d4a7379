package resmon

import (
	"encoding/json"
	"regexp"
	"strings"

	"berth/broker/shape"
	"berth/transport/app"
)

// What stands in the place of a destination: resmon's own words for it.
const (
	target   = "<target>"
	address  = "<address>"
	redacted = "[redacted]"
)

var (
	aURL   = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>]+`)
	aMail  = regexp.MustCompile(`[^\s"'<>@,;:]+@[^\s"'<>@,;:]+`)
	aPath  = regexp.MustCompile(`(^|[\s"'(=:])(~?(?:/[^\s"'<>,;:)]+)+|[A-Za-z]:\\[^"'<>,;]+|\\\\[^\s"'<>,;]+)`)
	places = regexp.MustCompile(`(?i)(?:dir|directory|folder|path|url|uri|endpoint|host|server|address|webhook|recipients?|to|from|cli|location)$`)
)

// hideText takes the destinations out of a sentence: those that are known, and
// whatever has the form of one.
func hideText(s string, known ...string) string {
	for _, k := range known {
		if k = strings.TrimSpace(k); k != "" {
			s = strings.ReplaceAll(s, k, target)
		}
	}
	s = aURL.ReplaceAllString(s, target)
	s = aMail.ReplaceAllStringFunc(s, func(m string) string {
		if m == target {
			return m
		}
		return address
	})
	return aPath.ReplaceAllString(s, "${1}"+target)
}

// maxDepth bounds how deep a record is looked into: each level is read again.
// What lies deeper in settings is hidden whole.
const maxDepth = 16

// hidePlaces replaces addresses, directories and endpoints inside the two
// settings objects of a whole record, wherever in it they stand.
func hidePlaces(record app.Object) app.Object { return hidePlacesTo(record, maxDepth) }

func hidePlacesTo(record app.Object, depth int) app.Object {
	for i, f := range record {
		switch {
		case f.Name == "storage_settings" || f.Name == "ai_settings":
			record[i].Value = hideIn(f.Value, "", maxDepth)
		case depth > 0:
			if inner, ok := app.ReadObject(f.Value); ok {
				record[i].Value = hidePlacesTo(inner, depth-1).JSON()
			}
		}
	}
	return record
}

// hideIn hides inside one value of settings; name is the key that it stands
// under. A string that holds an object stays one.
func hideIn(raw json.RawMessage, name string, depth int) json.RawMessage {
	if depth == 0 {
		return app.Quote(target)
	}
	if o, ok := app.ReadObject(raw); ok {
		for i, f := range o {
			o[i].Value = hideIn(f.Value, f.Name, depth-1)
		}
		return o.JSON()
	}
	if rows, ok := app.ReadArray(raw); ok {
		for i := range rows {
			rows[i] = hideIn(rows[i], name, depth-1)
		}
		return app.Array(rows)
	}
	s, ok := shape.Text(app.OrNull(raw))
	switch {
	case !ok || s == "":
		return raw
	case holdsJSON(s):
		return app.Quote(string(hideIn(json.RawMessage(s), name, depth-1)))
	case credentialShaped(name):
		return app.Quote(redacted)
	case strings.Contains(s, "@") && aMail.FindString(s) == s:
		return app.Quote(address)
	case places.MatchString(name):
		return app.Quote(target)
	}
	return app.Quote(hideText(s))
}

func holdsJSON(s string) bool {
	s = strings.TrimSpace(s)
	return (strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[")) && json.Valid([]byte(s))
}

// credentialWords are the parts of a settings key that make it look like a
// credential's.
var credentialWords = []string{"key", "token", "secret", "password", "passphrase", "credential", "auth"}

func credentialShaped(name string) bool {
	name = strings.ToLower(name)
	for _, word := range credentialWords {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
