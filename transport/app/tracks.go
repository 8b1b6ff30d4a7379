package app

import (
	"encoding/json"

	"berth/broker"
)

// Started is work that a tool's answer says has begun in the app.
type Started struct {
	Handle string // of the work; empty while it is queued
	// Ticket finds the work once it has begun, for a queued one; empty: it
	// cannot be told apart, and is not tracked.
	Ticket json.RawMessage
}

// Poll is what an answer about tracked work says.
type Poll struct {
	// Good is false when the answer says nothing about the work: it is asked
	// for again.
	Good   bool
	Handle string // of queued work that has begun
	// End is the final status, empty while the work goes on.
	End     broker.JobStatus
	Reason  string          // a stable code, for an end that is no success
	Message string          // one sentence, for the same
	Result  json.RawMessage // a JSON document, for a success
}

// Tracks declares how the work that a tool starts is followed. All functions
// are pure; documents are the JSON in a tool result's text block.
type Tracks struct {
	// Started reads the answer that started the work; false: there is none to
	// follow.
	Started func(document json.RawMessage) (Started, bool)
	// Verb is the tool that tells how the work stands, called with Arguments
	// and the runtime id of the answer that started it as the expectation.
	Verb      string
	Arguments func(handle string) json.RawMessage
	// Read reads its answer, an error too.
	Read func(handle, runtimeID string, document json.RawMessage, isError bool) Poll
	// FindVerb is the tool that looks for queued work, called with the Ticket;
	// Find reads its answer: a Handle once the work has begun.
	FindVerb string
	Find     func(ticket, document json.RawMessage, isError bool) Poll
}
