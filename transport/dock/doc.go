//go:build unix

// Package dock is the ground on which missions are carried out: the worktrees
// that they get ([Docks]), the agent programs that run in them ([Agents]), and
// what is kept of them in files ([Papers]).
//
// It owns the directories of worktrees, the bare clones that they belong to
// together with berth/transport/codeindex, and <state>/missions/<id>/ with the
// files log, diff and output. It owns what an agent's program gets: its
// environment, which is made of a list of names and never of all that the broker
// has, its prompt, and its MCP configuration.
//
// It refuses to touch a directory that is not below that of the docks, to follow
// a link when it places a file, and to keep more of an output than its limit.
// Credentials are in the environment of the processes that need them and in
// nothing that this package writes.
//
// [Docks], [Agents] and [Papers] are safe for concurrent use. Goroutines belong
// to an agent and end with its processes; Docks and Papers start none.
//
// DESIGN.md beside this file says how each fault ends.
package dock
