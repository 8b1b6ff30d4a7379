package mcpserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/actors"
	"berth/broker"
)

// talking is a broker whose every call is as its test says.
type talking struct {
	*fakeBroker
	do  func(ctx context.Context, req actors.Request) actors.Reply
	ran atomic.Int64
}

func (a *talking) Do(ctx context.Context, req actors.Request) actors.Reply {
	a.ran.Add(1)
	return a.do(ctx, req)
}

func answered(text string) actors.Reply {
	raw, _ := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}})
	return actors.Reply{Answer: &broker.Answer{Result: raw}}
}

// asksAll asks everything at once and answers with what it heard, by method.
func asksAll(methods ...string) func(context.Context, actors.Request) actors.Reply {
	return func(ctx context.Context, req actors.Request) actors.Reply {
		heard := make([]string, len(methods))
		var all sync.WaitGroup
		for i, method := range methods {
			all.Go(func() {
				result, problem := req.Peer.Request(ctx, method, json.RawMessage(`{"q":`+fmt.Sprint(i)+`,"_meta":{"progressToken":9}}`))
				heard[i] = string(result)
				if problem != nil {
					heard[i] = fmt.Sprintf("%d %s", problem.Code, problem.Message)
				}
			})
		}
		all.Wait()
		if ctx.Err() != nil {
			return actors.Reply{Cancelled: true}
		}
		return answered(strings.Join(heard, " | "))
	}
}

// talkTest is a front in front of one such broker.
type talkTest struct {
	*front
	t      *testing.T
	broker *talking
}

// inTalk runs a test in a bubble.
func inTalk(t *testing.T, do func(context.Context, actors.Request) actors.Reply, test func(*talkTest)) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeBroker(t)
		b := &talking{fakeBroker: fake, do: do}
		f := serve(t, fake, func(o *Options) { o.Broker, o.Random = b, rand.Reader })
		test(&talkTest{front: f, t: t, broker: b})
		f.stop()
		synctest.Wait()
	})
}

const everything = `{"sampling":{},"elicitation":{},"roots":{}}`

// reply is what came back: the status, and the response, which is the last
// event of a stream.
type reply struct {
	status  int
	events  []string
	Result  map[string]json.RawMessage `json:"result"`
	Problem *broker.RPCError           `json:"error"`
}

func (r reply) state(t *testing.T) string {
	t.Helper()
	var state string
	if err := json.Unmarshal(r.Result["requestState"], &state); err != nil {
		t.Fatalf("no state in %s: %v", r.Result, err)
	}
	return state
}

func (r reply) asked(t *testing.T) []string {
	t.Helper()
	if string(r.Result["resultType"]) != `"input_required"` {
		t.Fatalf("nothing is asked: %d %s %+v", r.status, r.Result, r.Problem)
	}
	var asks map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(r.Result["inputRequests"], &asks); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(asks)) {
		out = append(out, key+" "+asks[key].Method+" "+string(asks[key].Params))
	}
	return out
}

func (r reply) text(t *testing.T) string {
	t.Helper()
	if string(r.Result["resultType"]) != `"complete"` {
		t.Fatalf("not complete: %d %s %+v", r.status, r.Result, r.Problem)
	}
	return string(r.Result["content"])
}

// call is a tools/call with members besides name and `_meta`.
type call struct {
	token, capabilities, meta, more string
	ctx                             context.Context
}

func (tt *talkTest) call(c call) reply {
	tt.t.Helper()
	r, err := tt.try(c)
	if err != nil {
		tt.t.Fatal(err)
	}
	return r
}

