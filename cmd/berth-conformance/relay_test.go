//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A stream that begins before the whole request was sent must come through
// whole: a body that is forwarded as it comes is closed by the first byte of the
// answer, and takes the connection with it.
func TestRelayCarriesAStreamThatBeginsBeforeTheBodyEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, "%s ", r.Header.Get("Authorization"))
		if err := control.Flush(); err != nil {
			t.Error(err)
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s", body)
	}))
	defer server.Close()
	r, err := startRelay(strings.TrimPrefix(server.URL, "http://"), "secret", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := net.DialTimeout("tcp", r.addr, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send := func(text string) {
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
	}
	send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
	in := bufio.NewReader(conn)
	// An answer that comes before the body has its time to do its harm.
	if err := conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, _ = in.Peek(1)
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	send("hello")
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "Bearer secret hello" {
		t.Errorf("%q %v", body, err)
	}
}
