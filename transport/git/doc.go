//go:build unix

// Package git works on repositories through the git program: bare clones,
// worktrees on branches, what was committed in them, and merges.
//
// It owns how git is run: by argument vector and never through a shell, under a
// guard so that nothing of it outlives the broker, with a limit on time and on
// output, without a prompt, a pager, an editor, a hook of the repository or a
// helper program that a repository's address could name. It owns the settings of
// the repositories below [Options].Own, and brings them back. It owns one lock a
// repository; what changes a repository holds it, and a caller that waits for
// it waits no longer than its context.
//
// It refuses names that git would read as options or expressions ([CheckRef])
// and says what a failure was about ([Error]) without credentials.
//
// A [Git] and a [Repo] are safe for concurrent use and start no goroutine.
package git
