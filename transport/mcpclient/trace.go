package mcpclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"berth/broker"
	"berth/transport/jsonrpc"
)

// This file passes on which trace a call is in: in `_meta` to every backend
// (SEP-414), and to one that is reached over HTTP in the headers too.

// withTrace puts a trace context into params._meta. Params that say it already,
// and those of a call in no trace, keep their bytes.
func withTrace(params json.RawMessage, t broker.TraceContext) (json.RawMessage, error) {
	if !t.Known() {
		return params, nil
	}
	if len(bytes.TrimSpace(params)) == 0 {
		params = json.RawMessage(`{}`)
	}
	o, err := jsonrpc.ParseObject(params)
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	raw, ok := o.Get("_meta")
	if !ok || string(raw) == "null" {
		raw = json.RawMessage(`{}`)
	}
	meta, err := jsonrpc.ParseObject(raw)
	if err != nil {
		return nil, fmt.Errorf("params._meta: %w", err)
	}
	parent, _ := meta.Text(broker.TraceParentKey)
	state, _ := meta.Text(broker.TraceStateKey)
	if broker.ParseTrace(parent, state) == t {
		return params, nil
	}
	meta.Set(broker.TraceParentKey, jsonrpc.Quote(t.Parent))
	if t.State == "" {
		meta.Delete(broker.TraceStateKey) // of another parent, or none that could be read
	} else {
		meta.Set(broker.TraceStateKey, jsonrpc.Quote(t.State))
	}
	o.Set("_meta", meta.Bytes())
	return o.Bytes(), nil
}

// traceHeaders adds a call's trace context to the headers of its request; h
// may be nil.
func traceHeaders(h http.Header, t broker.TraceContext) http.Header {
	if !t.Known() {
		return h
	}
	if h == nil {
		h = http.Header{}
	}
	h.Set(broker.TraceParentKey, t.Parent)
	if t.State != "" {
		h.Set(broker.TraceStateKey, t.State)
	}
	return h
}
