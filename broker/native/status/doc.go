// Package status tells how the broker stands: the family of verbs `status`,
// `enumerate` and `inbox`, and the one service behind them and behind the
// operator API.
//
// It owns which types of entities can be listed ([Entity], a table that other
// families add to) and what waits for an operator. It refuses a type that this
// broker keeps no records of, and the word of a status that does not exist,
// instead of answering with an empty page. What nobody measures is null. It
// keeps no state and is safe for concurrent use.
package status
