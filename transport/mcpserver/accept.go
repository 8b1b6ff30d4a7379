package mcpserver

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// checkHost defends against DNS rebinding: a page whose name was pointed at
// this machine sends its own name as Host.
func (s *Server) checkHost(r *http.Request) bool {
	host := hostname(r.Host)
	return isLoopback(host) || containsFold(s.opts.AllowedHosts, host)
}

// checkOrigin lets programs (no Origin) and pages of this very host pass.
func (s *Server) checkOrigin(r *http.Request) bool {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return true
	}
	if len(values) > 1 {
		return false
	}
	if containsFold(s.opts.AllowedOrigins, values[0]) {
		return true
	}
	origin, err := url.Parse(values[0])
	if err != nil || origin.Scheme != "http" && origin.Scheme != "https" {
		return false
	}
	host := strings.ToLower(origin.Hostname())
	return isLoopback(host) && host == hostname(r.Host)
}

// hostname takes the port and the brackets of an IPv6 address off.
func hostname(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func containsFold(list []string, text string) bool {
	for _, s := range list {
		if strings.EqualFold(s, text) {
			return true
		}
	}
	return false
}

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
