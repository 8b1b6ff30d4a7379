//lint:file-ignore SA1019 what the newer era deprecates must pass all the same

package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"berth/broker"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// This file holds the connection against servers of the official SDK, in every
// way that they can be reached.

// official is a server of the official SDK with one of each kind of tool.
func official() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "official", Version: "1"}, &sdk.ServerOptions{
		Instructions: "none", SubscribeHandler: func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{r.Params.Argument.Value + "!"}}}, nil
		},
	})
	text := func(format string, args ...any) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	sdk.AddTool(s, &sdk.Tool{Name: "ask"}, func(ctx context.Context, r *sdk.CallToolRequest, _ any) (*sdk.CallToolResult, any, error) {
		a, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "name?"})
		if err != nil {
			return nil, nil, err
		}
		return text("%s %v", a.Action, a.Content["name"]), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "input"}, func(_ context.Context, r *sdk.CallToolRequest, _ any) (*sdk.CallToolResult, any, error) {
		if got := r.Params.InputResponses; got != nil {
			roots := got["roots"].(*sdk.ListRootsResult).Roots
			return text("%s %d %s", got["name"].(*sdk.ElicitResult).Content["name"], len(roots), r.Params.RequestState), nil, nil
		}
		return &sdk.CallToolResult{RequestState: "state-1", InputRequests: sdk.InputRequestMap{
			"name": &sdk.ElicitParams{Message: "name?"}, "roots": &sdk.ListRootsParams{},
		}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "log"}, func(ctx context.Context, r *sdk.CallToolRequest, _ any) (*sdk.CallToolResult, any, error) {
		if err := r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: "hello"}); err != nil {
			return nil, nil, err
		}
		if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1}); err != nil {
			return nil, nil, err
		}
		who, _ := json.Marshal(r.ClientInfo())
		return text("%s", who), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "header", InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"in":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}`)},
		func(_ context.Context, r *sdk.CallToolRequest, _ any) (*sdk.CallToolResult, any, error) {
			return text("%s", r.Params.Arguments), nil, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "change"}, func(ctx context.Context, r *sdk.CallToolRequest, _ any) (*sdk.CallToolResult, any, error) {
		sdk.AddTool(s, &sdk.Tool{Name: "added"}, func(context.Context, *sdk.CallToolRequest, any) (*sdk.CallToolResult, any, error) {
			return text("added"), nil, nil
		})
		s.AddPrompt(&sdk.Prompt{Name: "p"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{}, nil
		})
		return text("changed"), nil, s.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: "test://r"})
	})
	sdk.AddTool(s, &sdk.Tool{Name: "wait"}, func(ctx context.Context, r *sdk.CallToolRequest, _ any) (*sdk.CallToolResult, any, error) {
		if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1}); err != nil {
			return nil, nil, err
		}
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	s.AddResource(&sdk.Resource{URI: "test://r", Name: "r"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://r", Text: "body"}}}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "first"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Description: "d"}, nil
	})
	return s
}

// reach opens a server of the SDK in one of the ways that there are.
type reach struct {
	name  string
	era   string // the version that must be spoken
	stdio bool
	open  func(t *testing.T, s *sdk.Server, hear broker.Hear) broker.Conn
}

func overHTTP(isStateless bool) func(*testing.T, *sdk.Server, broker.Hear) broker.Conn {
	return func(t *testing.T, s *sdk.Server, hear broker.Hear) broker.Conn {
		handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: isStateless, PropagateRequestCancellation: true})
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		c, err := NewHTTP(HTTPConfig{URL: server.URL}, Options{}).Open(t.Context(), hear)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		return c
	}
}

// inProcess is a child that is a goroutine.
type inProcess struct {
	in, out io.Closer
	stop    context.CancelFunc
	done    chan struct{}
}

func (p *inProcess) Done() <-chan struct{} { return p.done }
func (p *inProcess) ExitReason() string    { return "" }
func (p *inProcess) StderrTail() string    { return "" }
func (p *inProcess) Stop(context.Context) error {
	p.stop()
	p.in.Close()
	p.out.Close()
	<-p.done
	return nil
}

func overPipes(opts Options, wrap func(sdk.Transport) sdk.Transport) func(*testing.T, *sdk.Server, broker.Hear) broker.Conn {
	return func(t *testing.T, s *sdk.Server, hear broker.Hear) broker.Conn {
		start := func(context.Context) (Child, error) {
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			ctx, cancel := context.WithCancel(context.Background())
			p := &inProcess{in: inR, out: outW, stop: cancel, done: make(chan struct{})}
			go func() {
				defer close(p.done)
				s.Run(ctx, wrap(&sdk.IOTransport{Reader: inR, Writer: outW}))
				inR.Close()
				outW.Close()
			}()
			return Child{Stdin: inW, Stdout: outR, PID: 1, Life: p}, nil
		}
		c, err := NewStdio(StdioConfig{Start: start}, opts).Open(t.Context(), hear)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		return c
	}
}

func asItIs(t sdk.Transport) sdk.Transport    { return t }
func handshake(t sdk.Transport) sdk.Transport { return legacyOnly{t} }

// legacyOnly is a transport that serves the handshake era alone.
type legacyOnly struct{ sdk.Transport }

func (legacyOnly) SupportsProtocolVersion(v string) bool { return v < statelessVersion }

var reaches = []reach{
	{"HTTP with a session", "2025-11-25", false, overHTTP(false)},
	{"HTTP without", "2026-07-28", false, overHTTP(true)},
	{"stdio of the handshake era", "2025-11-25", true, overPipes(Options{}, handshake)},
	{"stdio of the stateless era", "2026-07-28", true, overPipes(Options{}, asItIs)},
	{"stdio of either era", "2025-11-25", true, overPipes(Options{Handshake: true}, asItIs)},
}

func everyReach(t *testing.T, f func(t *testing.T, r reach)) {
	for _, r := range reaches {
		t.Run(r.name, func(t *testing.T) { f(t, r) })
	}
}

// ofEra makes a call of a harness of either era that can be asked anything.
func ofEra(isStateless bool, method, params string) *broker.Call {
	c := of("a")
	c.Method, c.Params = method, json.RawMessage(params)
	c.Client = broker.Client{
		Version: "2025-11-25", Info: json.RawMessage(`{"name":"harness","version":"7"}`),
		Capabilities: json.RawMessage(`{"roots":{},"sampling":{},"elicitation":{}}`),
	}
	if isStateless {
		c.Client.Version, c.Client.Stateless = statelessVersion, true
		with, err := dress(c.Params, statelessVersion, c.Client, "info")
		if err != nil {
			panic(err)
		}
		c.Params = with
	}
	return c
}

// person answers whatever a harness of the handshake era is asked.
func person(t *testing.T) broker.Peer {
	return broker.Peer{Request: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, *broker.RPCError) {
		switch method {
		case "elicitation/create":
			if !strings.Contains(string(params), `"message":"name?"`) {
				t.Errorf("asked %s", params)
			}
			return json.RawMessage(`{"action":"accept","content":{"name":"Ada"}}`), nil
		case "roots/list":
			return json.RawMessage(`{"roots":[{"uri":"file:///a"},{"uri":"file:///b"}]}`), nil
		}
		t.Errorf("asked for %s", method)
		return nil, broker.NoPeer("no")
	}}
}

func mustCall(t *testing.T, c broker.Conn, cl *broker.Call, peer broker.Peer) string {
	t.Helper()
	a, err := c.Call(t.Context(), cl, peer)
	if err != nil {
		t.Fatalf("%s: %v", cl.Method, err)
	}
	if a.Error != nil {
		t.Fatalf("%s: %s", cl.Method, a.Error.Object())
	}
	return string(a.Result)
}

func TestTheEraOfAServerIsFoundOut(t *testing.T) {
	everyReach(t, func(t *testing.T, r reach) {
		c := r.open(t, official(), nil)
		inc := c.Incarnation()
		if inc.Server.ProtocolVersion != r.era || len(inc.Tools) != 6 || inc.Server.Instructions != "none" ||
			!strings.Contains(string(inc.Server.Info), `"official"`) || !strings.Contains(string(inc.Server.Capabilities), `"completions"`) {
			t.Errorf("incarnation %+v", inc)
		}
		if wanted := r.era == "2025-11-25" || r.stdio; (inc.RuntimeID != "") != wanted {
			t.Errorf("runtime id %q", inc.RuntimeID)
		}
	})
}

func TestEveryMethodPassesInBothEras(t *testing.T) {
	everyReach(t, func(t *testing.T, r reach) {
		c := r.open(t, official(), nil)
		for _, isStateless := range []bool{false, true} {
			for method, tc := range map[string]struct{ params, want string }{
				"tools/call":               {`{"name":"header","arguments":{"region":"Zürich","in":{"n":3}}}`, `{\"region\":\"Zürich\",\"in\":{\"n\":3}}`},
				"resources/read":           {`{"uri":"test://r"}`, `"body"`},
				"resources/list":           {``, `"test://r"`},
				"resources/templates/list": {`{}`, `"resourceTemplates"`},
				"prompts/get":              {`{"name":"first"}`, `"d"`},
				"prompts/list":             {`{}`, `"first"`},
				"completion/complete":      {`{"ref":{"type":"ref/prompt","name":"first"},"argument":{"name":"a","value":"v"}}`, `"v!"`},
			} {
				got := mustCall(t, c, ofEra(isStateless, method, tc.params), person(t))
				if !strings.Contains(got, tc.want) {
					t.Errorf("%s, stateless %v: %s", method, isStateless, got)
				}
				if !isStateless && strings.Contains(got, eraPrefix) {
					t.Errorf("%s tells a handshake-era harness of the other era: %s", method, got)
				}
			}
		}
	})
}

