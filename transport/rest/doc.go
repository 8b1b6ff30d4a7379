// Package rest is the operator API of a running broker: /api/v1, /metrics and
// /healthz, and the client that `berth`'s subcommands use.
//
// It owns the routes (one table, [Routes], from which registration, tests and
// the OpenAPI document derive), the shapes of their answers and the mapping of
// refusals to HTTP statuses (contracts/native.md section 21). It decides
// nothing: a call goes through policy and the broker exactly as it does over MCP, and everything
// shown is what the broker reports; what is not known is null, never zero.
// It refuses every request without a valid token, /healthz aside, and shows
// names of environment variables and headers, never their values.
//
// The handler is safe for concurrent use. Each request runs in its own
// goroutine; a call that waits has one more, which ends before the handler
// returns. A wait is bounded by waitSeconds or by the caller's connection. A
// stream of events runs in its request's goroutine until its reader leaves, is
// too slow, or Options.Done is closed; nothing is queued for it but live events.
// So does a mission's log that is followed, until the mission has ended: it is
// looked at by short calls, and holds nothing of a backend between two.
package rest
