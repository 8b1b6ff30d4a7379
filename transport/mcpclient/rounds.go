package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"berth/broker"
	"berth/transport/jsonrpc"
)

// Limits of a call that a backend takes several rounds for.
const (
	maxRounds = 10
	maxInputs = 32 // that one round asks for
	maxSheds  = 3  // rounds that ask for nothing but patience
	shedDelay = 500 * time.Millisecond
)

// input is what a backend asks for in a result (multi round-trip requests).
type input struct {
	key    string
	method string
	params json.RawMessage
}

// rounds sends the call, answers what the backend asks for in its result by
// asking the harness, and sends it again with the answers, until there is a
// result.
func (s *stateless) rounds(ctx context.Context, call *broker.Call, who *caller, first json.RawMessage) (broker.Answer, error) {
	params, sheds := first, 0
	for round := 1; ; round++ {
		a, err := s.once(ctx, call, who, params)
		if err != nil {
			if f, ok := err.(*broker.Failure); ok && round > 1 {
				// Earlier rounds were handed over, whatever became of this one.
				f.Dispatched = true
			}
			return a, err
		}
		if a.Error != nil || !needsInput(a.Result) {
			return a, nil
		}
		inputs, state, err := readInputs(a.Result)
		switch {
		case err != nil:
			return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: s.opts.foreign(err.Error())}
		case round == maxRounds:
			return unmet(a, fmt.Sprintf("The backend asked for more input after %d rounds; the call was given up.", maxRounds)), nil
		case len(inputs) == 0:
			if sheds++; sheds > maxSheds {
				return unmet(a, "The backend is too busy: it put the call off again and again."), nil
			}
			if !sleep(ctx, shedDelay<<sheds) {
				return broker.Answer{}, betweenRounds()
			}
		}
		responses, refused := gather(ctx, who, inputs)
		if ctx.Err() != nil {
			return broker.Answer{}, betweenRounds()
		}
		if refused != "" {
			return unmet(a, refused), nil
		}
		if params, err = answered(first, responses, state); err != nil {
			return broker.Answer{}, badParams()
		}
	}
}

// unmet is the answer to a call whose backend could not be told what it asked
// for.
func unmet(a broker.Answer, why string) broker.Answer {
	return broker.Answer{Error: broker.NoPeer(why), RuntimeID: a.RuntimeID}
}

func betweenRounds() *broker.Failure {
	return &broker.Failure{Dispatched: true, Cause: "the call ended while the backend waited for input from the harness"}
}

// readInputs takes apart what a result asks for. state is nil when there is
// none.
func readInputs(result json.RawMessage) (inputs []input, state json.RawMessage, err error) {
	if raw, ok := get(result, "requestState"); ok && string(raw) != "null" {
		state = raw
	}
	raw, ok := get(result, "inputRequests")
	if !ok || string(raw) == "null" {
		return nil, state, nil
	}
	requests, err := jsonrpc.ParseObject(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("the backend asks for input that is not understood: %w", err)
	}
	if requests.Len() > maxInputs {
		return nil, nil, fmt.Errorf("the backend asks for %d inputs at once", requests.Len())
	}
	for _, m := range requests.Members() {
		method, _ := text(m.Value, "method")
		if !askable(method) {
			return nil, nil, fmt.Errorf("the backend asks for %q, which no harness can be asked", brief(method))
		}
		params, _ := get(m.Value, "params")
		inputs = append(inputs, input{key: m.Name, method: method, params: params})
	}
	return inputs, state, nil
}

// gather asks the harness for all inputs at once. The first refusal ends the
// others, as the call cannot go on without any of them.
func gather(ctx context.Context, who *caller, inputs []input) (responses json.RawMessage, refused string) {
	if len(inputs) == 0 {
		return nil, ""
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make([]json.RawMessage, len(inputs))
	var mu sync.Mutex
	var asking sync.WaitGroup
	for i, in := range inputs {
		asking.Go(func() {
			result, failed := who.ask(ctx, in.method, in.params)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failed == nil:
				answers[i] = result
			case refused == "":
				refused = fmt.Sprintf("The backend needs an answer to %s before the call can go on, and the harness gave none: error %d, %s", in.method, failed.Code, brief(failed.Message))
				cancel()
			}
		})
	}
	asking.Wait()
	if refused != "" {
		return nil, refused
	}
	responses = append(responses, '{')
	for i, in := range inputs {
		if i > 0 {
			responses = append(responses, ',')
		}
		responses = append(jsonrpc.AppendQuote(responses, in.key), ':')
		responses = append(responses, answers[i]...)
	}
	return append(responses, '}'), ""
}

// answered gives the params of the next round.
func answered(params, responses, state json.RawMessage) (json.RawMessage, error) {
	o, err := jsonrpc.ParseObject(params)
	if err != nil {
		return nil, err
	}
	if responses != nil {
		o.Set("inputResponses", responses)
	}
	if state != nil {
		o.Set("requestState", state)
	}
	return o.Bytes(), nil
}
