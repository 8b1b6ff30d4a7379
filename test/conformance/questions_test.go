package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// asker is a backend whose tool asks its caller, in the way of its era, what
// the test sets, and keeps what it hears.
type asker struct {
	backend
	mu             sync.Mutex
	method, params string
	state          string // of the stateless era, raw; "": none
	heard, back    json.RawMessage
}

func newAsker() *asker {
	a := &asker{}
	a.responses = make(chan message, 16)
	a.handle = func(out *reply, in message) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.era == handshake {
			out.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"ask","method":%q,"params":%s}`, a.method, a.params))
			m := <-a.responses
			a.heard = m.Result
			if m.Error != nil {
				a.heard = m.Error
			}
			out.result(`{"content":[]}`)
			return
		}
		var p struct {
			Responses map[string]json.RawMessage `json:"inputResponses"`
			State     json.RawMessage            `json:"requestState"`
		}
		if json.Unmarshal(in.Params, &p) != nil || p.Responses == nil {
			state := ""
			if a.state != "" {
				state = `,"requestState":` + a.state
			}
			out.result(fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"k\u00e9":{"method":%q,"params":%s}}%s}`, a.method, a.params, state))
			return
		}
		a.heard, a.back = p.Responses["ké"], p.State
		out.result(`{"resultType":"complete","content":[]}`)
	}
	return a
}

func (a *asker) set(method, params, state string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.method, a.params, a.state, a.heard, a.back = method, params, state, nil, nil
}

func (a *asker) got() (heard, state json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard, a.back
}

// question is what a client was asked.
type question struct {
	method string
	params json.RawMessage
}

// asked calls the tool and answers what it is asked with a result.
func (s *session) asked(t testing.TB, answer string) (q question, final message) {
	t.Helper()
	if s.era() == handshake {
		return s.askedOnStream(t, answer)
	}
	result, _, err := s.roundTrip("tools/call", s.params(`"name":"t","arguments":{}`))
	must(t, err)
	var r struct {
		Type     string `json:"resultType"`
		Requests map[string]struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		} `json:"inputRequests"`
		State json.RawMessage `json:"requestState"`
	}
	must(t, json.Unmarshal(result.Result, &r))
	if r.Type != "input_required" || len(r.Requests) != 1 {
		t.Fatalf("asked %s", result.Result)
	}
	members := `"name":"t","arguments":{}`
	for key, one := range r.Requests {
		q = question{one.Method, one.Params}
		quoted, err := json.Marshal(key)
		must(t, err)
		members += fmt.Sprintf(`,"inputResponses":{%s:%s}`, quoted, answer)
	}
	if r.State != nil {
		members += `,"requestState":` + string(r.State)
	}
	final, _, err = s.roundTrip("tools/call", s.params(members))
	must(t, err)
	return q, final
}

func (s *session) askedOnStream(t testing.TB, answer string) (q question, final message) {
	ctx, cancel := context.WithTimeout(context.Background(), s.rig.patience)
	defer cancel()
	resp, err := s.rig.client.Do(s.message(ctx, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`)))
	must(t, err)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		must(t, err)
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var m message
		must(t, json.Unmarshal([]byte(data), &m))
		switch {
		case m.Method == "":
			return q, m
		case m.ID != nil:
			q = question{m.Method, m.Params}
			if a := s.post(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer)); a.status != http.StatusAccepted {
				t.Fatalf("an answer is answered %d %s", a.status, a.body)
			}
		}
	}
}

// TestQuestionsAndAnswersAreTheSameJSON has backends of both eras ask clients of
// both. What a client says, and a stateless backend's state, come back as they
// were.
func TestQuestionsAndAnswersAreTheSameJSON(t *testing.T) {
	drawn := rapid.Custom(func(t *rapid.T) [4]string {
		schema := object(t, 3, `"type":"object"`, `"$defs":`+object(t, 1), `"properties":{"n":{"default":`+number.Draw(t, "default")+`}}`)
		method := rapid.SampledFrom([]string{"elicitation/create", "sampling/createMessage", "roots/list"}).Draw(t, "method")
		params := object(t, 3, `"mode":"form"`, `"message":`+text.Draw(t, "message"), `"requestedSchema":`+schema, `"_meta":`+object(t, 1, `"x/own":`+value(t, 2)))
		answer := object(t, 3, `"action":"accept"`, `"content":`+value(t, 3), `"_meta":`+object(t, 1))
		return [4]string{method, params, answer, text.Draw(t, "state")}
	})
	eachPairing(t, func(t *testing.T, p pairing) {
		a := newAsker()
		r, s := pair(t, p, &a.backend)
		defer r.close()
		for i := range 20 { // each waits a moment for more questions
			d := drawn.Example(i)
			method, params, answer, state := d[0], framed(p.kind, d[1]), d[2], d[3]
			a.set(method, params, state)
			q, final := s.asked(t, answer)
			if final.Result == nil {
				t.Fatalf("%s: the call ended with %s", method, final.Error)
			}
			if q.method != method {
				t.Errorf("asked %s, want %s", q.method, method)
			}
			if err := same([]byte(params), q.params); err != nil {
				t.Errorf("question: %v\nsent     %s\nreceived %s", err, params, q.params)
			}
			heard, back := a.got()
			if err := same([]byte(answer), heard); err != nil {
				t.Errorf("answer: %v\nsent     %s\nreceived %s", err, answer, heard)
			}
			if p.backend == stateless {
				if err := same([]byte(state), back); err != nil {
					t.Errorf("state: %v\nsent     %s\nreceived %s", err, state, back)
				}
			}
		}
	})
}
