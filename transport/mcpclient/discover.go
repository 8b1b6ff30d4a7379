package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/broker"

	"github.com/mark3labs/mcp-go/mcp"
)

// statelessVersion is the one version of the stateless era that Berth speaks.
const statelessVersion = mcp.ProtocolVersion20260728

// probeWait is how long the answer to server/discover is waited for before
// initialize is sent too: servers of the handshake era exist that do not
// answer what comes before initialize.
const probeWait = 3 * time.Second

// client is what Berth says of itself, in requests of its own.
func (o Options) client() broker.Client {
	version, _ := json.Marshal(o.Version) // a string always encodes
	return broker.Client{
		Info:         json.RawMessage(`{"name":"berth","version":` + string(version) + `}`),
		Capabilities: json.RawMessage(clientCapabilities),
	}
}

// errUnprobed marks the end of a life that came before an answer to
// server/discover: it may have been the question that ended it.
type errUnprobed struct{ error }

func (e errUnprobed) Unwrap() error { return e.error }

// met is one side of the race for what era a backend is of.
type met struct {
	in  introduction
	err error
}

// meet finds out of what era a backend is and what it says of itself. The
// stateless era is asked for first, unless probe is false; whatever is no
// answer of that era leads to the handshake.
func meet(ctx context.Context, p peer, opts Options, probe bool) (in introduction, stateless bool, err error) {
	if !probe {
		in, err = introduce(ctx, p, opts, clientCapabilities)
		return in, false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	discovered, initialized := make(chan met, 1), make(chan met, 1)
	probing, handshake := true, false
	defer func() {
		cancel()
		// Both end with ctx; what they say then is of no use.
		if probing {
			<-discovered
		}
		if handshake {
			<-initialized
		}
	}()
	go func() {
		in, err := discover(ctx, p, opts)
		discovered <- met{in, err}
	}()
	patience := time.NewTimer(probeWait)
	defer patience.Stop()
	start := func() {
		handshake = true
		go func() {
			in, err := introduce(ctx, p, opts, clientCapabilities)
			initialized <- met{in, err}
		}()
	}
	var failed error // the handshake's
	for {
		select {
		case m := <-discovered:
			probing = false
			var f *broker.Failure
			switch {
			case m.err == nil:
				return m.in, true, nil
			case errors.As(m.err, &f) && f.Gone && errors.As(m.err, new(authError)):
				return in, false, m.err
			case errors.As(m.err, &f) && f.Gone:
				return in, false, errUnprobed{m.err}
			case failed != nil:
				return in, false, failed
			case !handshake:
				start()
			}
		case m := <-initialized:
			handshake = false
			switch {
			case m.err == nil:
				return m.in, false, nil
			case !probing:
				return in, false, m.err
			case ctx.Err() != nil:
				return in, false, m.err
			}
			failed = m.err // a backend of the stateless era would say no too
		case <-patience.C:
			if !handshake {
				start()
			}
		}
	}
}

// errHandshake says that a backend does not offer the stateless era.
var errHandshake = errors.New("server/discover: the backend does not speak " + statelessVersion)

// discover asks for the stateless era.
func discover(ctx context.Context, p peer, opts Options) (introduction, error) {
	params, err := dress(nil, statelessVersion, opts.client(), "")
	if err != nil {
		return introduction{}, fmt.Errorf("server/discover: %w", err)
	}
	a, err := p.request(ctx, string(mcp.MethodServerDiscover), params)
	if err != nil {
		return introduction{}, fmt.Errorf("server/discover: %w", err)
	}
	var r struct {
		Supported    []string                   `json:"supportedVersions"`
		Capabilities json.RawMessage            `json:"capabilities"`
		ServerInfo   json.RawMessage            `json:"serverInfo"`
		Instructions string                     `json:"instructions"`
		Meta         map[string]json.RawMessage `json:"_meta"`
	}
	if a.Error != nil || json.Unmarshal(a.Result, &r) != nil || !slices.Contains(r.Supported, statelessVersion) {
		return introduction{}, errHandshake
	}
	if onlyOldTasks(r.Capabilities) && slices.ContainsFunc(r.Supported, func(v string) bool { return v < statelessVersion }) {
		return introduction{}, errHandshake
	}
	in := introduction{server: broker.ServerInfo{
		ProtocolVersion: statelessVersion, Info: r.ServerInfo,
		Capabilities: r.Capabilities, Instructions: r.Instructions,
	}}
	if info, ok := r.Meta[mcp.MetaKeyServerInfo]; ok {
		in.server.Info = info
	}
	return in, in.read(r.Meta)
}

// onlyOldTasks reports whether a backend declares tasks in the form of
// 2025-11-25 and not as the extension that took their place. Its tools that are
// tasks can be called in that version alone: no later one fetches their results.
func onlyOldTasks(capabilities json.RawMessage) bool {
	var c struct {
		Tasks      map[string]json.RawMessage `json:"tasks"`
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	return json.Unmarshal(capabilities, &c) == nil && c.Tasks != nil && c.Extensions["io.modelcontextprotocol/tasks"] == nil
}

// read takes what both eras say in the same way.
func (in *introduction) read(meta map[string]json.RawMessage) error {
	var caps map[string]json.RawMessage
	if raw := in.server.Capabilities; len(raw) > 0 && json.Unmarshal(raw, &caps) != nil {
		return errors.New("the capabilities are not an object")
	}
	if tools, ok := caps["tools"]; ok && string(tools) != "null" {
		in.hasTools = true
	}
	if raw, ok := meta[runtimeIDKey]; ok {
		var id string
		if json.Unmarshal(raw, &id) == nil && len(id) <= maxRuntimeID {
			in.runtimeID = id
		}
	}
	return nil
}
