package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// target is a way to the echo.
type target struct {
	name  string
	addr  string
	path  string
	token string // empty: none is asked for
	tool  string // its name there
	pids  []int  // of the hop: the processes between load and backend
}

// Ids have nine digits, so that a request keeps its length: the first after
// the one names the client, the others count.
const (
	firstID   = 100_000_000
	idsEach   = 1_000_000
	idDigits  = 9
	callLimit = 30 * time.Second
)

// filler is the part of the text that stays the same, so that a call weighs
// about as much as a small real one.
var filler = strings.Repeat("the quick brown fox jumps over it ", 6)

// script is one client's call, rendered once; only digits change.
type script struct {
	request  []byte // whole: of HTTP with its head, of stdio with its line end
	idAt     int
	textAt   int
	wantID   []byte // as it stands in the answer
	wantText []byte
	id, base int
}

// newScript renders a call. wrap puts what the transport needs around it.
func newScript(client int, tool string, wrap func(body []byte) []byte) *script {
	base := firstID + client*idsEach
	digits := strconv.Itoa(base)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%s","arguments":{"text":"%s %s"}}}`, digits, tool, digits, filler)
	s := &script{request: wrap([]byte(body)), base: base,
		wantID: []byte(`"id":` + digits), wantText: []byte(`"text":"` + digits + " " + filler + `"`)}
	s.idAt = bytes.Index(s.request, s.wantID) + len(`"id":`)
	s.textAt = bytes.Index(s.request, s.wantText) + len(`"text":"`)
	return s
}

// next makes the request one that was not sent yet.
func (s *script) next() []byte {
	s.id = (s.id + 1) % idsEach
	n := s.base + s.id
	for i := idDigits - 1; i >= 0; i-- {
		d := byte('0' + n%10)
		n /= 10
		s.request[s.idAt+i], s.request[s.textAt+i] = d, d
		s.wantID[len(`"id":`)+i], s.wantText[len(`"text":"`)+i] = d, d
	}
	return s.request
}

// check makes sure that body answers the request that was sent last.
func (s *script) check(body []byte) error {
	if !bytes.Contains(body, s.wantID) || !bytes.Contains(body, s.wantText) {
		return fmt.Errorf("wrong answer to %s: %.300s", s.wantID, body)
	}
	return nil
}

// httpClient is one MCP client on one connection that is kept.
type httpClient struct {
	conn   net.Conn
	in     *bufio.Reader
	t      target
	head   string // of every request after the first
	script *script
	body   []byte
	check  func(body []byte) error
}

// dialClient connects and shakes hands.
func dialClient(ctx context.Context, t target, client int) (*httpClient, error) {
	conn, err := (&net.Dialer{Timeout: callLimit}).DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, err
	}
	c := &httpClient{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), t: t}
	if err := c.handshake(); err != nil {
		_ = conn.Close() // the handshake's failure is what counts
		return nil, fmt.Errorf("%s: handshake: %w", t.name, err)
	}
	c.script = newScript(client, t.tool, func(body []byte) []byte { return c.wrap(string(body)) })
	c.check = c.script.check
	return c, nil
}

// handshake opens a session of its own on the connection.
func (c *httpClient) handshake() error {
	c.head = "POST " + c.t.path + " HTTP/1.1\r\nHost: " + c.t.addr + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	if c.t.token != "" {
		c.head += "Authorization: Bearer " + c.t.token + "\r\n"
	}
	first := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"berth-bench","version":"1"}}}`
	session, err := c.ask(first, "200")
	if err != nil {
		return err
	}
	if session == "" {
		return errors.New("no session id")
	}
	c.head += "Mcp-Session-Id: " + session + "\r\nMcp-Protocol-Version: 2025-06-18\r\n"
	_, err = c.ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "202")
	return err
}

func (c *httpClient) ask(body, status string) (session string, err error) {
	c.limit(callLimit)
	if _, err := c.conn.Write(c.wrap(body)); err != nil {
		return "", err
	}
	return c.read(status)
}

func (c *httpClient) wrap(body string) []byte {
	return []byte(c.head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// limit bounds all reads and writes from now on.
func (c *httpClient) limit(d time.Duration) {
	_ = c.conn.SetDeadline(time.Now().Add(d)) // fails only on a connection that is closed
}

// call makes one call and checks its answer.
func (c *httpClient) call() error {
	if _, err := c.conn.Write(c.script.next()); err != nil {
		return err
	}
	if _, err := c.read("200"); err != nil {
		return err
	}
	return c.check(c.body)
}

// read takes one response; its body stays in c.body until the next.
func (c *httpClient) read(status string) (session string, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("no response: %w", err)
	}
	if len(line) < 12 || string(line[9:12]) != status {
		return "", fmt.Errorf("answered with %q", line)
	}
	length, chunked := 0, false
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return "", err
		}
		name, value, found := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		if !found {
			break
		}
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return "", err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		case bytes.EqualFold(name, []byte("Mcp-Session-Id")):
			session = string(value)
		}
	}
	c.body = c.body[:0]
	if chunked {
		return session, c.readChunks()
	}
	return session, c.readBody(length)
}

func (c *httpClient) readBody(length int) error {
	at := len(c.body)
	if cap(c.body) < at+length {
		c.body = append(make([]byte, 0, at+length+1024), c.body...)
	}
	c.body = c.body[:at+length]
	_, err := io.ReadFull(c.in, c.body[at:])
	return err
}

// readChunks reads a stream of events as well: the answer is its last one, and
// is found in the whole.
func (c *httpClient) readChunks() error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return err
		}
		if size > 0 {
			if err := c.readBody(int(size)); err != nil {
				return err
			}
		}
		if _, err := c.in.ReadSlice('\n'); err != nil || size == 0 {
			return err
		}
	}
}

func (c *httpClient) close() error { return c.conn.Close() }

// dialAll opens n clients of a target.
func dialAll(ctx context.Context, t target, n int) ([]*httpClient, error) {
	var all []*httpClient
	for i := range n {
		c, err := dialClient(ctx, t, i)
		if err != nil {
			return nil, errors.Join(err, closeAll(all))
		}
		all = append(all, c)
	}
	return all, nil
}

func closeAll(clients []*httpClient) error {
	var errs []error
	for _, c := range clients {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}
