// Package shape makes what leaves the broker: tool results, job handles, the
// facts in `_meta["berth/call"]`, and text without credentials.
//
// It keeps JSON as it came: what it does not have to change it copies byte for
// byte, so that numbers over 2^53, key order, unknown fields and escapes
// survive. It refuses what it cannot read and never guesses.
//
// Every function is pure and safe for concurrent use; no argument is modified.
package shape
