package mcpserver

import (
	"strings"
	"time"
)

// ClientPatience says how long a client is known to wait for the answer to a
// call before it gives up, less a margin.
type ClientPatience struct {
	// Client is the beginning of clientInfo.name, in any case; empty matches
	// every client.
	Client string
	After  time.Duration // zero or less: for ever
}

// DefaultPromoteAfter holds what was measured (contracts/core.md section 5),
// under the names that these clients send at the handshake.
var DefaultPromoteAfter = []ClientPatience{
	{Client: "claude-code", After: 220 * time.Second},
	{Client: "codex-mcp-client", After: 140 * time.Second},
	{Client: "", After: 45 * time.Second},
}

// patience finds the first entry for a client; an unknown one in a table
// without an entry for all gets the shortest that was measured.
func patience(table []ClientPatience, client string) time.Duration {
	for _, p := range table {
		if len(client) >= len(p.Client) && strings.EqualFold(client[:len(p.Client)], p.Client) {
			return p.After
		}
	}
	return 45 * time.Second
}
