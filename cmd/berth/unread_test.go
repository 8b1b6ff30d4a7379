package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Who sends the head of a request and not its body holds no connection, least of
// all without a credential: net/http would wait for the body before the answer
// and after it.
func TestABodyThatNeverComesHoldsNoConnection(t *testing.T) {
	t.Parallel()
	x := newTeam(t, map[string]any{})
	for _, tc := range []struct{ name, request, header, want string }{
		{"the probe", "GET /healthz", "", "200"},
		{"the probe with another method", "POST /healthz", "", "405"},
		{"the login form", "GET /login", "", "200"},
		{"the login with another method", "PUT /login", "", "405"},
		{"a static file", "GET /login/berth.css", "", "200"},
		{"a page", "GET /jobs", "Accept: text/html\r\n", "401"},
		{"a change by a page", "POST /hold", "Accept: text/html\r\n", "401"},
		{"the login from another site", "POST /login", "Accept: text/html\r\nOrigin: https://evil.example\r\n", "403"},
		{"the operator API", "POST /api/v1/hold", "", "401"},
		{"MCP", "POST /mcp", "", "401"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", x.broker.Addr())
			must(t, err)
			defer conn.Close()
			must(t, conn.SetDeadline(time.Now().Add(30*time.Second))) // half of what a body that is read may take
			_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n%s\r\nx", tc.request, tc.header)
			must(t, err)
			answer, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+tc.want+" ") {
				t.Errorf("%v after %.60q", err, answer)
			}
		})
	}
}
