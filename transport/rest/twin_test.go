package rest_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"berth/actors"
	"berth/broker"
	"berth/broker/drain"
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

// fakeDrains says what it was asked.
type fakeDrains struct{ err error }

func (d fakeDrains) done(status, backend, reason string) (drain.Drained, error) {
	return drain.Drained{Name: backend, Status: status + " " + reason, Left: 1}, d.err
}

func (d fakeDrains) Drain(_ context.Context, _ broker.Principal, backend, reason string) (drain.Drained, error) {
	return d.done("draining", backend, reason)
}

func (d fakeDrains) Resume(_ context.Context, _ broker.Principal, backend, reason string) (drain.Drained, error) {
	return d.done("resumed", backend, reason)
}

func (d fakeDrains) Restart(_, wait context.Context, _ broker.Principal, backend, reason string) (drain.Drained, error) {
	if _, bounded := wait.Deadline(); !bounded {
		reason = "without a limit"
	}
	return d.done("restarted", backend, reason)
}

func (d fakeDrains) Idle(ctx context.Context, was drain.Drained) (drain.Drained, error) {
	<-ctx.Done()
	return was, nil
}

func TestChangesOfABackend(t *testing.T) {
	for _, tt := range []struct {
		path, body string
		change     func(*rest.Options)
		status     int
		want       string
	}{
		{"drain", `{"reason":"r"}`, nil, 200, `"Status":"draining r"`},
		{"drain?waitSeconds=1", "", nil, 200, `"Left":1`},
		{"drain?waitSeconds=x", "", nil, 400, "invalid_arguments"},
		{"drain", `[]`, nil, 400, "invalid_arguments"},
		{"resume", `{"Reason":"r"}`, nil, 200, `"Status":"resumed r"`},
		{"restart", `{"Reason":"r"}`, nil, 200, `"Status":"restarted r"`},
		{"drain", ``, func(o *rest.Options) { o.Drains = nil }, 404, "not_found"},
		{"drain", ``, func(o *rest.Options) { o.ReadOnly = true }, 403, "read_only"},
		{"drain", ``, func(o *rest.Options) {
			o.Drains = fakeDrains{broker.Refuse(broker.CodeBackendDraining, "No.", nil)}
		}, 503, "backend_draining"},
	} {
		f := newFake(t)
		var change []func(*rest.Options)
		if tt.change != nil {
			change = append(change, tt.change)
		}
		status, body := ask(t, f.handler(nil, change...), "POST", "/api/v1/backends/files/"+tt.path, tt.body)
		if status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, status, body)
		}
	}
}
