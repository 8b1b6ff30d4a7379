package config

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/broker/catalog"
)

// checks are the rules for text that a `check` tag names.
var checks = map[string]func(string) error{
	"address": checkAddress,
	"host":    checkHost,
	"glob":    checkGlob,
	"pointer": checkPointer,
	"filled":  checkFilled,
	"line":    checkLine,
	"prefix":  catalog.CheckPrefix,
	"place":   checkPlace,
}

func check(tag reflect.StructTag, s string) error {
	if rule, ok := checks[tag.Get("check")]; ok {
		return rule(s)
	}
	return nil
}

func checkGlob(s string) error {
	if s == "" {
		return errors.New("must name a verb or be a pattern such as search_*")
	}
	if _, err := path.Match(s, ""); err != nil {
		return errors.New("is no valid pattern")
	}
	return nil
}

// checkPointer accepts a JSON pointer (RFC 6901) below the whole document.
func checkPointer(s string) error {
	if !strings.HasPrefix(s, "/") {
		return errors.New("must be a JSON pointer such as /job/id")
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '~' && (i+1 == len(s) || (s[i+1] != '0' && s[i+1] != '1')) {
			return errors.New("must be a JSON pointer: ~ stands only in ~0 and ~1")
		}
	}
	return nil
}

func checkFilled(s string) error {
	if s == "" {
		return errors.New("must not be empty")
	}
	return nil
}

// maxLine is the longest line for the model, in characters.
const maxLine = 300

func checkLine(s string) error {
	if s == "" || utf8.RuneCountInString(s) > maxLine || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("must be one line of 1 to %d characters", maxLine)
	}
	return nil
}

var hostName = regexp.MustCompile(`^(\[[0-9A-Fa-f:.%a-z]+\]|[A-Za-z0-9._-]+)$`)

// checkAddress accepts host:port with an optional host.
// CheckAddress accepts what Broker.Listen may be: host:port.
func CheckAddress(s string) error { return checkAddress(s) }

func checkAddress(s string) error {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || (i > 0 && !hostName.MatchString(s[:i])) || !port(s[i+1:]) {
		return errors.New("must be an address such as 127.0.0.1:7420 or [::1]:0")
	}
	return nil
}

// checkHost accepts what a Host header holds.
func checkHost(s string) error {
	if hostName.MatchString(s) {
		return nil
	}
	if i := strings.LastIndexByte(s, ':'); i > 0 && hostName.MatchString(s[:i]) && port(s[i+1:]) {
		return nil
	}
	return errors.New("must be a host name or address, with or without a port, as it stands in a Host header")
}

func port(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s
}

// backendName is what a backend may be called: it stands in paths and before
// `__` in tool names.
var backendName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

var reservedNames = map[string]string{
	"berth":     "the broker itself",
	"essential": "a profile",
	"full":      "a profile",
	"armada":    "a profile",
}

func checkName(name string) error {
	switch {
	case !backendName.MatchString(name):
		return errors.New("cannot name a backend: use 1 to 64 of A-Z a-z 0-9 . _ -")
	case strings.Contains(name, "__"):
		return errors.New("cannot name a backend: __ separates a backend from its verb")
	case strings.HasSuffix(name, "_"):
		return errors.New("cannot name a backend: with an _ at its end it runs into the __ before a verb")
	case strings.Trim(name, ".") == "":
		return errors.New("cannot name a backend: it must have more than dots")
	case reservedNames[name] != "":
		return errors.New("cannot name a backend: it is the name of " + reservedNames[name])
	}
	return nil
}

// parseURL reads an endpoint. Its errors do not repeat the text.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("is not a valid URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.Port() != "" && !port(u.Port()):
		return nil, errors.New("has no valid port")
	case u.User != nil:
		return nil, errors.New("must not hold a user name or password; give them as an Authorization header")
	case u.Fragment != "" || strings.Contains(s, "#"):
		return nil, errors.New("must not have a fragment (#...)")
	}
	return u, nil
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// ownHeaders are set by the transport on every request. Those that clients
// write into their files out of habit are passed over, the others refused.
var ownHeaders = map[string]bool{
	"accept": true, "content-type": true, // habit
	"content-length": false, "transfer-encoding": false, "connection": false, "host": false,
	"mcp-session-id": false, "mcp-protocol-version": false, "last-event-id": false,
	// net/http repeats a request that carries one of these.
	"idempotency-key": false, "x-idempotency-key": false,
}

func plainHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return false
		}
	}
	return true
}

// headerFault says why a header of this name cannot be set; habit is one that
// is passed over instead. seen holds the names before it.
func headerFault(name string, seen map[string]bool) (why string, habit bool) {
	lower := strings.ToLower(name)
	isHabit, own := ownHeaders[lower]
	switch {
	case !headerName.MatchString(name):
		return quote(name) + " cannot name a header", false
	case isHabit:
		return "", true
	case own:
		return "the header " + name + " cannot be configured: Berth sets it itself or it would make a call repeatable", false
	case seen[lower]:
		return "this header stands here twice", false
	}
	seen[lower] = true
	return "", false
}
