package app

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"berth/broker"
)

// TestAnAppHearsOfTheTraceOfACall: in the headers of the call's own requests,
// and nothing where there is no trace.
func TestAnAppHearsOfTheTraceOfACall(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	app := startNotes(t)
	var heard [][]string
	app.answer = func(w http.ResponseWriter, r *http.Request) {
		heard = append(heard, append(r.Header.Values("Traceparent"), r.Header.Values("Tracestate")...))
		w.Write([]byte(`{}`))
	}
	app.healthy = func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Values("Traceparent")) > 0 {
			t.Error("a health check is said to be in a trace")
		}
		w.Write([]byte(`{"status":"ok"}`))
	}
	_, conn := openNotes(t, Options{Env: app.env})
	for _, tt := range []struct {
		trace broker.TraceContext
		want  []string
	}{
		{broker.TraceContext{}, nil},
		{broker.ParseTrace(parent, "a=1"), []string{parent, "a=1"}},
		{broker.ParseTrace(parent, ""), []string{parent}},
	} {
		heard = nil
		if _, err := conn.Call(t.Context(), &broker.Call{Trace: tt.trace, Params: json.RawMessage(`{"name":"list_notes","arguments":{"shelf":1}}`)}, broker.Peer{}); err != nil {
			t.Fatal(err)
		}
		if len(heard) != 1 || !slices.Equal(heard[0], tt.want) {
			t.Errorf("of %+v it heard %v", tt.trace, heard)
		}
	}
}
