// Package catalog holds the verbs of all backends and what each endpoint lists
// of them (contracts/catalog.md sections 1, 2, 4 and 11).
//
// It owns names, aliases, effects, quarantine, profiles and tiers, who sees what,
// the instructions and the bytes of the lists. Dispatch is a lookup in it; there
// is no second list of verb names. It refuses a name that it does not know (it
// suggests and never guesses), arguments that do not fit a schema, and a
// cursor that it did not give.
//
// Decided: outputSchema is not listed in a profile of several backends, unless
// the verb's answers are never cut. A call there may be answered by a job handle,
// and a strict client rejects a result that does not meet the schema; the handle
// is an error result then. An exact profile lists a backend's own entry, white
// space aside.
//
// Decided: part of a list budget is kept for the canary codes (canaryReserve),
// so that what is rendered holds it. A profile whose required set comes not to
// fit because of what a backend lists later leaves that verb out and says so;
// the same at a start refuses the configuration.
//
// Decided: a verb that a pinned backend adds is accepted, one that changes is
// not, and one that goes away stays known, so that it cannot come back as another.
//
// Decided: a verb of a backend is quarantined for a schema that is no object's,
// does not compile or refers to another document: it is in no list of several
// backends and not callable there, where one such entry makes strict clients
// refuse the whole list. Its backend's own profile, which is exact and cuts
// nothing, has it as the backend lists it, and its arguments are not checked. A
// dialect that is not known here says nothing about the schema: such a verb is
// served unchecked everywhere, and [Snapshot.Notes] says so.
//
// A Snapshot and all that hangs on it is immutable and safe for concurrent
// use; lists are made at first use, once. Rebuilding gives a new Snapshot;
// Settings.Costs and Settings.Schemas keep what it costs.
package catalog
