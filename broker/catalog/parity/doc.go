// Package parity is the self-check of the catalog (contracts/catalog.md section
// 12): whatever is listed can be called, whatever can be called can be found,
// every name that stands anywhere resolves, and lists keep their promises.
//
// It owns the checks P1 to P10; P11, the golden file of the broker's own verbs,
// is a test. [Check] is a pure function of a snapshot and what it was built from. It
// runs before each swap, at a start and in `berth check-config`. It refuses
// nothing by itself: who runs it decides what a fault ends.
package parity