func (tt *talkTest) try(c call) (r reply, err error) {
	if c.capabilities == "" {
		c.capabilities = everything
	}
	if c.token == "" {
		c.token = testToken
	}
	if c.ctx == nil {
		c.ctx = context.Background()
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{%q:"2026-07-28",%q:%s%s}%s}}`,
		metaVersion, metaCapabilities, c.capabilities, c.meta, c.more)
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, "http://127.0.0.1:7420/mcp/fs", strings.NewReader(body))
	if err != nil {
		return r, err
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + c.token, headerVersion: "2026-07-28", headerMethod: "tools/call", headerName: "echo"} {
		req.Header.Set(name, value)
	}
	resp, err := tt.client.Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return r, err
	}
	r.status = resp.StatusCode
	for line := range bytes.Lines(data) {
		if event, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			data = event
			r.events = append(r.events, strings.TrimSpace(string(event)))
		}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return r, nil
	}
	return r, json.Unmarshal(data, &r)
}

func more(state string, answers string) string {
	return fmt.Sprintf(`,"requestState":%q,"inputResponses":%s`, state, answers)
}

func TestQuestionsEndTheRequestAndTheirAnswersContinueTheCall(t *testing.T) {
	inTalk(t, asksAll("elicitation/create"), func(tt *talkTest) {
		r := tt.call(call{})
		if got := r.asked(t); r.status != http.StatusOK || !slices.Equal(got, []string{`input_1 elicitation/create {"q":0}`}) {
			t.Fatalf("%d %q", r.status, got)
		}
		elapse(4 * time.Minute)
		r = tt.call(call{more: more(r.state(t), `{"input_1":{"action":"accept","content":{"n":12345678901234567890}},"other":{}}`)})
		if got := r.text(t); !strings.Contains(got, `12345678901234567890`) {
			t.Fatal(got)
		}
		if n := tt.broker.ran.Load(); n != 1 {
			t.Fatalf("the call ran %d times", n)
		}
	})
}

func TestQuestionsThatComeTogetherAreAskedTogether(t *testing.T) {
	inTalk(t, asksAll("elicitation/create", "sampling/createMessage", "roots/list"), func(tt *talkTest) {
		r := tt.call(call{})
		if got := r.asked(t); len(got) != 3 {
			t.Fatalf("%q", got)
		}
		first := r.state(t)
		// What is not answered is asked again, with another state.
		r = tt.call(call{more: more(first, `{"input_2":{"a":2},"input_3":{"a":3}}`)})
		if got := r.asked(t); len(got) != 1 || !strings.HasPrefix(got[0], "input_1 ") || r.state(t) == first {
			t.Fatalf("%q", got)
		}
		r = tt.call(call{more: more(r.state(t), `{"input_1":{"a":1}}`)})
		if got := r.text(t); strings.Count(got, `\"a\":`) != 3 {
			t.Fatal(got)
		}
	})
}

func TestRoundsFollowEachOther(t *testing.T) {
	inTalk(t, func(ctx context.Context, req actors.Request) actors.Reply {
		var heard []string
		for range 3 {
			result, problem := req.Peer.Request(ctx, "roots/list", nil)
			if problem != nil {
				return actors.Reply{Answer: &broker.Answer{Error: problem}}
			}
			heard = append(heard, string(result))
		}
		return answered(strings.Join(heard, ""))
	}, func(tt *talkTest) {
		r := tt.call(call{})
		for round := range 3 {
			if got := r.asked(t); !slices.Equal(got, []string{fmt.Sprintf("input_%d roots/list {}", round+1)}) {
				t.Fatalf("%q", got)
			}
			r = tt.call(call{more: more(r.state(t), fmt.Sprintf(`{"input_%d":{"roots":[%d]}}`, round+1, round))})
		}
		if got := r.text(t); !strings.Contains(got, `[0]}{\"roots\":[1]}{\"roots\":[2]`) {
			t.Fatal(got)
		}
	})
}

func TestStateThatDoesNotFitIsRefusedAndHarmsNothing(t *testing.T) {
	inTalk(t, asksAll("roots/list"), func(tt *talkTest) {
		r := tt.call(call{})
		state := r.state(t)
		const good = `{"input_1":{"roots":[]}}`
		for _, c := range []struct {
			name string
			call call
			says string
		}{
			{"tampered", call{more: more(state+"-TAMPERED", good)}, "forged"},
			{"cut", call{more: more(state[:len(state)-1], good)}, "forged"},
			{"of another caller", call{token: "other", more: more(state, good)}, "foreign"},
			{"with other arguments", call{more: more(state, good) + `,"arguments":{"a":1}`}, "foreign"},
			{"with answers that are none", call{more: more(state, `7`)}, "inputResponses"},
			{"with null for answers", call{more: more(state, `null`)}, "inputResponses"},
			{"with an answer that is no object", call{more: more(state, `{"input_1":5}`)}, "input_1"},
		} {
			r := tt.call(c.call)
			if r.Problem == nil || r.Problem.Code != -32602 || r.status != http.StatusBadRequest ||
				!strings.Contains(r.Problem.Message+string(r.Problem.Data), c.says) {
				t.Errorf("%s: %d %+v", c.name, r.status, r.Problem)
			}
		}
		if got := tt.call(call{more: more(state, good)}).text(t); !strings.Contains(got, `roots`) {
			t.Error(got)
		}
		if r := tt.call(call{more: more(state, good)}); r.Problem == nil || !strings.Contains(string(r.Problem.Data), "over") {
			t.Errorf("a state was taken after the call had ended: %+v", r.Problem)
		}
		if n := tt.broker.ran.Load(); n != 1 {
			t.Errorf("%d calls ran", n)
		}
	})
}

