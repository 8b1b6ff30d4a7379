// Package actors does things: one actor for each backend, session and
// unfinished job, and one supervisor over them, on protoactor-go.
//
// It owns every goroutine between a transport and a backend. A transport calls
// [System.Do] and gets exactly one [Reply]; what an actor holds when it stops
// or panics is answered, never dropped. It refuses with `overloaded` where a
// mailbox, a queue, the sessions or the bytes in flight are full.
//
// Concurrency rules: state has one owner, the actor whose file it stands in.
// Messages are small structs with their own reply channel and an idempotent
// Reject. No actor blocks on I/O: work runs in goroutines that report back by
// message, and each report carries the life it belongs to, so that a report of
// an earlier life is dropped and counted. Methods of System are safe for
// concurrent use.
//
// DESIGN.md beside this file says why.
package actors
