// Package dispatch is the domain of work that is given to agents: vessels
// (repositories), captains (agent runtimes), docks (worktrees), missions and the
// voyages that they belong to (contracts/native.md sections 4, 5 and 22).
//
// It owns what these records hold, the one transition table of each, what a
// request to dispatch must look like, and what follows from a mission's end for
// its voyage and for the missions that wait for it. It refuses every step that
// its table does not have, and every request that could not be carried out as
// it was written.
//
// It is data and rules: it starts no goroutine, has no clock and does no I/O.
// Its values are not changed in place and are safe to share.
package dispatch
