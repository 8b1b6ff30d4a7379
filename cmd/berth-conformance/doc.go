//go:build unix

// Command berth-conformance runs the official conformance suite against Berth
// and prints, scenario by scenario, what passes directly against a server that
// this project did not write and what passes through Berth in front of it.
//
//	berth-conformance --suite DIR [--only PATTERNS] [--rounds N] [--berth PATH]
//
// DIR holds the suite, as `make conformance` installs it. The servers are the
// conformance server of the official Go SDK, once with sessions and once
// without, and for the task scenarios berth-fixture. A leg is one revision of
// the protocol on one of them; it is named REVISION/SERVER. A pattern of --only
// is a glob over a leg, a scenario, or LEG/SCENARIO.
//
// It owns the processes that it starts, anew for each round, and a temporary
// directory. It fails on any loss and on whatever does not pass and is not named
// in legs.go, and bounds every wait. Legs and scenarios run one after the other;
// each process has a goroutine of its own, which ends with it.
package main
