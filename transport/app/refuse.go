package app

import (
	"encoding/json"
	"maps"

	"berth/broker"
)

// spoken is how a refusal of the broker is said on a surface.
type spoken struct {
	code   string
	reason string // detail.reason
	ran    bool   // the app had been asked, and was not heard to the end
}

// spokenCodes has the codes of the broker that mean something to a caller of an
// app. Every other is a conflict: the broker cannot take the call now, and says
// why in detail.berth.
var spokenCodes = map[broker.Code]spoken{
	broker.CodeVerbUnknown:         {code: InvalidArgument},
	broker.CodeProfileUnknown:      {code: InvalidArgument},
	broker.CodeInvalidArgument:     {code: InvalidArgument},
	broker.CodeInvalidArguments:    {code: InvalidArgument},
	broker.CodeIdempotencyKey:      {code: InvalidArgument},
	broker.CodeRequestTooLarge:     {code: InvalidArgument},
	broker.CodeRequestIncomplete:   {code: InvalidArgument},
	broker.CodeDuplicateRequestID:  {code: InvalidArgument},
	broker.CodeCallTimeout:         {code: BackendUnavailable, reason: "timeout", ran: true},
	broker.CodeIdleTimeout:         {code: BackendUnavailable, reason: "timeout", ran: true},
	broker.CodeStartTimeout:        {code: BackendUnavailable, reason: "timeout"},
	broker.CodeBackendUnavailable:  {code: BackendUnavailable, reason: "closed"},
	broker.CodeBackendRefused:      {code: BackendUnavailable, reason: "closed"},
	broker.CodeOutcomeUnknown:      {code: BackendUnavailable, reason: "closed", ran: true},
	broker.CodeAnswerTooLarge:      {code: UpstreamError, reason: "too_large"},
	broker.CodeInternal:            {code: InternalError, reason: "broker"},
	broker.CodeInstanceMismatch:    {code: InstanceMismatch},
	broker.CodeIdentityUnavailable: {code: IdentityUnavailable},
}

// Refuse writes a refusal of the broker in the shape of this surface: the JSON
// of a tool result with isError. tried are the addresses that were named, when
// they are known. It is pure.
func (s *Surface) Refuse(verb string, r *broker.Refusal, tried ...string) json.RawMessage {
	if r.Detail["read_only"] == true {
		return s.readOnly().JSON()
	}
	said, ok := spokenCodes[r.Code]
	if !ok {
		said = spoken{code: Conflict}
	}
	detail := map[string]any{}
	switch said.code {
	case InvalidArgument:
		// Where the call does not fit; suggestions are names of the catalog.
		for _, name := range []string{"errors", "suggestions"} {
			if v, ok := r.Detail[name]; ok {
				detail[name] = v
			}
		}
	case InstanceMismatch, IdentityUnavailable:
		for _, name := range []string{"expected_runtime_id", "actual_runtime_id"} {
			if v, ok := r.Detail[name]; ok {
				detail[name] = v
			}
		}
	default:
		detail["berth"] = ofBerth(r)
	}
	message := r.Message
	if r.Code == broker.CodeVerbUnknown {
		detail["name"] = cut(verb, maxField)
		message = "There is no tool " + cut(verb, maxField) + " here."
	}
	if said.reason != "" {
		detail["reason"] = said.reason
	}
	if said.code == BackendUnavailable {
		if len(tried) == 1 && said.ran {
			message = fill(s.Sentences.Stopped, "{base}", tried[0]) + " " + message
		}
		detail["tried"] = append([]string{}, tried...)
	}
	if r.Code == broker.CodeOutcomeUnknown || r.Detail["outcome_unknown"] == true {
		detail["outcome_unknown"] = true
	}
	return NewProblem(said.code, message, detail).JSON()
}

// readOnly is the refusal of a write on a read-only surface.
func (s *Surface) readOnly() *Problem {
	return Invalid(s.Sentences.ReadOnly, map[string]any{"read_only": true})
}

// ofBerth is the broker's own code and what it says beside it, for a program.
func ofBerth(r *broker.Refusal) map[string]any {
	out := maps.Clone(r.Detail)
	if out == nil {
		out = map[string]any{}
	}
	out["code"] = string(r.Code)
	if r.RetryAfter > 0 {
		out["retry_after_ms"] = r.RetryAfter.Milliseconds()
	}
	return out
}
