// Package policy holds the ordered checks before a call runs (DESIGN section 4
// step 2).
//
// It owns the order of the steps, as one table, and what a call is judged by:
// its verb, effects, idempotency key and expectations. Each step passes or
// refuses; none has a side effect. It refuses unknown verbs, what does more than
// read where only that is allowed, arguments that do not fit, and keys of `_meta`
// addressed to the broker that are malformed. In an exact profile a backend's
// arguments are not checked: it is transparent. A surface checks its own.
//
// It is pure: everything is in Input, whose snapshot is immutable. Check is
// safe for concurrent use.
package policy
