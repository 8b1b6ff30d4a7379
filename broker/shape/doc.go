// Package shape makes what leaves the broker: tool results cut to their result
// budget, job handles, the facts in `_meta["berth/call"]`, and text without
// credentials.
//
// It keeps JSON as it came: what it does not have to change it copies byte for
// byte, so that numbers over 2^53, key order, unknown fields and escapes
// survive. What it cuts stays valid JSON, and the rest is kept whole. It refuses
// what it cannot read and never guesses.
//
// Every function is pure and safe for concurrent use; no argument is modified.
// Two types hold state, [Store] and [Costs]: each has one owner and a lock.
// Counting tokens takes megabytes a second, so shaping runs in the goroutine of
// the call, never in an actor.
package shape
