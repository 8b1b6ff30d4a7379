// Package condition holds pointers into a call and conditions over what they
// find (contracts/catalog.md sections 4 and 6): the data of which rules for
// effects and for proofs are made.
//
// It owns the syntax of a pointer (`args:` or `result:` and RFC 6901, `*` for
// each item of an array), the operators, and what of a schema a pointer can
// name. It refuses a pointer or a condition that can never hold.
//
// A doubt never satisfies: a member that an object has twice, a value of
// another JSON type and a document that cannot be read satisfy no operator, not
// even absent, so that whoever asks falls back to its strictest rule.
//
// Every function is pure and safe for concurrent use.
package condition
