//go:build unix

package main

import (
	"errors"
	"fmt"
	"path"
	"slices"
)

// The servers that stand behind Berth.
const (
	stateful       = "stateful"        // everything-server over HTTP, handshake and sessions
	stateless      = "stateless"       // the same without sessions
	stdio          = "stdio"           // the same as a child on pipes, met in the stateless era
	stdioHandshake = "stdio-handshake" // and one that the configuration keeps to the handshake
	tasks          = "tasks"           // berth-fixture, with verbs that are always jobs
)

// leg is one revision of the protocol, spoken to one server.
type leg struct {
	revision string
	server   string
	direct   string // the server that the direct column is measured on; "" is none
	only     string // glob over the scenarios; "" is all that the revision names
	// whole legs must pass every required scenario but those that named allows,
	// whether or not the server passes it alone.
	whole bool
	named map[string]difference // by scenario
	note  string                // said under the leg
}

// difference is what is known not to pass, and no more than that: a scenario
// that fares worse, or in another check, is a fault, and one that passes every
// time is a fault too, as the entry is stale then.
type difference struct {
	least  verdict  // what it must still be; only a warning excuses a loss
	checks []string // that may fail or give warnings
	why    string
}

func (l leg) name() string { return l.revision + "/" + l.server }

// sameList: the suite registers one tool twice, and wants to be told the second
// time too.
var sameList = difference{warned, []string{"sep-2575-server-sends-tools-list-changed-on-subscription"},
	"the suite adds a tool that is there already: the served list is the same, of which Berth tells nobody (its first addition is told)"}

// keyless: a key is the backend's own only where it gives one.
var keyless = difference{failed, []string{"sep-2322-elicitation-incomplete"},
	"a question has no key in the handshake era, so Berth names it; the suite wants the one that this tool would give in the other era"}

// noPolling: the server closes the stream of a call and has no way to resume it.
var noPolling = difference{nothing, nil,
	"the server ends the stream without an answer; through Berth that is an error at once, in which the scenario finds nothing to check"}

// cannotAsk are the scenarios whose tools ask in the middle of a call.
func cannotAsk(why string) map[string]difference {
	return map[string]difference{
		"tools-call-sampling":          {failed, []string{"tools-call-sampling"}, why},
		"tools-call-elicitation":       {failed, []string{"tools-call-elicitation"}, why},
		"elicitation-sep1034-defaults": {failed, []string{"elicitation-sep1034-general"}, why},
		"elicitation-sep1330-enums":    {failed, []string{"elicitation-sep1330-general"}, why},
	}
}

// legs are all of them, in the order in which they run.
var legs = []leg{
	{revision: "2025-11-25", server: stateful, direct: stateful, whole: true, named: map[string]difference{
		"server-sse-polling": noPolling,
	}},
	{revision: "2026-07-28", server: stateless, direct: stateless, whole: true, named: map[string]difference{
		"server-stateless": sameList,
	}},
	{revision: "2025-11-25", server: stateless, direct: stateless, whole: true, named: cannotAsk(
		"the backend's tool asks in the middle of a call, which it can in neither era without a session")},
	{revision: "2026-07-28", server: stateful, direct: stateful, whole: true, named: map[string]difference{
		"server-stateless":                        sameList,
		"input-required-result-basic-elicitation": keyless,
	}},
	{revision: "2025-11-25", server: stdioHandshake, direct: stateful, whole: true},
	{revision: "2026-07-28", server: stdio, direct: stateless, whole: true, named: map[string]difference{
		"server-stateless": sameList,
	}},
	{revision: "2025-11-25", server: stdio, direct: stateless, whole: true, named: cannotAsk(
		"the backend's tool asks in the middle of a call, which a child that was met in the stateless era cannot (handshake: true is the other choice)")},
	{revision: "2026-07-28", server: stdioHandshake, direct: stateful, note: "on one pair of pipes of the handshake era it cannot be told which of several calls a question belongs to, and all declare what the connection does; the suite leaves calls waiting for answers"},
	{revision: "2026-07-28", server: tasks, only: "tasks-*", whole: true, named: map[string]difference{
		"tasks-status-notifications": {nothing, nil, "the suite has no check in it yet (transport/mcpserver tests what it is about)"},
	}},
}

// plan is a leg with the scenarios of it that are to run.
type plan struct {
	leg       leg
	scenarios []string
	required  map[string]bool
	all       bool // the suite's own selection: one process runs them all
}

// choose gives the legs and scenarios that were asked for.
func choose(o options, s *suite) ([]plan, error) {
	var plans []plan
	for _, l := range legs {
		req, err := s.requirements(l.revision)
		if err != nil {
			return nil, err
		}
		names := slices.Concat(req.Server, req.unscored())
		p := plan{leg: l, required: map[string]bool{}, all: l.only == ""}
		for _, name := range names {
			if fits, err := path.Match(l.only, name); l.only != "" && (!fits || err != nil) {
				continue
			}
			if !o.wants(l, name) {
				p.all = false
				continue
			}
			p.scenarios = append(p.scenarios, name)
			p.required[name] = slices.Contains(req.Server, name) || l.only != ""
		}
		if len(p.scenarios) > 0 {
			plans = append(plans, p)
		}
		for name := range l.named {
			if !slices.Contains(names, name) {
				return nil, fmt.Errorf("%s names %q, which is no scenario of it", l.name(), name)
			}
		}
	}
	if len(plans) == 0 {
		return nil, errors.New("--only: nothing has such a name")
	}
	return plans, nil
}
