//go:build unix

// Package brokerproc runs a real broker as a process of its own, for the demo
// and for tests that kill it: it builds the binaries, starts `berth serve`,
// waits until it listens, stops or kills it, and tells when nobody of its
// family is left.
//
// It owns the processes that it started and nothing else; who starts one ends
// it. Every wait has a limit and fails with what the process said. All methods
// are safe for concurrent use; one goroutine belongs to a process and ends with
// it.
package brokerproc
