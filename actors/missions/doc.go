// Package missions carries out what was dispatched: one actor assigns pending
// missions to captains, and one actor for each mission that something is done
// with sees it to its end.
//
// It owns every step of a mission from Assigned on, every captain's and dock's
// state while a mission has it, and the ends of voyages. It writes a step
// before anybody sees it, and with it, in one transaction, everything that
// follows from it in other records. It refuses a step that its transition table
// (berth/broker/dispatch) does not have.
//
// Concurrency rules: records change by compare-and-set, so a verb that changes
// one beside this package loses or wins whole, and both read again. The process
// of a mission, its dock and its token have one owner, the mission's actor.
// Methods of [System] are safe for concurrent use.
//
// DESIGN.md beside this file says why.
package missions