func TestStateIsTakenOnce(t *testing.T) {
	inTalk(t, func(ctx context.Context, req actors.Request) actors.Reply {
		_, _ = req.Peer.Request(ctx, "roots/list", nil)
		elapse(time.Minute)
		return answered("done")
	}, func(tt *talkTest) {
		c := call{more: more(tt.call(call{}).state(t), `{"input_1":{}}`)}
		first := make(chan reply, 1)
		go func() {
			r, _ := tt.try(c)
			first <- r
		}()
		elapse(time.Second)
		if r := tt.call(c); r.Problem == nil || !strings.Contains(string(r.Problem.Data), "used") {
			t.Errorf("%+v", r.Problem)
		}
		if r := <-first; !strings.Contains(r.text(t), "done") {
			t.Errorf("%+v", r)
		}
	})
}

func TestHarnessThatDoesNotComeBackLosesItsCall(t *testing.T) {
	var ended chan time.Time // of the bubble
	inTalk(t, func(ctx context.Context, req actors.Request) actors.Reply {
		_, problem := req.Peer.Request(ctx, "roots/list", nil)
		if problem == nil || ctx.Err() == nil || !req.DropCancels {
			panic("the call goes on")
		}
		ended <- time.Now()
		return actors.Reply{Cancelled: true}
	}, func(tt *talkTest) {
		ended = make(chan time.Time, 1)
		state := tt.call(call{}).state(t)
		away := time.Now()
		if at := <-ended; at.Sub(away) != talkPatience {
			t.Errorf("cancelled after %v", at.Sub(away))
		}
		if r := tt.call(call{more: more(state, `{"input_1":{}}`)}); r.Problem == nil || !strings.Contains(string(r.Problem.Data), "expired") {
			t.Errorf("%+v", r.Problem)
		}
		if n := len(tt.talks.open) + len(tt.talks.each) + tt.talks.bytes; n != 0 {
			t.Errorf("%d are kept of a call that has ended", n)
		}
	})
}

func TestAnswerThatComesWhileTheHarnessIsAwayIsKept(t *testing.T) {
	inTalk(t, func(ctx context.Context, req actors.Request) actors.Reply {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, problem := req.Peer.Request(ctx, "roots/list", nil)
		return answered("went on without: " + problem.Message)
	}, func(tt *talkTest) {
		state := tt.call(call{}).state(t)
		elapse(2 * time.Minute)
		if got := tt.call(call{more: more(state, `{"input_1":{}}`)}).text(t); !strings.Contains(got, "went on without") {
			t.Error(got)
		}
	})
}

func TestClosingTheStreamCancelsTheCallInEveryRound(t *testing.T) {
	for _, rounds := range []int{0, 1} {
		var ended chan bool
		inTalk(t, func(ctx context.Context, req actors.Request) actors.Reply {
			for range rounds {
				_, _ = req.Peer.Request(ctx, "roots/list", nil)
			}
			<-ctx.Done()
			ended <- req.DropCancels
			return actors.Reply{Cancelled: true}
		}, func(tt *talkTest) {
			ended = make(chan bool, 1)
			c := call{}
			for range rounds {
				c.more = more(tt.call(c).state(t), `{"input_1":{}}`)
			}
			ctx, leave := context.WithCancel(context.Background())
			defer leave()
			c.ctx = ctx
			left := make(chan error, 1)
			go func() {
				_, err := tt.try(c)
				left <- err
			}()
			elapse(time.Minute)
			select {
			case <-ended:
				t.Fatal("it ended by itself")
			default:
			}
			leave()
			if cancels := <-ended; !cancels {
				t.Error("the drop was no cancel")
			}
			<-left
		})
	}
}

