// Package mcpserver is the side of Berth that MCP clients talk to: streamable
// HTTP at /mcp and /mcp/{profile}, and [Bridge], which carries the same
// messages over stdin and stdout to a running broker.
//
// It owns the wire: the envelope, session tokens, one answer per request as
// JSON or as a stream, keep-alive, progress and deadlines. Who may ask at all
// is decided before anything else by the guard that every front of Berth
// shares (transport/httpguard), which also limits bodies. What a call may do
// is decided in broker/policy, what happens to it in actors; this package
// turns their replies into bytes and invents none.
//
// It refuses paths, methods and protocol versions that it does not serve, and
// more streams than the limit. It serves both eras of the protocol, that of the
// handshake (2024-11-05 to 2025-11-25) and the stateless one (2026-07-28); an era
// is a table of methods and what every request of it must carry (era.go). A
// result of a backend of the other era gets what its era asks of results
// (stateless_result.go), and its questions become rounds (mrtr.go).
//
// An exact profile is its backend: a request that the front has no hand in is
// handed on as it came (relay.go), and what the backend asks in the course of it
// is asked of the client on the request's stream (questions.go). The merged
// profile puts prompts and resources of all backends together and remembers
// which of them listed what (directory.go). What is no part of an answer comes
// on a stream of the session (notices.go); of several, on the newest.
//
// A surface (catalog.Surface) has the answers to its calls its own way: refusals
// are results in its form, none is the handle of a job (surface.go). A session
// may say in headers that it only reads, and, over loopback, which instance of a
// local app it brings (binding.go).
//
// Concurrency: a [Server] is safe for concurrent use. Nothing that a session
// needs is kept here, for its id says it; what is remembered besides (the list a
// session saw last, which sessions were ended) is bounded and may be forgotten.
// Every request has its handler goroutine, which alone writes the
// response. A call whose harness is asked in rounds has a goroutine of its own
// between its requests, for a limited time.
// A [Bridge] has one reader and a bounded number of goroutines, one for each
// message on its way and one that listens; all have ended when Run returns, save a read of an input
// that cannot be closed.
package mcpserver
