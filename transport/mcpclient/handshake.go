package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"berth/broker"

	"github.com/mark3labs/mcp-go/mcp"
)

// peer is one hop to a backend, as the handshake needs it. request returns a
// *broker.Failure when no answer came.
type peer interface {
	request(ctx context.Context, method string, params json.RawMessage) (broker.Answer, error)
	notify(ctx context.Context, method string, params json.RawMessage) error
}

// runtimeIDKey is the member of `_meta` in which a backend names its life.
const runtimeIDKey = "berth/runtimeId"

// maxRuntimeID limits a reported runtime id in bytes.
const maxRuntimeID = 256

// introduction is what a backend said of itself.
type introduction struct {
	server    broker.ServerInfo
	runtimeID string // reported; may be empty
	hasTools  bool
}

// introduce performs initialize and declares capabilities. The caller sends `notifications/initialized`
// with confirm once the version is in effect on its hop.
func introduce(ctx context.Context, p peer, opts Options, capabilities string) (introduction, error) {
	params := `{"protocolVersion":"` + mcp.LATEST_LEGACY_PROTOCOL_VERSION +
		`","capabilities":` + capabilities + `,"clientInfo":` + string(opts.client().Info) + `}`
	a, err := p.request(ctx, string(mcp.MethodInitialize), json.RawMessage(params))
	if err != nil {
		return introduction{}, fmt.Errorf("initialize: %w", err)
	}
	if a.Error != nil {
		return introduction{}, fmt.Errorf("initialize: the backend answered error %d: %s", a.Error.Code, opts.foreign(a.Error.Message))
	}
	var r struct {
		ProtocolVersion string                     `json:"protocolVersion"`
		Capabilities    json.RawMessage            `json:"capabilities"`
		ServerInfo      json.RawMessage            `json:"serverInfo"`
		Instructions    string                     `json:"instructions"`
		Meta            map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(a.Result, &r); err != nil {
		return introduction{}, errors.New("initialize: the result is not the one of an MCP server")
	}
	// 2026-07-28 has no initialize, so it cannot be the outcome of one.
	if !slices.Contains(mcp.LegacyProtocolVersions(), r.ProtocolVersion) {
		return introduction{}, fmt.Errorf("initialize: the backend speaks protocol version %q, which Berth does not know", opts.foreign(r.ProtocolVersion))
	}
	in := introduction{server: broker.ServerInfo{
		ProtocolVersion: r.ProtocolVersion, Info: r.ServerInfo,
		Capabilities: r.Capabilities, Instructions: r.Instructions,
	}}
	if err := in.read(r.Meta); err != nil {
		return introduction{}, fmt.Errorf("initialize: %w", err)
	}
	return in, nil
}

func confirm(ctx context.Context, p peer) error {
	if err := p.notify(ctx, string(mcp.MethodNotificationInitialized), nil); err != nil {
		return fmt.Errorf("notifications/initialized: %w", err)
	}
	return nil
}

// listTools follows the pages of tools/list to their end. Flags say where the
// walk had to end earlier.
func listTools(ctx context.Context, p peer, opts Options) (tools []broker.Tool, flags []string, err error) {
	seen := map[string]bool{}
	var params json.RawMessage
	nameless, bytes := 0, 0
	for page := 1; ; page++ {
		a, err := p.request(ctx, string(mcp.MethodToolsList), params)
		if err != nil {
			return nil, nil, fmt.Errorf("tools/list, page %d: %w", page, err)
		}
		if a.Error != nil {
			return nil, nil, fmt.Errorf("tools/list, page %d: the backend answered error %d: %s", page, a.Error.Code, opts.foreign(a.Error.Message))
		}
		var r struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor json.RawMessage   `json:"nextCursor"`
		}
		if err := json.Unmarshal(a.Result, &r); err != nil || r.Tools == nil {
			return nil, nil, fmt.Errorf("tools/list, page %d: the result holds no list of tools", page)
		}
		for _, raw := range r.Tools {
			var t struct {
				Name string `json:"name"`
			}
			if json.Unmarshal(raw, &t) != nil || t.Name == "" {
				nameless++
				continue
			}
			tools = append(tools, broker.Tool{Name: t.Name, Raw: raw})
			bytes += len(raw)
		}
		var end string
		params, end = nextPage(r.NextCursor, seen)
		switch {
		case len(tools) > opts.MaxTools:
			tools, end = tools[:opts.MaxTools], fmt.Sprintf("tools/list has more than %d tools; the rest is left out", opts.MaxTools)
		case bytes > opts.MaxAnswer && params != nil:
			end = fmt.Sprintf("tools/list is larger than %d bytes; the rest is left out", opts.MaxAnswer)
		case page == maxPages && params != nil:
			end = fmt.Sprintf("tools/list has more than %d pages; the rest is left out", maxPages)
		}
		if end != "" {
			flags = append(flags, end)
		}
		if end != "" || params == nil {
			break
		}
	}
	if nameless > 0 {
		flags = append(flags, fmt.Sprintf("tools/list holds %d entries without a name; they are left out", nameless))
	}
	return tools, flags, nil
}

// nextPage gives the params of the next page, or nil and why there is none; an
// ordinary end needs no reason.
func nextPage(cursor json.RawMessage, seen map[string]bool) (params json.RawMessage, flag string) {
	if len(cursor) == 0 || string(cursor) == "null" || string(cursor) == `""` {
		return nil, ""
	}
	if cursor[0] != '"' {
		return nil, "tools/list gives a cursor that is no string; the rest is left out"
	}
	if seen[string(cursor)] {
		return nil, "tools/list repeats a cursor; the walk ended there"
	}
	seen[string(cursor)] = true
	return json.RawMessage(`{"cursor":` + string(cursor) + `}`), ""
}

// foreign makes text of a backend fit to stand in a cause. Credentials go
// first, as a cut through one would leave a piece of it.
func (o Options) foreign(s string) string {
	const enough = 4 << 10 // for what brief keeps, whatever is taken out
	return brief(o.Redact(s[:min(len(s), enough)]))
}

// brief keeps text to a length that fits one sentence.
func brief(s string) string {
	const limit = 200
	if len(s) <= limit {
		return s
	}
	for i := range s {
		if i > limit {
			return s[:i] + "…"
		}
	}
	return s
}

// refuse turns an error of the handshake into the one that Open returns.
func refuse(err error, stderr string, opts Options) *broker.OpenError {
	var headers *HeadersError
	if errors.As(err, &headers) {
		stderr = headers.Stderr
	}
	open := &broker.OpenError{Cause: opts.Redact(err.Error()), Stderr: opts.Redact(stderr)}
	var auth authError
	open.Auth = errors.As(err, &auth)
	return open
}

// authError marks a refusal of our credentials.
type authError struct{ error }

func (e authError) Unwrap() error { return e.error }
