// Package meta is the native family catalog, and health: the verbs by which a
// harness finds, understands and calls what its list does not show
// (contracts/catalog.md sections 3, 7, 8 and 10).
//
// It owns their entries, what find, describe, help, more, session_handshake and
// health answer, and the record of what was served to whom. It does not pass
// calls on: call_read and call_write are taken apart by policy, which judges the
// verb that they name, and never reach this package.
//
// Everything that it tells is told from the catalog as its caller sees it, which
// comes with the call: what that caller may not see does not exist here. No claim
// of a caller is repeated as a fact, an error text is neither kept nor logged, and
// without evidence nothing is called ok.
//
// The family is safe for concurrent use. Its [Ledger] has a lock, which is held
// for map work only.
package meta
