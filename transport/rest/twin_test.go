package rest_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"berth/actors"
	"berth/broker"
	"berth/transport/rest"
)

func TestATwinCallsItsVerb(t *testing.T) {
	for _, tt := range []struct{ method, body, arguments string }{
		{"GET", "", `{}`},
		{"POST", `{}`, `{}`},
		{"POST", `{"Action":"engage","reason":"<x>","SETBY":"a"}`, `{"action":"engage","reason":"<x>","setBy":"a"}`},
		{"POST", `{"Action":"","Reason":null}`, `{"action":""}`},
	} {
		f := newFake(t)
		f.withTwins(t)
		status, body := ask(t, f.handler(nil), tt.method, "/api/v1/hold", tt.body)
		if status != 200 || strings.TrimSpace(body) != `{"Done":true}` {
			t.Errorf("%s %s: %d %s", tt.method, tt.body, status, body)
			continue
		}
		var params struct {
			Name      string
			Arguments json.RawMessage
		}
		call := f.requests[0].Call
		if err := json.Unmarshal(call.Params, &params); err != nil || params.Name != "dispatch_hold" {
			t.Errorf("called with %s", call.Params)
		}
		// An empty text for an optional property is as good as none.
		if got := string(params.Arguments); got != tt.arguments && !(strings.Contains(tt.body, `"Action":""`) && got == `{}`) {
			t.Errorf("%s: arguments %s", tt.body, got)
		}
	}
}

func TestATwinsRefusalsHaveStatusAndBody(t *testing.T) {
	refusal := func(code broker.Code) json.RawMessage {
		native := broker.Refuse(code, "No <b>.", map[string]any{"N": json.RawMessage(`1.10`), "A": "x"}).NativeJSON()
		return json.RawMessage(`{"content":[],"isError":true,"structuredContent":` + string(native) + `}`)
	}
	for name, tt := range map[string]struct {
		change func(*fake)
		status int
		want   string
	}{
		"its own":       {func(f *fake) { f.twin = refusal(broker.CodeDispatchHold) }, 409, `{"Error":"No <b>.","Code":"dispatch_hold_active","A":"x","N":1.10}`},
		"a bad request": {func(f *fake) { f.twin = refusal(broker.CodeMissingSetBy) }, 400, `"Code":"missing_set_by","A":"x"`},
		"retryable":     {func(f *fake) { f.twin = refusal(broker.CodeShuttingDown) }, 503, `"Retryable":true`},
		"only reading":  {func(f *fake) { f.twin = refusal(broker.CodeReadOnly) }, 403, `"Code":"read_only"`},
		"of the broker": {func(f *fake) {
			f.do = replies(actors.Reply{Refusal: broker.Refuse(broker.CodeOverloaded, "Full.", nil)})
		}, 429, `overloaded`},
		"cancelled":       {func(f *fake) { f.do = replies(actors.Reply{Cancelled: true}) }, 400, `cancelled`},
		"a strange reply": {func(f *fake) { f.do = replies(actors.Reply{}) }, 500, `internal`},
		"a strange text":  {func(f *fake) { f.twin = json.RawMessage(`[]`) }, 500, `internal`},
		"a strange no":    {func(f *fake) { f.twin = json.RawMessage(`{"isError":true,"structuredContent":[]}`) }, 500, `internal`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.withTwins(t)
			tt.change(f)
			status, body := ask(t, f.handler(nil), "POST", "/api/v1/hold", `{"Action":"clear"}`)
			if status != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	t.Run("a process that only reads", func(t *testing.T) {
		f := newFake(t)
		f.withTwins(t)
		status, body := ask(t, f.handler(nil, func(o *rest.Options) { o.ReadOnly = true }), "POST", "/api/v1/hold", `{"Action":"clear"}`)
		if status != 403 || len(f.requests) > 0 {
			t.Errorf("%d %s", status, body)
		}
	})
}

func replies(r actors.Reply) func(context.Context, actors.Request) actors.Reply {
	return func(context.Context, actors.Request) actors.Reply { return r }
}
