package app

import (
	"context"
	"net/http"

	"berth/broker"
)

// traceKey is where the requests of a call find its trace context.
type traceKey struct{}

func withTrace(ctx context.Context, t broker.TraceContext) context.Context {
	if !t.Known() {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, t)
}

// traceHeaders tells the app which trace the request is in. A health check is
// of no call, and so in none.
func traceHeaders(ctx context.Context, h http.Header) {
	t, _ := ctx.Value(traceKey{}).(broker.TraceContext)
	if !t.Known() {
		return
	}
	h.Set(broker.TraceParentKey, t.Parent)
	if t.State != "" {
		h.Set(broker.TraceStateKey, t.State)
	}
}
