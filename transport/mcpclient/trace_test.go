package mcpclient

import (
	"encoding/json"
	"testing"

	"berth/broker"
)

const (
	aTrace  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	another = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

func TestATraceContextIsAddedAndNothingElseIsTouched(t *testing.T) {
	tests := []struct{ name, params, trace, state, want string }{
		{"no trace", `{"name":"x",  "_meta":{"b":1.50}}`, "", "", `{"name":"x",  "_meta":{"b":1.50}}`},
		{"no _meta", `{"name":"x","arguments":{"n":1.50}}`, aTrace, "", `{"name":"x","arguments":{"n":1.50},"_meta":{"traceparent":"` + aTrace + `"}}`},
		{"a null _meta", `{"_meta":null}`, aTrace, "", `{"_meta":{"traceparent":"` + aTrace + `"}}`},
		{"no params", ``, aTrace, "", `{"_meta":{"traceparent":"` + aTrace + `"}}`},
		{"other members stay", `{"_meta":{"x/y":{"n":1.50},"baggage":"k=v"}}`, aTrace, "a=1", `{"_meta":{"x/y":{"n":1.50},"baggage":"k=v","traceparent":"` + aTrace + `","tracestate":"a=1"}}`},
		{"it is there already", `{"_meta": {"traceparent" : "` + aTrace + `"}}`, aTrace, "", `{"_meta": {"traceparent" : "` + aTrace + `"}}`},
		{"another one is replaced with its state", `{"_meta":{"traceparent":"` + another + `","tracestate":"a=1"}}`, aTrace, "", `{"_meta":{"traceparent":"` + aTrace + `"}}`},
		{"a malformed one is replaced", `{"_meta":{"traceparent":7}}`, aTrace, "", `{"_meta":{"traceparent":"` + aTrace + `"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := withTrace(json.RawMessage(tt.params), broker.ParseTrace(tt.trace, tt.state))
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func BenchmarkACallInNoTrace(b *testing.B) {
	params := json.RawMessage(`{"name":"x","arguments":{"n":1.50},"_meta":{"x/y":1}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := withTrace(params, broker.TraceContext{}); err != nil {
			b.Fatal(err)
		}
	}
}
