package search

import (
	"maps"
	"slices"
	"sync"
)

// synonyms are words that tools use for one another. The first eight groups are
// the contract's; the others are the everyday names of the things that a
// developer's tools act on, taken from how documentation of operating systems,
// version control and browsers speaks, not from the catalogs that the tests
// search. A word may stand in several groups.
var synonyms = [][]string{
	{"read", "get", "show", "view", "cat", "fetch", "retrieve", "display", "print"},
	{"list", "ls", "enumerate"},
	{"delete", "remove", "rm", "erase", "drop"},
	{"create", "new", "add", "make", "insert"},
	{"edit", "update", "set", "patch", "change", "modify", "replace"},
	{"search", "find", "grep", "lookup", "query", "locate"},
	{"run", "exec", "execute", "start", "dispatch", "launch", "invoke", "evaluate"},
	{"stop", "cancel", "kill", "abort", "terminate", "halt", "end"},

	{"write", "save", "store", "put"},
	{"move", "rename", "mv"},
	{"copy", "cp", "duplicate", "clone"},
	{"directory", "folder", "dir"},
	{"information", "info", "metadata", "details", "stat", "properties"},
	{"picture", "image", "photo"},
	{"page", "website", "site", "url", "web"},
	{"go", "navigate", "visit", "browse", "open"},
	{"press", "click", "tap", "push"},
	{"type", "enter", "fill", "input"},
	{"wait", "sleep", "pause"},
	{"repository", "repo", "project"},
	{"documentation", "docs", "manual", "reference"},
	{"logs", "log", "messages", "output"},
	{"history", "log", "past"},
	{"compare", "diff", "difference"},
	{"status", "state", "health", "condition"},
	{"settings", "config", "configuration", "options", "preferences"},
	{"enable", "activate", "on"},
	{"disable", "deactivate", "off"},
	{"download", "export"},
	{"upload", "attach", "import"},
	{"tree", "hierarchy", "structure"},
	{"undo", "revert", "reset", "rollback"},
	{"person", "user", "account"},
}

// builtin is the table by stems; stemming it costs more than a small index.
var builtin = sync.OnceValue(func() map[string][]string { return related(map[string][]string{}, synonyms) })

// alike is the table with groups added to it. The result is not to be changed.
func alike(more [][]string) map[string][]string {
	if len(more) == 0 {
		return builtin()
	}
	return related(maps.Clone(builtin()), more)
}

// related adds groups to a map from the stem of a word to the stems of its synonyms.
func related(out map[string][]string, groups [][]string) map[string][]string {
	for _, group := range groups {
		stems := make([]string, len(group))
		for i, word := range group {
			stems[i] = stem(Fold(word))
		}
		for _, a := range stems {
			for _, b := range stems {
				if a != b && a != "" && b != "" && !slices.Contains(out[a], b) {
					out[a] = append(slices.Clip(out[a]), b)
				}
			}
		}
	}
	return out
}
