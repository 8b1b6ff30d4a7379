package actors

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

func TestDropThatCancelsReachesTheBackendWhateverTheEffects(t *testing.T) {
	for _, session := range []string{"s", ""} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			w := start(t, &upstream{call: func(ctx context.Context, _ *broker.Call, _ broker.Peer) (broker.Answer, error) {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "cancelled"}
			}})
			ctx, drop := context.WithCancel(context.Background())
			c := w.async(ctx, func(r *Request) { r.DropCancels, r.Call.Session = true, session })
			synctest.Wait()
			drop()
			if r := <-c; !r.Cancelled {
				t.Fatalf("%+v", r)
			}
			if err := <-ended; err != withdrawn("the client closed the stream") {
				t.Fatal(err)
			}
			if p, _ := w.Jobs(broker.JobFilter{}); p.Total != 0 {
				t.Fatal("a cancelled call became a job")
			}
		})
	}
}

func TestCallStaysACallWhileItsHarnessIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: func(ctx context.Context, _ *broker.Call, peer broker.Peer) (broker.Answer, error) {
			answer, refused := peer.Request(ctx, "roots/list", nil)
			if refused != nil {
				return broker.Answer{Error: refused}, nil
			}
			elapse(time.Minute) // and is promoted once it has its answer
			return broker.Answer{Result: text(string(answer))}, nil
		}})
		r := w.do(func(r *Request) {
			r.PromoteAfter = 45 * time.Second
			r.Peer.Request = func(context.Context, string, json.RawMessage) (json.RawMessage, *broker.RPCError) {
				elapse(3 * time.Minute)
				return json.RawMessage(`{"roots":[]}`), nil
			}
		})
		if r.Job == nil {
			t.Fatalf("%+v", r)
		}
		if j := w.job(r.Job.ID); string(j.Result) != string(text(`{"roots":[]}`)) {
			t.Fatalf("the question was not answered: %s", j.Result)
		}
	})
}
