// Package hold is the operator's stop on new work: the verb dispatch_hold, and
// the question that whoever starts work asks first.
//
// It owns one record of the journal (kind `hold`), which is changed by compare
// and set together with its event, so that a stop is durable before its answer
// and survives every end of the process; only `clear` ends it. What is stopped
// is not decided here: a native verb says of itself that it is held, and the
// configuration names verbs of backends.
//
// It refuses an action that there is none of, and an engage without a reason or
// without a name. Each engage and each clear that ended a hold is told on the
// board; a board that fails undoes nothing.
//
// A Hold is safe for concurrent use. [Hold.Refuse] reads what was last durable
// and never blocks.
package hold
