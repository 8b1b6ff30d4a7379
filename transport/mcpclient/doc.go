// Package mcpclient is the backend side of MCP: it reaches one server, as a
// stdio child or over streamable HTTP, and gives each life of it as a
// broker.Conn.
//
// It owns the hop to the backend: the handshake, the walk over tools/list, the
// ids and progress tokens of this hop, cancellation, and the knowledge of
// whether a call was handed over. Arguments, results and the data of errors
// pass as raw bytes.
//
// It refuses to declare any client capability: a backend that asks for
// sampling, roots or elicitation gets an error at once, a ping its answer. It
// never sends a call twice unless nothing of it had been handed over, follows
// no redirect and logs nothing; what an operator should see is counted
// (Noise) or flagged on the incarnation.
//
// Concurrency: Stdio, HTTP and the connections that they open are safe for
// concurrent use. A stdio life has three goroutines (reader, writer, keeper)
// that end with it; the keeper alone ends a life. An HTTP life has none of its
// own: a call runs in its caller's goroutine, and short helpers (a reply, a
// cancel, the rest of a stream) are bounded in number and time. Progress
// functions are called by the goroutine that called Call.
package mcpclient
