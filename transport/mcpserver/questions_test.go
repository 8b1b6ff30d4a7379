package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/transport/jsonrpc"
)

func TestQuestionsAreBoundedAndOneSessionCannotAnswerForAnother(t *testing.T) {
	var q questions
	one, _ := q.begin("a")
	for range maxQuestionsSession - 1 {
		if _, problem := q.begin("a"); problem != nil {
			t.Fatal(problem)
		}
	}
	if _, problem := q.begin("a"); problem == nil {
		t.Fatal("one session asks without end")
	}
	if _, problem := q.begin("b"); problem != nil {
		t.Fatal("another session cannot be asked")
	}
	answer := jsonrpc.Message{Kind: jsonrpc.Response, ID: one.id, Result: json.RawMessage("1")}
	q.answered("b", answer)
	if len(one.answer) != 0 {
		t.Fatal("another session answered")
	}
	q.answered("a", answer)
	q.answered("a", answer)
	if len(one.answer) != 1 {
		t.Fatal("its own session could not answer once")
	}
	if _, problem := q.begin("a"); problem != nil {
		t.Fatal("an answered question still counts")
	}
	q.end(one) // after its answer: nothing
	if q.each["a"] != maxQuestionsSession {
		t.Fatalf("%d questions of a session are counted", q.each["a"])
	}
}

func TestAQuestionThatIsNotAnsweredIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		f := serve(t, b, nil)
		defer f.stop()
		ses := session{nonce: make([]byte, nonceBytes), principal: broker.LocalOperator.Digest(), profile: "fs", version: versions[0],
			caps: json.RawMessage(`{"roots":{}}`), started: f.opts.Now()}
		token := ses.token(f.opts.SessionKey)
		resp, err := f.post(t.Context(), "/mcp/fs", token, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"ask":{"method":"roots/list","ms":60000}}}}`) // then the call is over
		if err != nil {
			t.Fatal(err)
		}
		text := readAll(t, resp)
		for _, want := range []string{`"method":"roots/list"`, `"notifications/cancelled","params":{"requestId":"berth-00000000-1"`, `did not answer`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
		if len(f.questions.open) != 0 {
			t.Error("the question is kept")
		}
	})
}

func TestOutboxTakesNoMoreThanItsBounds(t *testing.T) {
	var o outbox
	for range maxOutbox {
		if !o.put([]byte("x")) {
			t.Fatal("refused below the bound")
		}
	}
	if o.put([]byte("x")) {
		t.Fatal("taken over the bound")
	}
	if got := o.take(); len(got) != maxOutbox || o.waiting() {
		t.Fatal(len(got))
	}
	if !o.put(make([]byte, maxOutboxBytes+1)) {
		t.Fatal("one large message alone was refused")
	}
	if o.put([]byte("x")) {
		t.Fatal("taken over the bound of bytes")
	}
}

func TestListenersAreBounded(t *testing.T) {
	var l listeners
	l.init(maxListenersSession + 1)
	var mine []*ear
	for range maxListenersSession + 1 {
		e, refusal := l.begin("s")
		if refusal != nil {
			t.Fatal(refusal)
		}
		mine = append(mine, e)
	}
	select {
	case <-mine[0].over:
	default:
		t.Error("the oldest stream of a session goes on beyond its bound")
	}
	if !l.newest(mine[len(mine)-1]) || l.newest(mine[1]) {
		t.Error("the newest stream is not known")
	}
	if _, refusal := l.begin("other"); refusal != nil {
		t.Fatal(refusal)
	}
	if _, refusal := l.begin("third"); refusal == nil {
		t.Error("more streams than the limit")
	}
	for _, e := range mine {
		l.leave(e)
		l.leave(e)
	}
	if l.open != 1 {
		t.Errorf("%d are counted", l.open)
	}
	l.end("other")
	if l.open != 0 || !l.hasEnded("other") || l.hasEnded("s") {
		t.Error("an ended session is not known as such")
	}
	for i := range maxServed + 10 {
		l.served(fmt.Sprint(i), "d")
		l.end(fmt.Sprint("e", i))
	}
	if len(l.lists) > maxServed || len(l.ended) > maxServed {
		t.Error("sessions are remembered without bound")
	}
	l.endAll()
	if _, refusal := l.begin("s"); refusal == nil {
		t.Error("a stopping broker takes streams")
	}
}

func TestStreamOfNotificationsEndsWhenTheBrokerDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), nil)
		defer f.stop()
		resp := f.listen(t, "fs")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if open := f.Drain(ctx); open != 0 {
			t.Errorf("%d requests are open", open)
		}
		if text := readAll(t, resp); text != "" || time.Since(began) != 0 {
			t.Errorf("after %v: %q", time.Since(began), text)
		}
	})
}

func TestASlowListenerIsToldThatItMissedSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		f := serve(t, b, nil)
		defer f.stop()
		resp := f.listen(t, "fs")
		synctest.Wait()
		// The pipe takes nothing that is not read, so the first write blocks.
		for i := range 600 {
			b.publish(actors.Notice{Backend: "fs", Method: "notifications/own", Params: json.RawMessage(fmt.Sprint(`{"n":`, i, `}`))})
			if i == 0 {
				synctest.Wait()
			}
		}
		time.AfterFunc(time.Second, func() { f.listeners.endAll() })
		text := readAll(t, resp)
		if got := strings.Count(text, "notifications/own"); got < 2 || got > 300 {
			t.Errorf("%d notices came", got)
		}
		for _, want := range []string{promptsChanged, resourcesChanged} {
			if !strings.Contains(text, want) {
				t.Errorf("no word of %s", want)
			}
		}
	})
}

// listen opens a stream of notifications of a session of the operator.
func (f *front) listen(t *testing.T, profile string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:7420/mcp/"+profile, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set(headerSession, f.token(profile, "c"))
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	return resp
}
