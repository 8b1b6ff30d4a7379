package conformance

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs a test against a broker whose clock the test does not wait for.
func bubble(t *testing.T, test func(t *testing.T, h *held, r *rig, s *session)) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld()
		r := newRig(t, overPipes, &h.backend)
		r.patience = time.Hour
		defer func() {
			r.close()
			elapse(time.Minute) // net/http lingers on connections that it cuts
		}()
		s := r.handshake()
		test(t, h, r, s)
	})
}

// drip writes a text one byte every so often until all is written or the other
// side has had enough, and says how long that took.
func drip(conn net.Conn, text string, every time.Duration) time.Duration {
	began := time.Now()
	for i := range len(text) {
		if _, err := io.WriteString(conn, text[i:i+1]); err != nil {
			break
		}
		elapse(every)
	}
	return time.Since(began)
}

func TestAClientThatDripsIsGivenUpAndDelaysNobody(t *testing.T) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` // and more that never comes
	for _, tt := range []struct {
		name, at, drips, want string
		limit                 time.Duration
	}{
		{"its headers", "", head("100"), "", 11 * time.Second},
		{"its body", head("1000"), strings.Repeat(body, 10), "HTTP/1.1 408", 62 * time.Second},
		{"its body, in the stateless era", head("1000", "MCP-Protocol-Version: "+statelessVersion, "Mcp-Method: ping"), strings.Repeat(body, 10), "HTTP/1.1 408", 62 * time.Second},
		{"its chunks", head("", "Transfer-Encoding: chunked"), strings.Repeat("1\r\n \r\n", 40), "HTTP/1.1 408", 62 * time.Second},
		{"the size of a chunk", head("", "Transfer-Encoding: chunked"), strings.Repeat("0", 200), "HTTP/1.1 4", 62 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *held, r *rig, s *session) {
				end := h.hold(t, s)
				conn, err := r.pipes.dial(t.Context(), "tcp", "")
				must(t, err)
				defer conn.Close()
				got := make(chan string, 1)
				began, took := time.Now(), time.Duration(0)
				go func() {
					all, _ := io.ReadAll(conn) // what came before the end
					took = time.Since(began)
					got <- string(all)
				}()
				go func() {
					_, _ = io.WriteString(conn, tt.at)
					drip(conn, tt.drips, time.Second)
				}()
				for range 5 { // others are served while it drips
					elapse(time.Second)
					if _, err := s.call("t"); err != nil {
						t.Errorf("a call of another: %v", err)
					}
				}
				elapse(2 * time.Minute)
				select {
				case answer := <-got:
					if !strings.HasPrefix(answer, tt.want) {
						t.Errorf("answered %q", answer)
					}
					if took > tt.limit {
						t.Errorf("it was given up after %s, want %s at most", took, tt.limit)
					}
				default:
					t.Error("it is still connected after two minutes")
				}
				if err := end(); err != nil {
					t.Errorf("the call that was running: %v", err)
				}
			})
		})
	}
}

// callOn writes a call on a connection of its own and reads until its stream is
// open.
func callOn(t *testing.T, r *rig, s *session, tool string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := r.pipes.dial(t.Context(), "tcp", "")
	must(t, err)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"own","method":"tools/call","params":{"name":%q,"arguments":{}}}`, tool)
	request := head(fmt.Sprint(len(body)), "Accept: application/json, text/event-stream", "Mcp-Session-Id: "+s.id, "MCP-Protocol-Version: "+s.version)
	go func() { _, _ = io.WriteString(conn, request+body) }()
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		must(t, err)
		if strings.TrimSpace(line) == "" {
			return conn, in
		}
	}
}

func TestAnIdleStreamShowsThatItLivesEveryTenSeconds(t *testing.T) {
	bubble(t, func(t *testing.T, h *held, r *rig, s *session) {
		began := time.Now()
		conn, in := callOn(t, r, s, "held")
		defer conn.Close()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the headers took %s", took)
		}
		await(t, "the call", h.started)
		go func() {
			elapse(65 * time.Second)
			h.release <- struct{}{}
		}()
		comments, last := 0, time.Now()
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatalf("after %d comments: %q, %v", comments, line, err)
			}
			if strings.HasPrefix(line, ":") {
				comments++
				if gap := time.Since(last); gap > 11*time.Second {
					t.Errorf("the stream was silent for %s", gap)
				}
				last = time.Now()
			}
			if strings.Contains(line, `"echo"`) {
				break
			}
		}
		if comments < 6 {
			t.Errorf("%d comments in 65 s", comments)
		}
	})
}

// TestAClientThatStopsReadingIsLetGo leaves the stream of a call unread: the
// connection is given up within the write limit, and nobody else waits.
func TestAClientThatStopsReadingIsLetGo(t *testing.T) {
	bubble(t, func(t *testing.T, h *held, r *rig, s *session) {
		conn, _ := callOn(t, r, s, "held")
		await(t, "the call", h.started)
		for range 6 {
			elapse(10 * time.Second)
			if _, err := s.call("t"); err != nil {
				t.Errorf("a call of another: %v", err)
			}
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_, _ = io.Copy(io.Discard, conn)
		}()
		select {
		case <-closed:
		case <-time.After(time.Second):
			t.Error("a minute later the connection is still served")
		}
		close(h.release) // whoever still runs
		if _, err := s.call("t"); err != nil {
			t.Errorf("a call after it: %v", err)
		}
		_ = conn.Close()
	})
}
