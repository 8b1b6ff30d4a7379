package actors

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"berth/broker"
)

// This file answers, for a job, what a backend of the stateless era asks for by
// ending its call with a result of the type input_required. A call hands that
// to its harness, which repeats the call; a job has no harness that waits.

// maxInputRounds bounds how often one job's call is repeated with input.
const maxInputRounds = 16

// inputResult is what is read of such a result.
type inputResult struct {
	Type     string `json:"resultType"`
	Requests map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	} `json:"inputRequests"`
	State json.RawMessage `json:"requestState"`
}

func readInput(result json.RawMessage) (inputResult, bool) {
	var in inputResult
	ok := json.Unmarshal(result, &in) == nil && in.Type == "input_required"
	return in, ok
}

func wantsInput(result json.RawMessage) bool {
	_, ok := readInput(result)
	return ok
}

// withInput repeats a call until its answer asks for nothing more.
func withInput(ctx context.Context, conn broker.Conn, call *broker.Call, peer broker.Peer, answer broker.Answer, err error) (broker.Answer, error) {
	for round := 0; err == nil; round++ {
		in, ok := readInput(answer.Result)
		if !ok {
			return answer, nil
		}
		problem := broker.NoPeer("The backend asks for input, and the caller of this job cannot be asked.")
		if round == maxInputRounds {
			problem = broker.NoPeer("The backend asks for input again and again.")
		}
		if peer.Request == nil || round == maxInputRounds {
			return broker.Answer{Error: problem, RuntimeID: answer.RuntimeID}, nil
		}
		if len(in.Requests) == 0 { // the backend sheds load: it asks for nothing but to come again
			select {
			case <-time.After(time.Duration(round+1) * time.Second):
			case <-ctx.Done():
			}
		}
		responses, problem := askAll(ctx, peer, in)
		if problem != nil {
			return broker.Answer{Error: problem, RuntimeID: answer.RuntimeID}, nil
		}
		again := *call
		if again.Params, err = withResponses(call.Params, responses, in.State); err != nil {
			return answer, &broker.Failure{Dispatched: true, Cause: "the call could not be repeated with the input that its backend asked for"}
		}
		answer, err = conn.Call(ctx, &again, peer)
	}
	return answer, err
}

// askAll puts all requests of one round at once; the first error ends it.
func askAll(ctx context.Context, peer broker.Peer, in inputResult) (map[string]json.RawMessage, *broker.RPCError) {
	if len(in.Requests) > maxAskedJob {
		return nil, broker.NoPeer("The backend asks for too much at once.")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var first *broker.RPCError
	responses := make(map[string]json.RawMessage, len(in.Requests))
	var all sync.WaitGroup
	for key, r := range in.Requests {
		all.Go(func() {
			result, problem := peer.Request(ctx, r.Method, r.Params)
			mu.Lock()
			defer mu.Unlock()
			if problem == nil {
				responses[key] = result
			} else if first == nil {
				first = problem
				cancel()
			}
		})
	}
	all.Wait()
	return responses, first
}

// withResponses gives the params of the repeated call.
func withResponses(params json.RawMessage, responses map[string]json.RawMessage, state json.RawMessage) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(params, &object); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(responses)
	if err != nil {
		return nil, err
	}
	object["inputResponses"] = raw
	delete(object, "requestState")
	if len(state) > 0 && string(state) != "null" {
		object["requestState"] = state
	}
	return json.Marshal(object)
}
