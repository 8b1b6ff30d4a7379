// Package broker holds what is true in Berth, without I/O: calls, answers,
// refusals, the job life cycle, principals, effects and ids.
//
// It starts no goroutine and touches no clock, file or socket; time and
// randomness are arguments. Everything here is a plain value: a function takes
// a state, an event and a time and gives a new state and its effects, and the
// caller (an actor) runs those effects after the journal has committed.
//
// Values are safe for concurrent use as long as nobody changes them. Raw JSON
// (json.RawMessage) is never modified after it was put into a value.
package broker
