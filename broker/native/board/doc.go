// Package board is the coordination room of the broker's callers: notes, who is
// there, claims, signals and the wakes among them, and the one process target
// that a wake may start (contracts/native.md sections 1.9 and 7).
//
// It owns what is stored of them and who sees it: a caller sees its own tenant's,
// a global administrator every tenant's, and what the broker itself posts
// everybody. It refuses keys of a wrong shape, acknowledgements of what was not
// addressed to the caller, and server paths from anybody but a global
// administrator. It starts nothing: [Board.NextRun] says what would be started,
// and whoever runs it tells [Board.RunStarted] and [Board.RunEnded].
//
// A note to everybody is a record of the kind note. A note to one participant is
// one record of the kind signal that holds the note and its wake, so that there
// is no moment in which one exists without the other; its two ids differ in
// their prefix only. A wake stands in the list of the unread ones of its
// participant until it is read, and in none of anybody else's.
//
// What is said to who works on missions is a signal too, addressed to a captain, a
// voyage or a mission ([Board.SendSignal], [Board.NudgeVoyage]). It joins the
// brief of one mission ([Board.Join]) and is read from then on.
//
// All of it expires: notes and signals after 90 days, presence after 60 minutes,
// claims when they say. What has expired and is not removed yet is not shown.
//
// A Board is safe for concurrent use. It has no clock and starts no goroutine; it
// holds no lock while it reads or writes the store.
package board
