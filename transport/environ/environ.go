// Package environ chooses what of the broker's environment the programs get that
// it starts for missions: agents, and git.
//
// It owns the list of names. It refuses whatever no list names, and the broker's
// own names (BERTH_*, ARMADA_*) also where an operator lists them, since a
// credential of the broker may be in one.
//
// It has no state.
package environ

import (
	"path"
	"slices"
	"strings"
)

// shared are the names that every program gets; * stands for any rest.
var shared = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TERM", "TMPDIR", "TZ", "XDG_*", "SSL_CERT_*",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	// who commits, and where git reads it
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
}

// ofGit are the names that the broker's git gets besides, to reach an origin as
// the user that the broker runs as.
var ofGit = []string{
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GIT_SSH*", "GIT_SSL_*", "GIT_PROXY_*", "KRB5*",
	"DBUS_SESSION_BUS_ADDRESS", // where a credential helper finds the user's keyring
	"GORACE",                   // of its guard, which is this program
}

// own are the names that are the broker's, whatever an operator lists.
var own = []string{"BERTH_*", "ARMADA_*"}

// Agent gives the entries of environ that an agent gets; more are an operator's
// names, * for any rest.
func Agent(environ, more []string) []string { return named(environ, shared, more) }

// Git gives the entries of environ that the broker's git gets.
func Git(environ []string) []string { return named(environ, shared, ofGit) }

func named(environ []string, lists ...[]string) []string {
	names := slices.Concat(lists...)
	out := []string{}
	for _, entry := range environ {
		name, _, ok := strings.Cut(entry, "=")
		if ok && name != "" && !matchesAny(own, name) && matchesAny(names, name) {
			out = append(out, entry)
		}
	}
	return out
}

// matchesAny reports whether one of the patterns means a variable.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}
