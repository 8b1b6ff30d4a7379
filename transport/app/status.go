package app

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"berth/broker/shape"
)

// Bounds of what is relayed of an app's error.
const (
	maxRelayed = 1000 // characters of a sentence
	maxFields  = 10   // places that a validation error names
	maxField   = 100  // characters of one
)

// Reply is an answer of the app.
type Reply struct {
	Status int
	Header http.Header
	Body   json.RawMessage
}

// refusalOf gives what an answer that says no is in the words of a surface.
// identityRoute: every 404 is about the item, and none about the route.
func refusalOf(name string, r *Reply, identityRoute bool) *Problem {
	said := detailOf(r.Body)
	switch {
	case r.Status == http.StatusNotFound && !identityRoute && isBareNotFound(r.Body):
		return NewProblem(UpstreamError, "This "+name+" does not serve what the call needs; it may be an older version.", map[string]any{"route_missing": true})
	case r.Status == http.StatusNotFound:
		return NewProblem(NotFound, said.or("There is no such item in "+name+"."), nil)
	case r.Status == http.StatusBadRequest || r.Status == http.StatusUnprocessableEntity:
		if said.list {
			return Invalid(name+" rejected the request as malformed.", map[string]any{"fields": said.fields})
		}
		return Invalid(said.or(name+" rejected the request."), nil)
	case r.Status == http.StatusConflict:
		return NewProblem(Conflict, said.or(name+" cannot accept this now."), nil)
	case r.Status == http.StatusTooManyRequests:
		p := NewProblem(Conflict, said.or(name+" is at its run limit; try again later."), nil)
		if seconds, err := strconv.Atoi(strings.TrimSpace(r.Header.Get("Retry-After"))); err == nil && seconds >= 0 {
			p = p.With("retry_after_s", seconds)
		}
		return p
	case r.Status/100 == 4:
		sentence := said.sentence
		if sentence == "" {
			sentence = said.message
		}
		if sentence == "" {
			sentence = unexpected(name, r.Status)
		}
		return NewProblem(InternalError, sentence, map[string]any{"status": r.Status})
	case r.Status/100 == 5:
		return NewProblem(UpstreamError, said.or(name+" met an internal error."), map[string]any{"status": r.Status})
	}
	return NewProblem(UpstreamError, unexpected(name, r.Status), map[string]any{"status": r.Status})
}

func unexpected(name string, status int) string {
	return name + " gave an unexpected answer (status " + strconv.Itoa(status) + ")."
}

// saying is what an app's error body says.
type saying struct {
	sentence string   // its detail, when that is a string
	message  string   // detail.message
	list     bool     // its detail is a list of validation errors
	fields   []string // the places that the list names
}

func (s saying) or(plain string) string {
	if s.sentence != "" {
		return s.sentence
	}
	return plain
}

func detailOf(body json.RawMessage) saying {
	o, ok := ReadObject(body)
	if !ok {
		return saying{}
	}
	raw := OrNull(o.Get("detail"))
	if s, ok := shape.Text(raw); ok {
		return saying{sentence: relayed(s)}
	}
	if rows, ok := ReadArray(raw); ok {
		return saying{list: true, fields: fieldsOf(rows)}
	}
	if inner, ok := ReadObject(raw); ok {
		message, _ := shape.Text(OrNull(inner.Get("message")))
		return saying{message: relayed(message)}
	}
	return saying{}
}

// fieldsOf names the places of a validation error by where and what kind, never
// by the value that was there.
func fieldsOf(rows []json.RawMessage) []string {
	fields := []string{}
	for _, raw := range rows {
		if len(fields) == maxFields {
			break
		}
		row, ok := ReadObject(raw)
		if !ok {
			continue
		}
		steps, _ := ReadArray(OrNull(row.Get("loc")))
		var place []string
		for _, step := range steps {
			if s, ok := shape.Text(step); ok {
				place = append(place, s)
			} else if integer.Match(step) {
				place = append(place, string(step))
			}
		}
		kind, _ := shape.Text(OrNull(row.Get("type")))
		fields = append(fields, cut(shape.Redact(strings.Join(place, ".")+" ("+kind+")"), maxField))
	}
	return fields
}

// relayed makes an app's sentence fit to pass on.
func relayed(s string) string {
	return cut(strings.TrimSpace(shape.Redact(s)), maxRelayed)
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}

// isBareNotFound recognises the body that stands for a route which is not
// served, by being exactly that.
func isBareNotFound(body json.RawMessage) bool {
	o, ok := ReadObject(body)
	if !ok || len(o) != 1 {
		return false
	}
	s, _ := shape.Text(OrNull(o.Get("detail")))
	return s == "Not Found"
}
