// Package catalog holds the verbs of all backends and what each endpoint lists
// of them (contracts/catalog.md sections 1, 2 and 4).
//
// It owns names, aliases, effects, quarantine, the merged and the exact
// profiles and the bytes of their lists. Dispatch is a lookup in it; there is
// no second list of verb names. It refuses a name that it does not know (it
// suggests and never guesses), arguments that do not fit a schema, and a
// cursor that it did not give.
//
// Decided: outputSchema is not listed in a merged profile. A call there may be
// answered by a job handle, and a strict client rejects a result that does not
// meet the schema. An exact profile lists a backend's own entry, white space aside.
//
// Decided: an upstream verb whose input schema does not compile (an unknown
// dialect, a reference to another document) is served and not checked, and
// [Snapshot.Notes] says so: a backend that works today must not lose a verb
// because of a schema that we cannot read.
//
// A Snapshot and all that hangs on it is immutable and safe for concurrent
// use; lists and compiled schemas are made at first use, once. Rebuilding
// gives a new Snapshot.
package catalog