func TestAHandshakeHarnessIsAskedByServersOfBothEras(t *testing.T) {
	everyReach(t, func(t *testing.T, r reach) {
		c := r.open(t, official(), nil)
		got := mustCall(t, c, ofEra(false, "tools/call", `{"name":"input"}`), person(t))
		if !strings.Contains(got, `Ada 2 state-1`) {
			t.Errorf("input: %s", got)
		}
		if r.era == "2025-11-25" {
			if got := mustCall(t, c, ofEra(false, "tools/call", `{"name":"ask"}`), person(t)); !strings.Contains(got, "accept Ada") {
				t.Errorf("ask: %s", got)
			}
		}
	})
}

func TestAStatelessHarnessAnswersAStatelessServerItself(t *testing.T) {
	for _, r := range reaches {
		if r.era != statelessVersion {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			c := r.open(t, official(), nil)
			got := mustCall(t, c, ofEra(true, "tools/call", `{"name":"input"}`), broker.Peer{})
			for _, want := range []string{`"resultType":"input_required"`, `"requestState":"state-1"`, `"elicitation/create"`, eraPrefix + `/serverInfo`} {
				if !strings.Contains(got, want) {
					t.Errorf("no %s in %s", want, got)
				}
			}
			got = mustCall(t, c, ofEra(true, "tools/call", `{"name":"input","requestState":"state-1","inputResponses":{"name":{"action":"accept","content":{"name":"Bo"}},"roots":{"roots":[]}}}`), broker.Peer{})
			if !strings.Contains(got, `Bo 0 state-1`) {
				t.Errorf("result %s", got)
			}
		})
	}
}

