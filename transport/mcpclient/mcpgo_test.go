package mcpclient

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"berth/broker"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// This file holds the connection against servers of mcp-go, which send much of
// what belongs to a call on another stream than the call's.

func ofMCPGo() *server.MCPServer {
	s := server.NewMCPServer("mcp-go", "1", server.WithToolCapabilities(true), server.WithElicitation())
	s.AddTool(mcp.NewTool("progress"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 5 {
			// It fails when mcp-go's own queue is full.
			s.SendNotificationToClient(ctx, progressMethod, map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": i + 1, "message": r.GetString("who", "")})
		}
		return mcp.NewToolResultText("done " + r.GetString("who", "")), nil
	})
	s.AddTool(mcp.NewTool("ask"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		a, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{Message: "name?", RequestedSchema: map[string]any{"type": "object"}}})
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(fmt.Sprint(a.Action)), nil
	})
	return s
}

var mcpGoReaches = map[string]func(t *testing.T, opts Options) broker.Conn{
	"HTTP": func(t *testing.T, opts Options) broker.Conn {
		s := httptest.NewServer(server.NewStreamableHTTPServer(ofMCPGo()))
		t.Cleanup(s.Close)
		c, err := NewHTTP(HTTPConfig{URL: s.URL}, opts).Open(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		return c
	},
	"stdio": func(t *testing.T, opts Options) broker.Conn {
		start := func(context.Context) (Child, error) {
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			ctx, cancel := context.WithCancel(context.Background())
			p := &inProcess{in: inR, out: outW, stop: cancel, done: make(chan struct{})}
			go func() {
				defer close(p.done)
				s := server.NewStdioServer(ofMCPGo())
				s.SetErrorLogger(log.New(io.Discard, "", 0))
				s.Listen(ctx, inR, outW)
			}()
			return Child{Stdin: inW, Stdout: outR, PID: 1, Life: p}, nil
		}
		c, err := NewStdio(StdioConfig{Start: start}, opts).Open(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		return c
	},
}

func everyMCPGo(t *testing.T, f func(t *testing.T, c broker.Conn, era string)) {
	for name, open := range mcpGoReaches {
		for era, opts := range map[string]Options{"2026-07-28": {}, "2025-11-25": {Handshake: true}} {
			t.Run(name+" "+era, func(t *testing.T) {
				c := open(t, opts)
				if inc := c.Incarnation(); inc.Server.ProtocolVersion != era || len(inc.Tools) != 2 {
					t.Fatalf("incarnation %+v", inc)
				}
				f(t, c, era)
			})
		}
	}
}

func TestProgressOfServersOfMCPGoFindsItsCall(t *testing.T) {
	const callers, calls = 16, 10
	everyMCPGo(t, func(t *testing.T, c broker.Conn, _ string) {
		if c.Incarnation().PID != 0 {
			t.Skip("its servers on stdio share one queue in a process, whatever server it is for")
		}
		var seen atomic.Int64
		defer func() {
			if seen.Load() == 0 {
				t.Error("no progress at all")
			}
		}()
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for range calls {
					cl := ofEra(false, "tools/call", fmt.Sprintf(`{"name":"progress","arguments":{"who":"caller %d"}}`, i))
					cl.Session, cl.WantProgress = fmt.Sprint(i), true
					a, err := c.Call(t.Context(), cl, broker.Peer{Progress: func(p broker.Progress) {
						seen.Add(1)
						if message, _ := text(p.Params, "message"); message != fmt.Sprint("caller ", i) {
							t.Errorf("caller %d got %s", i, p.Params)
						}
					}})
					if err != nil || !strings.Contains(string(a.Result), fmt.Sprintf(`"done caller %d"`, i)) {
						t.Errorf("answer %s, %v, %v", a.Result, a.Error, err)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestServersOfMCPGoAsk(t *testing.T) {
	everyMCPGo(t, func(t *testing.T, c broker.Conn, era string) {
		a, err := c.Call(t.Context(), ofEra(false, "tools/call", `{"name":"ask"}`), person(t))
		if err != nil {
			t.Fatal(err)
		}
		// A child keeps to the era that it was first spoken to in.
		cannot := era == "2026-07-28" && c.Incarnation().PID != 0
		if got := string(a.Result); cannot != (a.Error != nil) || !cannot && !strings.Contains(got, "accept") {
			t.Errorf("answer %s %+v", got, a.Error)
		}
	})
}
