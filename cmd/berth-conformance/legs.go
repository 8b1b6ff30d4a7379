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
	stateful  = "stateful"  // everything-server over HTTP, handshake and sessions
	stateless = "stateless" // the same without sessions
	stdio     = "stdio"     // the same as a child on pipes
	tasks     = "tasks"     // berth-fixture, with verbs that are always jobs
)

// leg is one revision of the protocol, spoken to one server.
type leg struct {
	revision string
	server   string
	direct   string // the server that the direct column is measured on; "" is none
	only     string // glob over the scenarios; "" is all that the revision names
	// whole legs must pass every required scenario but the excused ones, whether
	// or not the server passes it alone.
	whole   bool
	excused map[string]string // scenario -> why it cannot pass
}

func (l leg) name() string { return l.revision + "/" + l.server }

// legs are all of them, in the order in which they run.
var legs = []leg{
	{revision: "2025-11-25", server: stateful, direct: stateful, whole: true},
	{revision: "2026-07-28", server: stateless, direct: stateless, whole: true},
	{revision: "2025-11-25", server: stateless, direct: stateless, whole: true},
	{revision: "2026-07-28", server: stateful, direct: stateful, whole: true},
	{revision: "2025-11-25", server: stdio, direct: stateful, whole: true},
	{revision: "2026-07-28", server: stdio, direct: stateless, whole: true},
	{revision: "2026-07-28", server: tasks, only: "tasks-*", whole: true, excused: map[string]string{
		"tasks-status-notifications": "the suite has no check in it yet",
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
		for name := range l.excused {
			if !slices.Contains(names, name) {
				return nil, fmt.Errorf("%s excuses %q, which is no scenario of it", l.name(), name)
			}
		}
	}
	if len(plans) == 0 {
		return nil, errors.New("--only: nothing has such a name")
	}
	return plans, nil
}
