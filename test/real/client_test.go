package real

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// client is an MCP client on mcp-go's transports, which give results as they
// came over the wire.
type client struct {
	t      *testing.T
	name   string
	hop    transport.Interface
	lastID atomic.Int64
	notes  chan mcp.JSONRPCNotification
	server json.RawMessage // the result of initialize
}

// overHTTP connects to a streamable HTTP endpoint; token may be empty.
func overHTTP(t *testing.T, name, url, token string) *client {
	t.Helper()
	base := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(base.CloseIdleConnections)
	options := []transport.StreamableHTTPCOption{transport.WithHTTPBasicClient(&http.Client{Transport: base})}
	if token != "" {
		options = append(options, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + token}))
	}
	hop, err := transport.NewStreamableHTTP(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	return handshake(t, name, hop)
}

// overStdio connects to a program that is started for it.
func overStdio(t *testing.T, name string, env, line []string) *client {
	t.Helper()
	return handshake(t, name, transport.NewStdioWithOptions(line[0], nil, line[1:],
		transport.WithCommandFunc(func(_ context.Context, command string, _, args []string) (*exec.Cmd, error) {
			cmd := exec.Command(command, args...)
			cmd.Env = env
			return cmd, nil
		})))
}

func handshake(t *testing.T, name string, hop transport.Interface) *client {
	t.Helper()
	c := &client{t: t, name: name, hop: hop, notes: make(chan mcp.JSONRPCNotification, 4096)}
	hop.SetNotificationHandler(func(n mcp.JSONRPCNotification) {
		select {
		case c.notes <- n:
		default:
			t.Errorf("%s: more notifications than a test can want", name)
		}
	})
	if err := hop.Start(context.Background()); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := hop.Close(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Errorf("%s: close: %v", name, err)
		}
	})
	a := c.request("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "berth-real", "version": "1"}})
	if a.Error != nil {
		t.Fatalf("%s: initialize: %+v", name, a.Error)
	}
	c.server = a.Result
	if h, ok := hop.(transport.HTTPConnection); ok {
		h.SetProtocolVersion("2025-11-25")
	}
	c.notify("notifications/initialized", nil)
	return c
}

// answer is what came back, as it came.
type answer struct {
	Result json.RawMessage
	Error  *mcp.JSONRPCErrorDetails
}

// request waits for the answer.
func (c *client) request(method string, params any) answer {
	c.t.Helper()
	a, err := c.send(c.lastID.Add(1), method, params)
	if err != nil {
		c.t.Fatalf("%s: %s %v: %v", c.name, method, params, err)
	}
	return a
}

func (c *client) send(id int64, method string, params any) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r, err := c.hop.SendRequest(ctx, transport.JSONRPCRequest{JSONRPC: "2.0", ID: mcp.NewRequestId(id), Method: method, Params: params})
	if err != nil {
		return answer{}, err
	}
	return answer{r.Result, r.Error}, nil
}

func (c *client) notify(method string, params map[string]any) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	n := mcp.JSONRPCNotification{JSONRPC: "2.0"}
	n.Method, n.Params.AdditionalFields = method, params
	if err := c.hop.SendNotification(ctx, n); err != nil {
		c.t.Fatalf("%s: %s: %v", c.name, method, err)
	}
}

func (c *client) call(tool string, arguments any) answer {
	c.t.Helper()
	return c.request("tools/call", map[string]any{"name": tool, "arguments": arguments})
}

// inFlight is a call that runs beside the test.
type inFlight struct {
	id   int64
	done chan error
	answer
}

// begin calls with a progress token, its id.
func (c *client) begin(tool string, arguments any) *inFlight {
	f := &inFlight{id: c.lastID.Add(1), done: make(chan error, 1)}
	go func() {
		var err error
		f.answer, err = c.send(f.id, "tools/call", map[string]any{"name": tool, "arguments": arguments, "_meta": map[string]any{"progressToken": f.id}})
		f.done <- err
	}()
	return f
}

// wait gives the answer.
func (f *inFlight) wait(t *testing.T) answer {
	t.Helper()
	if err := <-f.done; err != nil { // send is bounded
		t.Fatalf("no answer: %v", err)
	}
	return f.answer
}

// list follows the pages of tools/list; entries are by name, names in order.
func (c *client) list() (names []string, entries map[string]json.RawMessage) {
	c.t.Helper()
	entries = map[string]json.RawMessage{}
	params := map[string]any{}
	for range 100 {
		a := c.request("tools/list", params)
		var page struct {
			Tools      []json.RawMessage
			NextCursor string
		}
		if a.Error != nil || json.Unmarshal(a.Result, &page) != nil {
			c.t.Fatalf("%s: tools/list: %+v %s", c.name, a.Error, a.Result)
		}
		for _, raw := range page.Tools {
			var tool struct{ Name string }
			if err := json.Unmarshal(raw, &tool); err != nil {
				c.t.Fatal(err)
			}
			names, entries[tool.Name] = append(names, tool.Name), raw
		}
		if page.NextCursor == "" {
			return names, entries
		}
		params["cursor"] = page.NextCursor
	}
	c.t.Fatalf("%s: tools/list has no end", c.name)
	return nil, nil
}

// tree decodes JSON with numbers as they are written.
func tree(t *testing.T, raw []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}

// without is an object less some members.
func without(v any, members ...string) any {
	o, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for k, member := range o {
		if !slices.Contains(members, k) {
			out[k] = member
		}
	}
	return out
}
