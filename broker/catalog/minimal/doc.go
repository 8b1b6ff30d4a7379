// Package minimal builds the smallest call that a verb's input schema takes
// (contracts/catalog.md section 7), to be shown to somebody whose own call did
// not fit.
//
// It owns how a value is found: required properties only; a value is what the
// schema itself names (const, enum, examples, default), else the smallest that
// type, format and limits allow; a free string is <property>. Everything it
// returns was checked by the validator that checks calls. What it cannot build,
// it refuses with a reason; it never guesses. It sees schemas only, so nothing
// that a caller sent can come back from it.
//
// Depth, steps and size are bounded ([MaxDepth], [MaxSteps], [MaxBytes]), whatever
// the schema asks for. Its functions keep no state and are safe for concurrent use.
package minimal
