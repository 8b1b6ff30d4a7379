//go:build unix

// Package guard runs every child process of the broker under a guard process,
// so that no descendant of the child outlives the broker, not even when the
// broker gets SIGKILL.
//
// # Who is who
//
//	broker --lifeline--> guard (own session, subreaper) --> child (own group) --> ...
//	broker <---status--- guard
//
// The guard is Berth's own binary with the hidden subcommand
// "guard -- command args...", whose body is [Main]. It inherits the child's
// stdin, stdout and stderr (and lets go of them as soon as the child runs), fd 3
// is the read end of the lifeline and fd 4 the write end of the status pipe.
// Only the broker holds the lifeline's other end: its end of file means that the
// broker is gone, or wants the child gone, and the guard kills until it is
// childless. The same happens when the child ends by itself. The environment of
// the guard is exactly that of the child, so no secret is in an argument list.
// To what the broker gives it one variable is added, BERTH_CHILD ([MarkVariable]):
// an unguessable id of this start, which every descendant inherits and by which
// it is known wherever it went.
//
// # What it owns
//
// [Start] and [Process] are the broker's side: pipes, the guard, a bounded tail
// of stderr, the orderly stop. [Output] runs a command for what it prints. [Ledger] remembers guard and child in small files
// so that [Ledger.Sweep] of the next broker can end what a killed guard left.
//
// # What it refuses
//
// A command that cannot be started is an error of Start. A process is killed
// only on evidence that it descends from a child of ours; a pid alone is none.
// Errors name the command, never its arguments or environment.
//
// # Limits
//
// Linux: nothing outlives the broker. When the guard itself is killed, the
// parent-death signal ends the child; descendants are then found by BERTH_CHILD
// in their environment, by the guard's session, by parent id and by the child's
// pipes that they still hold: at once when the broker lives, else by the sweep of
// the next one. One that left the session, lost its parent, closed all three pipes
// and was started with a cleared environment (or hides its own) is not found.
// macOS has no subreaper and no parent-death signal: the child's process group
// is killed, and what is still visible by parent id; a descendant that did
// setsid and lost its parent survives, and so does the child of a killed guard
// until the next sweep. Other unixes: the process group only, and no ledger.
// A descendant that changed its user (a set-uid program) cannot be signalled;
// the guard stays until it ends.
//
// # Concurrency
//
// All methods are safe for concurrent use, except that Stdin has one writer and
// Stdout one reader. Two goroutines belong to a Process; both end when the guard
// and the child's stderr have ended. Windows is out of scope.
package guard
