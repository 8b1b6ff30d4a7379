// Package dispatch is the native family of work that is given to agents: the
// verbs of vessels and captains (contracts/native.md section 5).
//
// It owns the verbs' entries, what they refuse, and how the records of
// berth/broker/dispatch are kept: one record each, written with its event. A
// credential that a caller gives goes to [Secrets] and into no record, answer or
// event. What reaches into the file system or a process is asked of the
// interfaces in [Options].
//
// It starts no goroutine and has no clock. A family is safe for concurrent use:
// every change names the revision that it read, and one that met another is
// tried again.
package dispatch
