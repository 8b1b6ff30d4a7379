package mcpclient

import (
	"bytes"
	"encoding/json"

	"berth/broker"
	"berth/transport/jsonrpc"

	"github.com/mark3labs/mcp-go/mcp"
)

// This file keeps the two eras apart in `_meta`: what each request of the
// stateless era says of its client, and what a result says of its server,
// stands in keys that the other era does not know.

// eraPrefix is what the keys of the stateless era begin with. It has no slash,
// as some encoders escape that.
const eraPrefix = "io.modelcontextprotocol"

// ofRequest reports whether a key of `_meta` is one that a client of the
// stateless era describes itself with.
func ofRequest(name string) bool {
	switch name {
	case mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientInfo, mcp.MetaKeyClientCapabilities, mcp.MetaKeyLogLevel:
		return true
	}
	return false
}

func ofResult(name string) bool { return name == mcp.MetaKeyServerInfo }

func ofSubscription(name string) bool { return name == mcp.MetaKeySubscriptionID }

// undressed gives the params of a call as a backend of the handshake era
// takes them.
func undressed(call *broker.Call) (json.RawMessage, error) {
	params, err := withTrace(call.Params, call.Trace)
	if err != nil || !call.Client.Stateless {
		return params, err
	}
	return trimMeta(params, ofRequest)
}

// trimMeta gives object without the members of its `_meta` that drop names,
// and without `_meta` when nothing else was in it.
func trimMeta(object json.RawMessage, drop func(name string) bool) (json.RawMessage, error) {
	if !bytes.Contains(object, []byte(eraPrefix)) {
		return object, nil
	}
	o, err := jsonrpc.ParseObject(object)
	if err != nil {
		return nil, err
	}
	raw, ok := o.Get("_meta")
	if !ok || raw[0] != '{' {
		return object, nil
	}
	meta, err := jsonrpc.ParseObject(raw)
	switch {
	case err != nil:
		return nil, err
	case !meta.DeleteFunc(drop):
		return object, nil
	case meta.Len() == 0:
		o.Delete("_meta")
	default:
		o.Set("_meta", meta.Bytes())
	}
	return o.Bytes(), nil
}

// dress gives params as a backend of the stateless era takes them: with what
// they need to say of the client. What they say already stays, but for the
// version, which is that of this hop.
func dress(params json.RawMessage, version string, client broker.Client, level string) (json.RawMessage, error) {
	if len(bytes.TrimSpace(params)) == 0 {
		params = json.RawMessage(`{}`)
	}
	o, err := jsonrpc.ParseObject(params)
	if err != nil {
		return nil, err
	}
	raw, ok := o.Get("_meta")
	if !ok || string(raw) == "null" {
		raw = json.RawMessage(`{}`)
	}
	meta, err := jsonrpc.ParseObject(raw)
	if err != nil {
		return nil, err
	}
	add := func(key string, value json.RawMessage) {
		if _, has := meta.Get(key); !has && len(value) > 0 {
			meta.Set(key, value)
		}
	}
	meta.Set(mcp.MetaKeyProtocolVersion, jsonrpc.Quote(version))
	add(mcp.MetaKeyClientInfo, client.Info)
	if client.Capabilities == nil {
		client.Capabilities = json.RawMessage(`{}`)
	}
	add(mcp.MetaKeyClientCapabilities, client.Capabilities)
	if level != "" {
		add(mcp.MetaKeyLogLevel, jsonrpc.Quote(level))
	}
	o.Set("_meta", meta.Bytes())
	return o.Bytes(), nil
}

// subscriptionID gives the request that opened the stream which a notification
// says that it belongs to.
func subscriptionID(params json.RawMessage) (int64, bool) {
	if !bytes.Contains(params, []byte(eraPrefix)) {
		return 0, false
	}
	meta, _ := get(params, "_meta")
	id, _ := get(meta, mcp.MetaKeySubscriptionID)
	return number(id)
}

// get gives a member of what may be an object.
func get(object json.RawMessage, name string) (json.RawMessage, bool) {
	o, err := jsonrpc.ParseObject(object)
	if err != nil {
		return nil, false
	}
	return o.Get(name)
}

// text gives a member of what may be an object, when it is a string.
func text(object json.RawMessage, name string) (string, bool) {
	raw, _ := get(object, name)
	return jsonrpc.Unquote(raw)
}
