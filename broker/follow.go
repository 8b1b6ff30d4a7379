package broker

import (
	"encoding/json"
	"time"
)

// Follow says how the work is followed that a verb of a local app starts beside
// its answer. Its functions are pure; a document is the JSON in the first text
// block of a tool result.
type Follow struct {
	// Started reads the verb's own answer; false: it started nothing that can
	// be followed.
	Started func(document json.RawMessage) (Work, bool)
	// Verb is the app's verb that tells how the work stands, with Arguments. It
	// is asked of the incarnation that the work began on.
	Verb      string
	Arguments func(handle string) json.RawMessage
	// Read reads its answer, also one that says no.
	Read func(handle, runtimeID string, document json.RawMessage, isError bool) Seen
	// FindVerb and Find look for work that was queued, by its ticket.
	FindVerb string
	Find     func(ticket, document json.RawMessage, isError bool) Seen

	// Pace is how often it is asked.
	Pace Pace
	// Most is for how long it is followed in all; zero: without an end.
	Most time.Duration
}

// Pace is a pause that grows from First to Most by Factor, with Jitter as a part
// of it.
type Pace struct {
	First, Most    time.Duration
	Factor, Jitter float64
}

// Work is what an answer says has begun, or was queued.
type Work struct {
	Handle string          // empty while it is queued
	Ticket json.RawMessage // the arguments that find queued work
}

// Seen is what an answer says about followed work.
type Seen struct {
	// Good is false when it says nothing about the work, which is then asked
	// for again.
	Good   bool
	Handle string    // of queued work that has begun
	End    JobStatus // empty while the work goes on
	// Reason and Message belong to an end that is no success, Result, a JSON
	// document, to one that is.
	Reason  Code
	Message string
	Result  json.RawMessage
}

// ToolText is the first text block of a tool result when it is JSON, else nil;
// isError is that of the result.
func ToolText(result json.RawMessage) (document json.RawMessage, isError bool) {
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	if json.Unmarshal(result, &r) != nil {
		return nil, false
	}
	for _, c := range r.Content {
		if c.Type == "text" && json.Valid([]byte(c.Text)) {
			return json.RawMessage(c.Text), r.IsError
		}
	}
	return nil, r.IsError
}
