package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/native"
)

// echo answers what it was asked, or fails as it is told to.
func echo(_ context.Context, ask native.Ask) (any, error) {
	var args struct {
		Text string `json:"text"`
		Fail string `json:"fail"`
	}
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	switch args.Fail {
	case "refuse":
		return nil, broker.Refuse(broker.CodeNotFound, "There is nothing.", nil)
	case "break":
		return nil, errors.New("a secret cause")
	case "stop":
		return nil, native.ErrStopped
	case "json":
		return func() {}, nil
	}
	return map[string]string{"Text": args.Text}, nil
}

func family(t *testing.T, log *strings.Builder) *native.Verbs {
	t.Helper()
	return native.NewFamily("echoes", native.Options{RuntimeID: "r1", Now: time.Now, Log: slog.New(slog.NewTextHandler(log, nil))},
		native.Verb{Name: "echo", Entry: `{"name":"echo","inputSchema":{"type":"object"}}`, Aliases: []string{"armada_echo"}, Effects: broker.Write, Control: true,
			Rules: []catalog.EffectRule{{Is: broker.Read}}, Facts: catalog.Facts{Essential: true}, Answer: echo},
		native.Verb{Name: "long", Entry: `{"name":"long","inputSchema":{"type":"object"}}`, Effects: broker.Exec, Long: true, Answer: echo},
		native.Verb{Name: "pass", Entry: `{"name":"pass"}`, Pass: catalog.PassAll, MergedOnly: true},
		native.Verb{Name: "nobody", Entry: `{"name":"nobody"}`, Beside: true})
}

func TestAFamilyIsListedAsItsTableSays(t *testing.T) {
	s := family(t, &strings.Builder{}).Source()
	if s.Family != "echoes" || !s.Native || len(s.Tools) != 4 || s.Aliases["armada_echo"] != "echo" || s.Effects["long"] != broker.Exec ||
		len(s.Conditional["echo"]) != 1 || strings.Join(s.Control, "") != "echo" || strings.Join(s.Rules.Long, "") != "long" ||
		strings.Join(s.Handlers, " ") != "echo long pass" || s.Passes["pass"] != catalog.PassAll ||
		strings.Join(s.MergedOnly, "") != "pass" || strings.Join(s.Beside, "") != "nobody" || !s.Facts["echo"].Essential {
		t.Errorf("got %+v", s)
	}
}

func TestAVerbAnswersItsCaller(t *testing.T) {
	for _, tt := range []struct {
		params, want string
		failed       *broker.Failure
		logged       string
	}{
		{params: `{"name":"echo","arguments":{"text":"<a>"}}`, want: `{"Text":"<a>"}`},
		{params: `{"name":"echo"}`, want: `{"Text":""}`},
		{params: `{"name":"echo","arguments":null}`, want: `{"Text":""}`},
		{params: `{"name":"echo","arguments":{"text":1}}`, want: `"Code":"invalid_arguments"`},
		{params: `{"name":"echo","arguments":{"fail":"refuse"}}`, want: `"Code":"not_found"`},
		{params: `{"name":"echo","arguments":{"fail":"break"}}`, want: `"Code":"internal"`, logged: "a secret cause"},
		{params: `{"name":"echo","arguments":{"fail":"json"}}`, want: `"Code":"internal"`, logged: "unsupported type"},
		{params: `{"name":"echo","arguments":{"fail":"stop"}}`, failed: native.ErrStopped},
	} {
		var log strings.Builder
		conn, err := family(t, &log).Open(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := conn.Call(t.Context(), &broker.Call{ID: "c1", Verb: "echo", Params: json.RawMessage(tt.params)}, broker.Peer{})
		text := struct {
			Content []struct{ Text string }
			IsError bool
		}{}
		if tt.failed != nil && err != error(tt.failed) || tt.failed == nil && err != nil {
			t.Errorf("%s: %v", tt.params, err)
		}
		if err == nil {
			if err := json.Unmarshal(answer.Result, &text); err != nil || len(text.Content) != 1 || !strings.Contains(text.Content[0].Text, tt.want) || answer.RuntimeID != "r1" {
				t.Errorf("%s: got %s", tt.params, answer.Result)
			}
			if strings.Contains(string(answer.Result), "secret") || text.IsError != strings.Contains(tt.want, "Code") {
				t.Errorf("%s: got %s", tt.params, answer.Result)
			}
		}
		if !strings.Contains(log.String(), tt.logged) {
			t.Errorf("%s: logged %q", tt.params, log.String())
		}
	}
}

func TestACallThatHasEndedIsNotAnswered(t *testing.T) {
	f := native.NewFamily("waits", native.Options{Now: time.Now},
		native.Verb{Name: "wait", Entry: `{"name":"wait"}`, Answer: func(ctx context.Context, ask native.Ask) (any, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-ask.Done:
				return nil, native.ErrStopped
			}
		}})
	conn, err := f.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	call := &broker.Call{Verb: "wait", Params: json.RawMessage(`{"name":"wait"}`)}
	var left *broker.Failure
	if _, err := conn.Call(gone, call, broker.Peer{}); !errors.As(err, &left) || left.Gone || !left.Dispatched {
		t.Errorf("its caller left: %v", err)
	}
	for range 2 {
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := conn.Call(t.Context(), call, broker.Peer{}); !errors.Is(err, native.ErrStopped) {
		t.Errorf("its family stopped: %v", err)
	}
	for _, name := range []string{"other", "nobody", "pass"} {
		if _, err := conn.Call(t.Context(), &broker.Call{Verb: name, Params: json.RawMessage(`{"name":"` + name + `"}`)}, broker.Peer{}); err == nil {
			t.Errorf("%s was answered", name)
		}
	}
}