func TestLogMessagesAndProgressReachTheCall(t *testing.T) {
	everyReach(t, func(t *testing.T, r reach) {
		hear, outside := heard()
		c := r.open(t, official(), hear)
		mustCall(t, c, ofEra(false, "logging/setLevel", `{"level":"info"}`), broker.Peer{})
		for _, isStateless := range []bool{false, true} {
			cl := ofEra(isStateless, "tools/call", `{"name":"log"}`)
			cl.WantProgress = true
			peer := person(t)
			var got []string
			var mu sync.Mutex
			peer.Notify = func(method string, params json.RawMessage) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, method+" "+string(params))
			}
			peer.Progress = func(p broker.Progress) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, string(p.Params))
			}
			result := mustCall(t, c, cl, peer)
			if all := strings.Join(got, "\n"); strings.Count(all, "\n") != 1 || !strings.Contains(all, `notifications/message {`) || !strings.Contains(all, `"hello"`) || !strings.Contains(all, `"progress":1`) {
				t.Errorf("stateless %v: the caller got %s", isStateless, all)
			}
			if r.era == statelessVersion && !strings.Contains(result, `harness`) {
				t.Errorf("the server was told %s", result)
			}
		}
		if len(outside) > 0 {
			t.Errorf("heard %s", <-outside)
		}
	})
}

func TestChangesAreHeardFromServersOfBothEras(t *testing.T) {
	everyReach(t, func(t *testing.T, r reach) {
		hear, outside := heard()
		c := r.open(t, official(), hear)
		if got := mustCall(t, c, ofEra(false, "resources/subscribe", `{"uri":"test://r"}`), broker.Peer{}); !strings.HasPrefix(got, "{") {
			t.Errorf("subscribed %s", got)
		}
		for len(outside) > 0 { // a stream was opened anew
			<-outside
		}
		mustCall(t, c, ofEra(false, "tools/call", `{"name":"change"}`), broker.Peer{})
		want := map[string]bool{toolsChanged: true, promptsChanged: true, resourceUpdated + ` {"uri":"test://r"}`: true}
		for len(want) > 0 {
			got := <-outside
			if strings.Contains(got, eraPrefix) {
				t.Errorf("heard %s", got)
			}
			delete(want, got)
			delete(want, strings.Fields(got)[0])
		}
		tools, _, err := c.List(t.Context())
		if err != nil || len(tools) != 7 {
			t.Errorf("%d tools, %v", len(tools), err)
		}
		mustCall(t, c, ofEra(false, "resources/unsubscribe", `{"uri":"test://r"}`), broker.Peer{})
	})
}

func TestACancelReachesServersOfBothEras(t *testing.T) {
	everyReach(t, func(t *testing.T, r reach) {
		c := r.open(t, official(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cl := ofEra(false, "tools/call", `{"name":"wait"}`)
		cl.WantProgress = true
		a, err := c.Call(ctx, cl, broker.Peer{Progress: func(broker.Progress) { cancel() }})
		if err != nil {
			if f := failure(t, err); f.Abandoned || f.Gone || !f.Dispatched {
				t.Errorf("failure %+v", f)
			}
		} else if a.Error == nil && !a.ToolError() {
			t.Errorf("answer %s", a.Result)
		}
		if got := mustCall(t, c, ofEra(false, "resources/list", ``), broker.Peer{}); got == "" {
			t.Error("the next call got nothing")
		}
	})
}
