// Package jsonrpc reads and writes JSON-RPC 2.0 messages without changing what
// it does not need to understand.
//
// [Decode] goes over the bytes once, checks the envelope and gives ids,
// params, results and unknown members as slices of the input; so ids 1 and "1"
// stay distinct, and numbers, key order and escapes inside values stay as they
// came. [ReadEnvelope] is the same pass without the checks, for a reader that has
// to make the best of what it gets. [Object] is the idea for one JSON object whose
// members a caller wants to read, replace or delete, and [Skim] for a message that
// is too large to keep.
//
// It refuses what is no JSON (invalid UTF-8 included), batches, envelopes with
// a repeated member, and ids that cannot name a request: null, fractional, or
// longer than [MaxIDBytes]. It does not know MCP.
//
// Functions and values are safe for concurrent use as long as nobody changes
// the bytes they were made from; an [Object] has one owner.
package jsonrpc
