package mcpclient

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

func TestAChildThatDoesNotReadBlocksNoCallBeyondItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(nil)
		f.deafAfter = 5 // server/discover, initialize, initialized, tools/list
		_, c := f.open(t, Options{MaxInFlight: 1, CancelGrace: 3 * time.Second})
		var wg sync.WaitGroup
		first := make(chan *broker.Failure, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wg.Go(func() {
			_, err := c.Call(ctx, call(`{"n":1}`), broker.Peer{})
			first <- failure(t, err)
		})
		synctest.Wait() // the writer is stuck with the first
		start := time.Now()
		for range 20 { // more than the queue holds
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				_, err := c.Call(ctx, call(`{"n":2}`), broker.Peer{})
				if got := failure(t, err); got.Dispatched || got.Gone || got.Abandoned {
					t.Errorf("a queued call: %+v", got)
				}
				if d := time.Since(start); d != 2*time.Second {
					t.Errorf("it took %v", d)
				}
			})
		}
		wg.Wait()
		if got := <-first; !got.Dispatched || !got.Abandoned {
			t.Errorf("the call that was being written: %+v", got)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestCancelThatIsIgnoredEndsWithTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(func(*fake, message) {})
		_, c := f.open(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := c.Call(ctx, call(`{}`), broker.Peer{})
			done <- err
		}()
		called := <-f.seen
		start := time.Now()
		cancel()
		note := <-f.seen
		if d := time.Since(start); d != 0 {
			t.Errorf("the cancel was sent after %v", d)
		}
		if want := `{"requestId":` + string(called.id) + `,"reason":"The caller cancelled the call."}`; note.method != "notifications/cancelled" || string(note.params) != want {
			t.Errorf("note: %s %s", note.method, note.params)
		}
		got := failure(t, <-done)
		if d := time.Since(start); d != DefaultCancelGrace {
			t.Errorf("it waited %v", d)
		}
		if !got.Dispatched || !got.Abandoned || got.Gone {
			t.Errorf("failure: %+v", got)
		}
		c.Close(t.Context())
	})
}

func TestCancelThatIsHonouredGivesTheAnswer(t *testing.T) {
	var id string
	f := newFake(func(f *fake, m message) {
		if m.method == "tools/call" {
			id = string(m.id)
			return
		}
		f.send(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-1,"message":"cancelled"}}`)
	})
	_, c := f.open(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-f.seen; cancel() }()
	a, err := c.Call(ctx, call(`{}`), broker.Peer{})
	if err != nil || a.Error == nil || a.Error.Message != "cancelled" {
		t.Errorf("answer %+v, %v", a, err)
	}
}

func TestADeadContextIsNotDispatched(t *testing.T) {
	f := newFake(nil)
	_, c := f.open(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Call(ctx, call(`{}`), broker.Peer{})
	if got := failure(t, err); got.Dispatched || got.Gone {
		t.Errorf("failure: %+v", got)
	}
}

func TestAChildThatDiesMidCallIsNoticedAtOnce(t *testing.T) {
	s := NewStdio(StdioConfig{Start: startProcess}, Options{})
	c, err := s.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	_, err = c.Call(t.Context(), call(`{"name":"die"}`), broker.Peer{})
	got := failure(t, err)
	if !got.Dispatched || !got.Gone || got.Abandoned || !strings.Contains(got.Cause, "exit status 3") || !strings.Contains(got.Stderr, "dying as asked") {
		t.Errorf("failure: %+v", got)
	}
	<-c.Incarnation().Done
	if why := c.Incarnation().Cause(); !strings.Contains(why, "exit status 3") {
		t.Errorf("cause: %s", why)
	}
	_, err = c.Call(t.Context(), call(`{}`), broker.Peer{})
	if got := failure(t, err); got.Dispatched || !got.Gone {
		t.Errorf("the next call: %+v", got)
	}
	next, err := s.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close(context.Background())
	if next.Incarnation().RuntimeID == c.Incarnation().RuntimeID {
		t.Error("two lives have one runtime id")
	}
	if s.Noise().Banner != 2 {
		t.Errorf("noise: %+v", s.Noise())
	}
}

func TestAnAnswerWrittenBeforeTheExitCounts(t *testing.T) {
	f := newFake(func(f *fake, m message) {
		f.answer(m, `{"last":true}`)
		f.exit()
	})
	_, c := f.open(t, Options{})
	a, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
	if err != nil || string(a.Result) != `{"last":true}` {
		t.Errorf("answer %s, %v", a.Result, err)
	}
	<-c.Incarnation().Done
	if why := c.Incarnation().Cause(); why != f.reason {
		t.Errorf("cause: %s", why)
	}
}

func TestAChildThatClosesItsOutputIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(func(f *fake, m message) { f.out.Close() })
		_, c := f.open(t, Options{})
		_, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
		if got := failure(t, err); !got.Gone || !got.Dispatched || got.Cause != "the child closed its output" {
			t.Errorf("failure: %+v", got)
		}
		c.Close(t.Context())
		<-f.done // and was stopped
	})
}

func TestACallToAChildThatClosedItsInputIsNotDispatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(nil)
		_, c := f.open(t, Options{})
		synctest.Wait()
		f.in.Close()
		_, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
		if got := failure(t, err); !got.Gone || got.Dispatched {
			t.Errorf("failure: %+v", got)
		}
		f.exit()
		c.Close(t.Context())
	})
}

func TestCloseFailsWhatRunsAndIsIdempotent(t *testing.T) {
	f := newFake(func(*fake, message) {})
	_, c := f.open(t, Options{})
	done := make(chan error, 1)
	go func() {
		_, err := c.Call(context.Background(), call(`{}`), broker.Peer{})
		done <- err
	}()
	<-f.seen
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := failure(t, <-done); !got.Gone || !got.Dispatched || !strings.Contains(got.Cause, "stopped by the broker") {
		t.Errorf("failure: %+v", got)
	}
}

func TestManyCallsAtOnceGetTheirOwnAnswers(t *testing.T) {
	c, err := NewStdio(StdioConfig{Start: startProcess}, Options{}).Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				p := fmt.Sprintf(`{"name":"n","arguments":{"i":%d,"j":%d}}`, i, j)
				if a, err := c.Call(t.Context(), call(p), broker.Peer{}); err != nil || string(a.Result) != p {
					t.Errorf("%s: %s, %v", p, a.Result, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
