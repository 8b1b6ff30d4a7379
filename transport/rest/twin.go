package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/transport/httpguard"
)

// twin answers a route by calling a verb of the broker's own, as a client of
// the protocol would: the same policy, the same service, the same codes. Only
// the form of the answer is another one.
func (a *api) twin(r *http.Request, verb string, arguments map[string]any) (json.RawMessage, error) {
	caller, _ := httpguard.Caller(r.Context())
	request, refusal := a.planned(r.Context(), caller, CallRequest{Profile: catalog.Full, Name: verb, Arguments: raw(arguments)})
	if refusal != nil {
		return nil, refusal
	}
	reply := a.Calls.Do(r.Context(), request)
	switch {
	case reply.Refusal != nil:
		return nil, reply.Refusal
	case reply.Job != nil:
		return reply.Job.Handle(reply.Replayed), nil
	case reply.Cancelled:
		return nil, broker.Refuse(broker.CodeCancelled, "The call was cancelled.", nil)
	case reply.Answer == nil || reply.Answer.Result == nil:
		return nil, fmt.Errorf("%s answered without a result", verb)
	}
	var result struct {
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(reply.Answer.Result, &result); err != nil {
		return nil, fmt.Errorf("read the result of %s: %w", verb, err)
	}
	if result.IsError {
		return nil, nativeRefusal(result.StructuredContent)
	}
	return result.StructuredContent, nil
}

// nativeRefusal reads a refusal in the form of the broker's own verbs. What it
// says beside its code and sentence keeps its bytes.
func nativeRefusal(body json.RawMessage) error {
	var members map[string]json.RawMessage
	var named struct {
		Error             string
		Code              broker.Code
		Retryable         bool
		RetryAfterSeconds int64
	}
	if err := errors.Join(json.Unmarshal(body, &members), json.Unmarshal(body, &named)); err != nil {
		return fmt.Errorf("read a refusal: %w", err)
	}
	if named.Code == "read_only" {
		named.Code = broker.CodeReadOnly
	}
	refusal := &broker.Refusal{Code: named.Code, Message: named.Error, Retryable: named.Retryable,
		RetryAfter: time.Duration(named.RetryAfterSeconds) * time.Second, Detail: map[string]any{}}
	for name, value := range members {
		refusal.Detail[name] = value
	}
	return refusal
}

// given leaves out what a body did not say, so that the verb's own defaults and
// checks count.
func given(fields map[string]*string) map[string]any {
	out := map[string]any{}
	for name, value := range fields {
		if value != nil {
			out[name] = *value
		}
	}
	return out
}