func TestUndeclaredCapability(t *testing.T) {
	for _, tt := range []struct {
		name, capabilities, method, params, required string
	}{
		{"none at all", `{}`, "sampling/createMessage", `{}`, `{"sampling":{}}`},
		{"another", `{"roots":{}}`, "elicitation/create", `{}`, `{"elicitation":{}}`},
		{"a form of one", `{"elicitation":{}}`, "elicitation/create", `{"mode":"url"}`, `{"elicitation":{"url":{}}}`},
		{"tools in sampling", `{"sampling":{}}`, "sampling/createMessage", `{"tools":[]}`, `{"sampling":{"tools":{}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, degrades := range []bool{false, true} {
				inTalk(t, func(ctx context.Context, req actors.Request) actors.Reply {
					_, problem := req.Peer.Request(ctx, tt.method, json.RawMessage(tt.params))
					if problem == nil || degrades {
						return answered("did without")
					}
					return actors.Reply{Answer: &broker.Answer{Error: &broker.RPCError{Code: -32603, Message: "cannot: " + problem.Message}}}
				}, func(talk *talkTest) {
					began := time.Now()
					r := talk.call(call{capabilities: tt.capabilities})
					if time.Since(began) != 0 {
						t.Errorf("the backend waited %v", time.Since(began))
					}
					if degrades {
						if !strings.Contains(r.text(t), "did without") {
							t.Error(r)
						}
						return
					}
					if r.status != http.StatusBadRequest || r.Problem == nil || r.Problem.Code != codeMissingCapability {
						t.Fatalf("%d %+v", r.status, r.Problem)
					}
					if got := string(r.Problem.Data); !strings.HasPrefix(got, `{"requiredCapabilities":`+tt.required+`,"cause":{"code":-32603`) {
						t.Error(got)
					}
				})
			}
		})
	}
}

func TestOnlyWhatTheProtocolAllowsIsAsked(t *testing.T) {
	inTalk(t, func(ctx context.Context, req actors.Request) actors.Reply {
		_, problem := req.Peer.Request(ctx, "ping", nil)
		return actors.Reply{Answer: &broker.Answer{Error: problem}}
	}, func(tt *talkTest) {
		if r := tt.call(call{}); r.Problem == nil || r.Problem.Code != -32601 {
			t.Errorf("%+v", r.Problem)
		}
	})
}

func TestProgressAndLogsGoToTheRequestThatWaits(t *testing.T) {
	inTalk(t, func(ctx context.Context, req actors.Request) actors.Reply {
		say := func(i int) {
			req.Peer.Progress(broker.Progress{Params: fmt.Appendf(nil, `{"progress":%d}`, i)})
			req.Peer.Notify("notifications/message", fmt.Appendf(nil, `{"level":"info","data":%d}`, i))
			req.Peer.Notify("notifications/message", fmt.Appendf(nil, `{"level":"error","data":%d}`, i))
			elapse(time.Second)
		}
		say(1)
		go func() {
			elapse(time.Minute)
			req.Peer.Notify("notifications/message", json.RawMessage(`{"level":"error","data":"to nobody"}`))
		}()
		_, _ = req.Peer.Request(ctx, "roots/list", nil)
		say(2)
		return answered("done")
	}, func(tt *talkTest) {
		r := tt.call(call{meta: `,"progressToken":"a","` + metaLogLevel + `":"warning"`})
		want := []string{
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":"a"}}`}
		if got := r.events[:len(r.events)-1]; !sameSet(got, want) {
			t.Errorf("first round: %q", got)
		}
		elapse(2 * time.Minute)
		r = tt.call(call{meta: `,"progressToken":7`, more: more(r.state(t), `{"input_1":{}}`)})
		want = []string{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":2,"progressToken":7}}`}
		if got := r.events[:len(r.events)-1]; !sameSet(got, want) {
			t.Errorf("second round: %q", got)
		}
	})
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func TestCallsThatWaitAreBounded(t *testing.T) {
	inTalk(t, asksAll("roots/list"), func(tt *talkTest) {
		var last string
		for range maxTalksEach {
			last = tt.call(call{}).state(t)
		}
		if got := tt.call(call{}).text(t); !strings.Contains(got, "too many calls wait") {
			t.Errorf("one more was kept: %s", got)
		}
		if got := tt.call(call{token: "other"}).asked(t); len(got) != 1 {
			t.Error("another caller was not asked")
		}
		if got := tt.call(call{more: more(last, `{"input_1":{"a":1}}`)}).text(t); !strings.Contains(got, `\"a\":1`) {
			t.Error(got)
		}
		if got := tt.call(call{}).asked(t); len(got) != 1 {
			t.Error("the place was not given back")
		}
		tt.Drain(context.Background()) // or the calls would wait for minutes
		synctest.Wait()
	})
}

func TestQuestionsOfOneCallAreBounded(t *testing.T) {
	inTalk(t, asksAll(slices.Repeat([]string{"roots/list"}, maxTalkAsks+3)...), func(tt *talkTest) {
		r := tt.call(call{})
		if got := r.asked(t); len(got) != maxTalkAsks {
			t.Errorf("%d are asked", len(got))
		}
		tt.Drain(context.Background())
	})
}

func TestDrainEndsCallsWhoseHarnessIsAway(t *testing.T) {
	var ended chan struct{}
	inTalk(t, func(ctx context.Context, req actors.Request) actors.Reply {
		defer close(ended)
		return asksAll("roots/list")(ctx, req)
	}, func(tt *talkTest) {
		ended = make(chan struct{})
		state := tt.call(call{}).state(t)
		if open := tt.Drain(context.Background()); open != 0 {
			t.Errorf("%d are open", open)
		}
		<-ended
		if r := tt.call(call{more: more(state, `{"input_1":{}}`)}); r.Problem == nil || !strings.Contains(string(r.Problem.Data), "shutting_down") {
			t.Errorf("%+v", r.Problem)
		}
	})
}

func TestPanicInACallThatMayAskIsAnswered(t *testing.T) {
	inTalk(t, func(context.Context, actors.Request) actors.Reply { panic("of a call") }, func(tt *talkTest) {
		if r := tt.call(call{}); r.Problem == nil || r.Problem.Code != -32603 {
			t.Errorf("%+v", r.Problem)
		}
	})
}
