package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"berth/broker"
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
	key    string // a JSON string, as it came
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
			return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: err.Error()}
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
	if raw, _, ok, err := get(result, "requestState"); err == nil && ok && string(raw) != "null" {
		state = raw
	}
	requests, _, ok, err := get(result, "inputRequests")
	if err != nil || !ok || string(requests) == "null" {
		return nil, state, err
	}
	err = eachMember(requests, func(_ []byte, m member) error {
		var r struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(requests[m.valueStart:m.valueEnd], &r); err != nil {
			return err
		}
		if !askable(r.Method) {
			return fmt.Errorf("%q is nothing that a harness can be asked", brief(r.Method))
		}
		name, err := memberName(requests, m)
		if err != nil {
			return err
		}
		inputs = append(inputs, input{key: name, method: r.Method, params: r.Params})
		return nil
	})
	if err == nil && len(inputs) > maxInputs {
		err = fmt.Errorf("there are more than %d", maxInputs)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the backend asks for input that is not understood: %w", err)
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
		responses = append(append(responses, in.key...), ':')
		responses = append(responses, answers[i]...)
	}
	return append(responses, '}'), ""
}

// answered gives the params of the next round.
func answered(params, responses, state json.RawMessage) (json.RawMessage, error) {
	var err error
	if responses != nil {
		params, err = with(params, "inputResponses", responses)
	}
	if err != nil || state == nil {
		return params, err
	}
	return with(params, "requestState", state)
}

// memberName is the name of a member as it was written.
func memberName(object []byte, m member) (string, error) {
	end := m.valueStart
	for i := m.nameStart + 1; i < m.valueStart; i++ {
		if object[i] == '\\' {
			i++
		} else if object[i] == '"' {
			end = i + 1
			break
		}
	}
	name := object[m.nameStart:end]
	if !json.Valid(name) {
		return "", errNotObject
	}
	return string(name), nil
}
