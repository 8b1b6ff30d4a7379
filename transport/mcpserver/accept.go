package mcpserver

import (
	"net/http"
	"strconv"
	"strings"
)

// accepts is what a client can read. A header that names neither form is
// read as if it were absent: some clients send none or a wrong one.
type accepts struct{ json, stream bool }

func parseAccept(r *http.Request) accepts {
	var a accepts
	for _, header := range r.Header["Accept"] {
		for part := range strings.SplitSeq(header, ",") {
			kind, params, _ := strings.Cut(part, ";")
			if q, ok := strings.CutPrefix(strings.TrimSpace(params), "q="); ok {
				if weight, err := strconv.ParseFloat(q, 64); err == nil && weight == 0 {
					continue // "not this one"
				}
			}
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "application/json", "application/*":
				a.json = true
			case "text/event-stream", "text/*":
				a.stream = true
			case "*/*":
				a.json, a.stream = true, true
			}
		}
	}
	if !a.json && !a.stream {
		return accepts{json: true, stream: true}
	}
	return a
}

// isJSON is lenient about an absent content type and strict about others: a
// form of another site can only send those.
func isJSON(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "" || kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}
