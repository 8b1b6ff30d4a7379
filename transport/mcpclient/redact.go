package mcpclient

import (
	"net/url"
	"strings"
)

// redactor takes the credentials of config out of a sentence before next sees
// it: userinfo and query of the URL, and the values of headers.
func redactor(config HTTPConfig, next func(string) string) func(string) string {
	var secrets []string
	add := func(s string) {
		// What is shorter says nothing and would riddle the sentence.
		if len(s) >= 4 {
			secrets = append(secrets, s, "[redacted]")
		}
	}
	for _, v := range config.Headers {
		add(v)
		if _, token, ok := strings.Cut(v, " "); ok {
			add(token)
		}
	}
	if u, err := url.Parse(config.URL); err == nil {
		if u.User != nil {
			add(u.User.String())
			password, _ := u.User.Password()
			add(password)
			add(u.User.Username())
		}
		add(u.RawQuery)
		for _, values := range u.Query() {
			for _, v := range values {
				add(v)
			}
		}
	}
	replacer := strings.NewReplacer(secrets...)
	return func(s string) string { return next(replacer.Replace(s)) }
}
