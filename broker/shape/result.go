package shape

import (
	"encoding/json"

	"berth/broker"

	"github.com/go-json-experiment/json/jsontext"
)

// ToolResult is a tool result with text, a JSON document, as its one text block.
func ToolResult(text json.RawMessage, isError bool) json.RawMessage {
	return result(string(text), nil, isError)
}

// Structured is a tool result with document as its text block and as its
// structured content; the document is a JSON object.
func Structured(document json.RawMessage, isError bool) json.RawMessage {
	return result(string(document), document, isError)
}

// Handle is the answer that stands for a job: its record as text and as
// structured content. A hint that is not empty is the record's last member,
// because some clients show their model the structured content and nothing else.
// replayed marks the answer to a repeated idempotency key.
//
// asError is for a caller that must not take the handle for the outcome: one
// that was shown an output schema, which a handle cannot satisfy. Strict
// clients (the TypeScript SDK is one) throw away a result without structured
// content unless it is an error, and check structured content against the
// schema even then, so such a handle is an error in text only.
func Handle(job broker.Job, replayed bool, asError bool, hint string) json.RawMessage {
	record := job.Handle(replayed)
	if hint != "" {
		withHint, err := jsontext.AppendQuote(append(record[:len(record)-1:len(record)-1], `,"Hint":`...), hint)
		if err == nil {
			record = append(withHint, '}')
		}
	}
	if asError {
		return result(string(record), nil, true)
	}
	return result(string(record), record, false)
}

func result(text string, structured json.RawMessage, isError bool) json.RawMessage {
	out := []byte(`{"content":[{"type":"text","text":`)
	// Broken UTF-8 becomes U+FFFD; the error only says that it did.
	out, _ = jsontext.AppendQuote(out, text)
	out = append(out, `}]`...)
	if structured != nil {
		out = append(out, `,"structuredContent":`...)
		out = append(out, structured...)
	}
	if isError {
		out = append(out, `,"isError":true`...)
	}
	return append(out, '}')
}
