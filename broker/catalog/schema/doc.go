// Package schema checks the arguments of a call against a verb's input schema,
// and applies the argument rules of the broker's own verbs
// (contracts/native.md section 1.7).
//
// It owns the compiled form of one schema. It works offline: a reference to
// another document is refused, never loaded. It never reports a value of an
// argument, only where it stands, which rule it broke and what was wanted.
//
// A Schema is immutable and safe for concurrent use.
package schema
