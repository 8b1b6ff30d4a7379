// Package journal keeps jobs, their results, events and the backends' last
// catalogs in one bbolt file.
//
// It owns the file, its lock and the directory of large results beside it. A
// write returns only after its commit was synced to disk. It refuses: a file
// with another schema version, a file that another process holds, a record that
// could not be found again (bad id, no time), a step that is not in the
// transition table of jobs, and, as [broker.ErrJournalBusy], a creation when too
// many wait. An outcome is never refused because others wait.
//
// Concurrency: every method is safe for concurrent use. One goroutine, started
// by [Open] and ended by [Journal.Close], makes every change: it takes what
// waits, commits once and answers all. Readers use read transactions of a
// bounded number of records and copy bytes out, so that no reader holds pages
// or blocks the growth of the file. DESIGN.md beside this file has the key
// layout, the invariants and what a crash at each point leaves.
package journal
