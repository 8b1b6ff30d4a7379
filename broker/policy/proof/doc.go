// Package proof holds a write back until its caller has seen what it changes
// (contracts/catalog.md section 6). It is off unless configuration turns it on.
//
// [Rules] are configuration, judged against a catalog: which verbs need a
// proof, which grant one, and what names the target. They are immutable and
// safe for concurrent use. [Marks] is what callers have seen of one backend. It
// is state and has one owner, the actor of the backend that all needs of a kind
// belong to: only that actor grants, reserves, gives back and spends. It has a
// lock, held for map work only, because policy looks at it from the goroutine
// of a request; what policy saw is looked at again when the call is admitted.
//
// Everything in doubt is unproven: an empty, missing or unresolvable target, a
// name that stands twice in the arguments, a mark that anything speaks against.
// An argument that names a caller binds nothing; the principal does.
package proof
