// Package dispatch is the native family of work that is given to agents: the
// verbs of vessels and captains, of dispatch, and of the voyages, missions and
// docks that come of it (contracts/native.md sections 4 and 5).
//
// It owns the verbs' entries, what they refuse and in which order, what a
// dispatch writes, and what is changed by hand. The records are those of
// berth/broker/dispatch, each written with its event, and with whatever must not
// change without it in one step. It refuses whatever the tables there do not
// have, and reads another tenant's record as one that never existed. A credential
// that a caller gives goes to [Secrets] and into no record, answer or event.
//
// What runs is asked of [Runner], which owns a mission from its assignment to its
// end: this package changes no mission that an agent works on. What is kept in
// files is asked of [Papers], commits of [Refs], the code index of [Index].
//
// A dispatch is judged three times: by what its arguments say (before its key and
// the hold are looked at), by the records before it is accepted ([Family.Admit]),
// and by the records again when its job runs. The job writes the voyage, then its
// missions, and last the mark that the voyage is whole; without that mark nothing
// of it is assigned, and a start cancels it.
//
// It starts no goroutine and has no clock. A family is safe for concurrent use:
// every change names the revisions that it read, and one that met another is
// tried again.
package dispatch
