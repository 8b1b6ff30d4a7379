// Package help answers the meta-verb `help` (contracts/catalog.md section 7):
// what there is, one verb with a call that fits, which verb serves an intent,
// and what to do after an error.
//
// It owns the four modes, the order of what is recommended, the advice for
// errors and the sentences of all that. It knows nothing but what its [View] and
// its index show, which are made for one principal: so it cannot name a verb
// that the caller does not see. It never repeats an intent or an error text, and
// keeps neither. Nothing found is said as such.
//
// A name in backquotes inside a sentence of this package is the name of a verb;
// a sentence with a name that does not resolve is left out. [Sentences] lists
// them all for the check of the catalog (section 12, P4).
//
// The functions keep no state and are safe for concurrent use.
package help
