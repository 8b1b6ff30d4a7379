package config

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"berth/broker/shape"
)

// The shortest texts, in bytes, that are kept confidential. What is shorter
// says little and would riddle every sentence.
const (
	minConfidential = 6
	// minCredential is for text that may well be a credential: headers, user part
	// and query of a URL, and variables and options that are named like one.
	minCredential = 4
)

// Confidential lists the configured texts that no message about this backend
// may show: the values of its environment and headers, its arguments (of an
// option only what follows its name), and what the endpoint's URL holds beside
// scheme and host. Of a value with a structure the telling parts are listed
// too: the password and the query of a URL, the value of name=value, the token
// behind an authorization scheme. The command itself is public.
func (b Backend) Confidential() []string {
	var c confidential
	for name, value := range b.Env {
		c.add(value.Reveal(), minFor(name))
		c.addURL(value.Reveal())
	}
	for i, arg := range b.Args {
		name := ""
		if i > 0 {
			name = b.Args[i-1].Reveal()
		}
		c.addArgument(name, arg.Reveal())
	}
	for i, arg := range b.Settings.HeadersCommand {
		if i > 0 {
			c.addArgument(b.Settings.HeadersCommand[i-1].Reveal(), arg.Reveal())
		}
	}
	for _, value := range b.Headers {
		c.addHeader(value.Reveal())
	}
	c.addURL(b.URL.Reveal())
	slices.Sort(c)
	return slices.Compact(c)
}

// Confidential lists what no message may show of these headers, as
// [Backend.Confidential] does of those in the file.
func (m SecretMap) Confidential() []string {
	var c confidential
	for _, value := range m {
		c.addHeader(value.Reveal())
	}
	slices.Sort(c)
	return slices.Compact(c)
}

func minFor(name string) int {
	if shape.NamesCredential(name) {
		return minCredential
	}
	return minConfidential
}

type confidential []string

func (c *confidential) add(text string, atLeast int) {
	if len(strings.TrimSpace(text)) >= atLeast {
		*c = append(*c, text)
	}
}

// addArgument takes one argument; before is the one before it, which may be the
// option that names it.
func (c *confidential) addArgument(before, arg string) {
	name, value, assigned := strings.Cut(arg, "=")
	switch {
	case strings.HasPrefix(arg, "--"):
		if assigned {
			c.add(value, minFor(name))
		}
	case strings.HasPrefix(arg, "-"):
		// -pVALUE and -name=VALUE look alike up to the sign; -name alone keeps its
		// first letter, which is the price.
		if assigned {
			c.add(value, minFor(name))
		}
		c.add(arg[min(2, len(arg)):], minConfidential)
	default:
		atLeast := minConfidential
		if strings.HasPrefix(before, "-") && !strings.Contains(before, "=") {
			atLeast = minFor(before)
		}
		c.add(arg, atLeast)
		if assigned {
			c.add(value, minFor(name))
		}
	}
	c.addURL(value)
	c.addURL(arg)
}

// addHeader takes a header's value: all of it, and its parts where it is an
// authorization, a cookie or a list.
func (c *confidential) addHeader(value string) {
	c.add(value, minCredential)
	for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ';' || r == ',' }) {
		if _, v, assigned := strings.Cut(part, "="); assigned {
			c.add(strings.TrimSpace(v), minCredential)
		}
	}
	scheme, token, ok := strings.Cut(value, " ")
	if !ok {
		return
	}
	c.add(token, minCredential)
	if !strings.EqualFold(scheme, "basic") {
		return
	}
	if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(token)); err == nil {
		c.add(string(plain), minCredential)
		_, password, _ := strings.Cut(string(plain), ":")
		c.add(password, minCredential)
	}
}

// addURL takes the parts of a URL that may be credentials; a text that is none
// has none.
func (c *confidential) addURL(text string) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return
	}
	if u.User != nil {
		password, _ := u.User.Password()
		c.add(u.User.String(), minCredential)
		c.add(u.User.Username(), minCredential)
		c.add(password, minCredential)
	}
	c.add(u.RawQuery, minCredential)
	for _, values := range u.Query() {
		for _, v := range values {
			c.add(v, minCredential)
		}
	}
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		c.add(segment, minConfidential)
		if plain, err := url.PathUnescape(segment); err == nil {
			c.add(plain, minConfidential)
		}
	}
}
