package actors

import (
	"context"
	"testing"
	"testing/synctest"

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
