package mcpserver

import (
	"encoding/base64"
	"net/http"
	"strings"

	"berth/transport/jsonrpc"
)

// A client of the stateless era that speaks over stdio sends no headers, so the
// bridge says in headers what the body says, and it cancels with a notification,
// which the bridge turns into what a cancel is over HTTP: the end of the stream.

// carried is what the headers of a message say besides who sends it.
type carried struct {
	fresh  bool        // it begins a session, so it names none
	header http.Header // of the stateless era, which has no sessions; nil for the other
}

// carriage reads how a request has to travel.
func carriage(msg jsonrpc.Message) carried {
	c := carried{fresh: msg.Method == "initialize"}
	params, err := jsonrpc.ParseObject(msg.Params)
	if err != nil {
		return c
	}
	raw, _ := params.Get("_meta")
	meta, err := jsonrpc.ParseObject(raw)
	if err != nil {
		return c
	}
	version, ok := meta.Text(metaVersion)
	if !ok {
		return c
	}
	c.header = http.Header{headerVersion: {headerSafe(version)}, headerMethod: {encodeHeader(msg.Method)}, headerBridged: {"1"}}
	if member := named[msg.Method]; member != "" {
		if name, ok := params.Text(member); ok {
			c.header.Set(headerName, encodeHeader(name))
		}
	}
	return c
}

// encodeHeader wraps a value that a header cannot carry as it is.
func encodeHeader(value string) string {
	plain := value == headerSafe(value) && value == strings.TrimSpace(value) && !strings.HasPrefix(value, encodedPrefix)
	if plain {
		return value
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(value)) + encodedSuffix
}

// headerSafe leaves out what no header may hold. A version that had it is one
// that nobody serves.
func headerSafe(value string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return -1
		}
		return c
	}, value)
}

// hangUp ends the request that a cancel of the stateless era is about, and
// reports whether there was one. The client waits for no answer any more.
func (r *bridge) hangUp(f *flight) bool {
	if f == nil || f.end == nil {
		return false
	}
	f.end()
	return true
}

// hushed hangs up on the requests that stay open until their client leaves.
func (r *bridge) hushed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.flights {
		if f.stays {
			f.cancelled = true
			f.end()
		}
	}
}
