package resmon

import (
	"path"
	"regexp"
	"strings"
	"sync"

	"berth/transport/app"
)

// Name is the surface's name, in a configuration and in serverInfo.
const Name = "resmon"

// Surface gives the table.
var Surface = sync.OnceValue(func() *app.Surface {
	return &app.Surface{
		Name: Name, Version: "1.0",
		Discovery: discovery, Sentences: sentences, Routes: routes, Tools: newTools(walkPages),
	}
})

var discovery = app.Discovery{
	Port: "RESMON_PORT", PortFile: "RESMON_PORT_FILE", Database: "RESMON_DB_PATH",
	StateDir: "RESMON_STATE_DIR", ReadOnly: "RESMON_MCP_READ_ONLY",
	PortFileName: "resmon.port", TokenFile: "api-token-{port}",
	Token:        regexp.MustCompile(`^[A-Za-z0-9_-]{43,128}$`),
	DefaultState: defaultState,
	Health:       routeHealth,
}

// defaultState is where resmon keeps its token file when nothing names the
// directory.
func defaultState(os string, lookup func(string) string) string {
	switch os {
	case "darwin":
		return path.Join(lookup("HOME"), "Library/Application Support/resmon")
	case "windows":
		return strings.TrimRight(lookup("LOCALAPPDATA"), `\/`) + `\resmon`
	}
	if state := lookup("XDG_STATE_HOME"); state != "" {
		return path.Join(state, "resmon")
	}
	return path.Join(lookup("HOME"), ".local/state/resmon")
}

// sentences: NotRunning and NotNamed are the frozen contract's own words.
var sentences = app.Sentences{
	NotRunning: "resmon is not running. Start the resmon app and try again.",
	NotNamed: "No resmon was named, so this server did not look for one and did not guess. Two things name one: the RESMON_PORT environment variable, and the port file a running resmon writes at {path}. " +
		"Neither named a port. Guessing one would attach this harness to whichever resmon happens to be listening there -- possibly another installation, over another database -- and answering about the wrong corpus is worse than not answering. " +
		"Start resmon and try again; if it is already running, set RESMON_PORT to its port, or point RESMON_PORT_FILE at the port file that instance writes.",
	NoPath:       "resmon.port beside its database (RESMON_PORT_FILE or RESMON_DB_PATH says where)",
	BadPort:      "RESMON_PORT must hold a decimal port number from 1 to 65535, and what it holds is none. It was given, so the port file was not used instead. Correct it, or unset it to use the port file.",
	NoToken:      "No usable token of the resmon at {base} was found in the state directory {state}, so nothing was sent. A resmon that was closed leaves no token file; one with another state directory needs RESMON_STATE_DIR to name it.",
	TokenRefused: "What answers at {base} refused the token that was found for it: the token file is from another run of that port. If that resmon has another state directory, name it in RESMON_STATE_DIR.",
	NotThisApp:   "What answers at {base} did not confirm itself as resmon, so nothing was asked of it.",
	Restarted:    "The resmon at {base} no longer accepts the token it was attached with; it has probably restarted. Call again to attach to it anew.",
	Stopped:      "The resmon at {base} stopped answering part-way.",
	ReadOnly:     "This session is read-only: the tools that change something in resmon are not available in it.",
	Unsure:       "The request was sent and may have taken effect; it is not repeated. {verb} tells.",
}
