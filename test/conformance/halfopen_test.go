package conformance

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// tcp gives a connection to the rig that can be closed in one direction, which
// one in memory cannot.
func (r *rig) tcp(t *testing.T) *net.TCPConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	server, err := l.Accept()
	must(t, err)
	r.pipes.conns <- server
	must(t, client.SetDeadline(time.Now().Add(patience)))
	return client.(*net.TCPConn)
}

// TestAClientThatClosesItsHalfIsAnsweredOrLetGo ends what a client sends in the
// middle of it, and after it: the connection ends in its own time, and nobody
// else is harmed.
func TestAClientThatClosesItsHalfIsAnsweredOrLetGo(t *testing.T) {
	whole := func(e era, tool string) string {
		s := &session{version: map[era]string{handshake: "2025-11-25", stateless: statelessVersion}[e]}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}`, s.params(fmt.Sprintf(`"name":%q`, tool)))
		var more []string
		if e == stateless {
			more = []string{"MCP-Protocol-Version: " + statelessVersion, "Mcp-Method: tools/call", "Mcp-Name: " + tool}
		}
		return strings.Replace(head(fmt.Sprint(len(body)), more...), "Connection: close\r\n", "", 1) + body
	}
	for _, e := range []era{handshake, stateless} {
		t.Run(e.String(), func(t *testing.T) {
			h := newHeld()
			r, s := pair(t, pairing{overPipes, e, handshake}, &h.backend)
			defer r.close()
			end := h.hold(t, s)
			for _, tt := range []struct{ name, sent, want string }{
				{"nothing was sent", "", ""},
				{"in the headers", whole(e, "t")[:20], ""},
				{"in the body", whole(e, "t")[:len(whole(e, "t"))-5], "HTTP/1.1 400"},
				{"after the request", whole(e, "t"), "HTTP/1.1 200"},
			} {
				t.Run(tt.name, func(t *testing.T) {
					conn := r.tcp(t)
					_, err := io.WriteString(conn, tt.sent)
					must(t, err)
					must(t, conn.CloseWrite())
					all, err := io.ReadAll(conn) // or its deadline passes
					must(t, err)
					if !strings.HasPrefix(string(all), tt.want) && len(all) > 0 {
						t.Errorf("answered %.300q, want %s", all, tt.want)
					}
					if _, err := s.call("t"); err != nil {
						t.Errorf("the call after it: %v", err)
					}
				})
			}
			t.Run("while its call runs", func(t *testing.T) {
				conn := r.tcp(t)
				_, err := io.WriteString(conn, whole(e, "held"))
				must(t, err)
				await(t, "the call", h.started)
				must(t, conn.CloseWrite())
				if _, err := s.call("t"); err != nil {
					t.Errorf("a call of another: %v", err)
				}
				h.release <- struct{}{}
				_, err = io.ReadAll(conn)
				must(t, err)
				if _, err := s.call("t"); err != nil {
					t.Errorf("the call after it: %v", err)
				}
			})
			if err := end(); err != nil {
				t.Errorf("the call that was running: %v", err)
			}
		})
	}
}
