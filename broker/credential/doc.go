// Package credential is who may use the broker: the records of credentials,
// which of them is good at this moment, the tokens of sessions, and how often
// somebody may try.
//
// It owns the one table that a request is looked up in ([Desk]): an immutable
// snapshot that is swapped when a credential is made or revoked, after the
// record is durable. A lookup reads nothing else and waits for nobody. What a
// credential authenticated has a life that ends with it ([broker.Caller]), so
// that a revoked one is refused at the next request and what it began can be
// ended.
//
// Of a token only its SHA-256 is kept: a token is 64 letters and digits drawn at
// random, so that nothing slower is needed. The token itself is given out once,
// to who made it, and stands in no record, event or log.
//
// What an agent authenticates with for the time of its mission ([Launches]) is in
// memory only and stands for the rights of the mission's owner.
//
// It refuses a record that names nobody, an unknown profile or backend, or a
// share without sense; and it starts no goroutine: time and randomness are
// arguments. A Desk, [Launches], [Sessions] and [Attempts] are
// safe for concurrent use.
package credential
