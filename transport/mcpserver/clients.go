package mcpserver

import (
	"fmt"
	"strings"
	"time"

	"berth/broker"
)

// ClientLimits says what a client was seen to bear, less a margin.
type ClientLimits struct {
	// Client is the beginning of clientInfo.name, in any case; empty matches
	// every client.
	Client string
	// PromoteAfter is how long it waits for the answer to a call before it gives
	// up. Zero: nothing is said here; negative: for ever.
	PromoteAfter time.Duration
	// MaxAnswer is the longest message in bytes that it takes. A longer one is
	// not sent: such a client drops it, or its connection, and then waits for
	// ever or makes the call a second time. Zero: nothing is said here;
	// negative: any.
	MaxAnswer int
}

// MeasuredClients holds what was measured (contracts/core.md section 5,
// docs/clients.md), under the names that these clients send at the handshake.
var MeasuredClients = []ClientLimits{
	{Client: "claude-code", PromoteAfter: 220 * time.Second, MaxAnswer: 15 << 20},
	{Client: "codex-mcp-client", PromoteAfter: 140 * time.Second, MaxAnswer: 15 << 20},
	{PromoteAfter: 45 * time.Second, MaxAnswer: -1},
}

func (l ClientLimits) matches(client string) bool {
	return len(client) >= len(l.Client) && strings.EqualFold(client[:len(l.Client)], l.Client)
}

// patience is the first word on a client in the table; an unknown one in a
// table without an entry for all gets the shortest that was measured. Zero: for
// ever.
func patience(table []ClientLimits, client string) time.Duration {
	for _, l := range table {
		if l.PromoteAfter != 0 && l.matches(client) {
			return max(0, l.PromoteAfter)
		}
	}
	return 45 * time.Second
}

// capacity is the longest message that a client takes by the table; zero: any.
func capacity(table []ClientLimits, client string) int {
	for _, l := range table {
		if l.MaxAnswer != 0 && l.matches(client) {
			return max(0, l.MaxAnswer)
		}
	}
	return 0
}

// clientNamed is what the client calls itself, for the table of clients; empty
// is unknown.
func (rq *request) clientNamed() string {
	switch {
	case rq.asker != nil:
		return rq.clientName()
	case rq.session != nil:
		return rq.session.client
	}
	return ""
}

// fit puts a refusal in the place of a response that the client does not take.
// What was asked for is done by then.
func (s *Server) fit(rq *request, response []byte) []byte {
	limit := capacity(s.tables.Load().clients, rq.clientNamed())
	if limit == 0 || len(response) <= limit {
		return response
	}
	refusal := broker.Refuse(broker.CodeAnswerTooLarge,
		fmt.Sprintf("The answer has %d bytes, more than this client takes (%d). The call itself was carried out: do not repeat it, ask for less.", len(response), limit),
		map[string]any{"limit_bytes": limit, "answer_bytes": len(response)})
	return rq.refusal(refusal)
}
