// Package mcpclient is the backend side of MCP: it reaches one server, as a
// stdio child or over streamable HTTP, and gives each life of it as a
// broker.Conn.
//
// It owns the hop to the backend: which era it is of and what that era wants,
// the handshake or server/discover, the walk over tools/list, the ids and
// progress tokens of this hop, cancellation, and the knowledge of whether a
// call was handed over. Arguments, results and the data of errors pass as raw
// bytes.
//
// All harnesses share a connection. An upstream that is spoken to over HTTP has
// sessions beside it for those of another era, which declare what they do.
//
// What a backend sends besides answers goes to whom it is for. On an HTTP
// request's own stream that is the call's caller; a request of the backend that
// names no call (stdio, the standalone stream) goes to the only session that
// has calls in flight, and is refused at once, with the reason, when there is
// none or more than one. What belongs to no call is heard by the broker.
//
// It never sends a call twice unless nothing of it had been handed over,
// follows no redirect and logs nothing; what an operator should see is counted
// (Noise) or flagged on the incarnation.
//
// Concurrency: Stdio, HTTP and the connections that they open are safe for
// concurrent use. A stdio life has three goroutines (reader, writer, keeper)
// that end with it; the keeper alone ends a life. A life has at most one
// more that keeps a stream of notifications open; a call runs in its caller's
// goroutine, and short helpers (a reply, a cancel, the rest of a stream) are
// bounded in number and time. An open question of a backend has a goroutine,
// bounded in number, that ends with its call. Sessions are begun, and lost ones
// closed, by goroutines that end with the life. Progress and notifications of a
// call are handed on one at a time, in order, and never after Call has returned.
package mcpclient
