package mcpclient

import (
	"bytes"
	"encoding/json"

	"berth/broker"

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
func ofRequest(name []byte) bool {
	switch string(name) {
	case mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientInfo, mcp.MetaKeyClientCapabilities, mcp.MetaKeyLogLevel:
		return true
	}
	return false
}

func ofResult(name []byte) bool { return string(name) == mcp.MetaKeyServerInfo }

func ofSubscription(name []byte) bool { return string(name) == mcp.MetaKeySubscriptionID }

// undressed gives the params of a call as a backend of the handshake era
// takes them.
func undressed(call *broker.Call) (json.RawMessage, error) {
	if !call.Client.Stateless {
		return call.Params, nil
	}
	return trimMeta(call.Params, ofRequest)
}

// trimMeta gives object without the members of its `_meta` that drop names,
// and without `_meta` when nothing else was in it.
func trimMeta(object []byte, drop func(name []byte) bool) ([]byte, error) {
	if !bytes.Contains(object, []byte(eraPrefix)) {
		return object, nil
	}
	meta, _, ok, err := get(object, "_meta")
	if err != nil || !ok || meta[0] != '{' {
		return object, err
	}
	left := 0
	rest, err := withoutSome(meta, func(name []byte) bool {
		if drop(name) {
			return true
		}
		left++
		return false
	})
	switch {
	case err != nil:
		return nil, err
	case len(rest) == len(meta):
		return object, nil
	case left == 0:
		return without(object, "_meta")
	}
	return with(object, "_meta", rest)
}

// dress gives params as a backend of the stateless era takes them: with what
// they need to say of the client. What they say already stays, but for the
// version, which is that of this hop.
func dress(params json.RawMessage, version string, client broker.Client, level string) (json.RawMessage, error) {
	if len(bytes.TrimSpace(params)) == 0 {
		params = json.RawMessage(`{}`)
	}
	meta, _, ok, err := get(params, "_meta")
	if err != nil {
		return nil, err
	}
	if !ok || string(meta) == "null" {
		meta = []byte(`{}`)
	}
	has := map[string]bool{}
	if err := eachMember(meta, func(name []byte, _ member) error {
		if ofRequest(name) {
			has[string(name)] = true
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if meta, err = with(meta, mcp.MetaKeyProtocolVersion, appendString(nil, version)); err != nil {
		return nil, err
	}
	add := func(key string, value []byte) {
		if err == nil && !has[key] && len(value) > 0 {
			meta, err = with(meta, key, value)
		}
	}
	add(mcp.MetaKeyClientInfo, client.Info)
	if client.Capabilities == nil {
		client.Capabilities = json.RawMessage(`{}`)
	}
	add(mcp.MetaKeyClientCapabilities, client.Capabilities)
	if level != "" {
		add(mcp.MetaKeyLogLevel, appendString(nil, level))
	}
	if err != nil {
		return nil, err
	}
	return with(params, "_meta", meta)
}

// subscriptionID gives the request that opened the stream which a notification
// says that it belongs to.
func subscriptionID(params []byte) (int64, bool) {
	if !bytes.Contains(params, []byte(eraPrefix)) {
		return 0, false
	}
	meta, _, ok, err := get(params, "_meta")
	if err != nil || !ok {
		return 0, false
	}
	id, _, ok, err := get(meta, mcp.MetaKeySubscriptionID)
	if err != nil || !ok {
		return 0, false
	}
	return number(id)
}
