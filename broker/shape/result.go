package shape

import (
	"encoding/json"

	"berth/broker"

	"github.com/go-json-experiment/json/jsontext"
)

// ToolResult is a tool result with text, a JSON document, as its one text block.
func ToolResult(text json.RawMessage, isError bool) json.RawMessage {
	return result([]string{string(text)}, nil, isError)
}

// Structured is a tool result with document as its text block and as its
// structured content; the document is a JSON object.
func Structured(document json.RawMessage, isError bool) json.RawMessage {
	return result([]string{string(document)}, document, isError)
}

// Handle is the answer that stands for a job: its record as text and as
// structured content, and, when hint is not empty, a second text block with it.
// replayed marks the answer to a repeated idempotency key.
//
// asError is for a caller that must not take the handle for the outcome: one
// that was shown an output schema, which a handle cannot satisfy. Strict
// clients (the TypeScript SDK is one) throw away a result without structured
// content unless it is an error, and check structured content against the
// schema even then, so such a handle is an error in text only.
func Handle(job broker.Job, replayed bool, asError bool, hint string) json.RawMessage {
	record := job.Handle(replayed)
	texts := []string{string(record)}
	if hint != "" {
		texts = append(texts, hint)
	}
	if asError {
		return result(texts, nil, true)
	}
	return result(texts, record, false)
}

func result(texts []string, structured json.RawMessage, isError bool) json.RawMessage {
	out := []byte(`{"content":[`)
	for i, t := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"type":"text","text":`...)
		// Broken UTF-8 becomes U+FFFD; the error only says that it did.
		out, _ = jsontext.AppendQuote(out, t)
		out = append(out, '}')
	}
	out = append(out, ']')
	if structured != nil {
		out = append(out, `,"structuredContent":`...)
		out = append(out, structured...)
	}
	if isError {
		out = append(out, `,"isError":true`...)
	}
	return append(out, '}')
}
