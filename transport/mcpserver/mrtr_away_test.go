package mcpserver

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"berth/actors"
)

// TestTheBrokerCanTellThatAHarnessIsAway: it ends such calls when others wait for
// their seats; who comes back then hears how the call ended.
func TestTheBrokerCanTellThatAHarnessIsAway(t *testing.T) {
	var calls chan actors.Request // made in the bubble
	var evict chan struct{}
	inTalk(t, func(ctx context.Context, req actors.Request) actors.Reply {
		calls <- req
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-evict:
				cancel()
			case <-ctx.Done():
			}
		}()
		if _, problem := req.Peer.Request(ctx, "roots/list", nil); problem == nil {
			req.Peer.Request(ctx, "roots/list", nil)
		}
		return answered("ended")
	}, func(tt *talkTest) {
		calls, evict = make(chan actors.Request, 1), make(chan struct{})
		r := tt.call(call{})
		req := <-calls
		if !req.Away() {
			t.Error("it was asked, and nobody waits")
		}
		back := make(chan reply, 1)
		go func() { back <- tt.call(call{more: more(r.state(t), `{"input_1":{}}`)}) }()
		elapse(talkGather / 2) // the answer is there, and the second question is not told yet
		if req.Away() {
			t.Error("it is back")
		}
		r = <-back
		if got := r.asked(t); len(got) != 1 || !req.Away() {
			t.Errorf("asked %q", got)
		}
		close(evict)
		synctest.Wait()
		if got := tt.call(call{more: more(r.state(t), `{"input_2":{}}`)}); !strings.Contains(got.text(t), "ended") || req.Away() {
			t.Errorf("%+v", got)
		}
	})
}
