//go:build unix

// Package statedir owns the state directory: how the broker and the clients of
// one user on one host find and trust each other.
//
// # What it owns
//
//	berth.lock    held (flock) by the one broker that uses the directory
//	berth.port    where that broker listens, and which process it is
//	api-token     64 letters and digits; who can read it may use the broker
//	session.key   32 bytes that sign session ids
//	api-key       the broker's API key, where an operator made one
//
// Every file is 0600 from its first byte and is replaced by renaming, so that a
// reader sees the old or the new content and nothing else. Other packages keep
// files of their own here; see [Dir.Path].
//
// # What it refuses
//
// A directory of another user, or one that group or others can write to; a
// secret that group or others can read; a second broker; a damaged secret (it is
// never replaced in silence). A token never appears in an error or a log, and a
// [Credential] cannot print itself.
//
// # Concurrency
//
// A Dir and its Credential are safe for concurrent use. Secrets are minted by
// the process that holds the lock; clients only read. No goroutine is started.
// Windows is out of scope.
package statedir
