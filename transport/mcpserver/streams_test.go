package mcpserver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/actors"
)

// raw makes a request on a connection of its own and reads nothing of what
// comes back.
func (f *front) raw(t *testing.T, method, path, body string, headers ...string) io.ReadCloser {
	t.Helper()
	conn, err := f.pipes.dial(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	head := []string{method + " " + path + " HTTP/1.1", "Host: 127.0.0.1", "Authorization: Bearer " + testToken}
	head = append(head, headers...)
	if body != "" {
		head = append(head, fmt.Sprint("Content-Length: ", len(body)))
	}
	if _, err := io.WriteString(conn, strings.Join(head, "\r\n")+"\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	return conn
}

const listenBody = `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"` + metaVersion + `":"2026-07-28","` + metaCapabilities + `":{}}}}`

// TestStreamsThatNobodyReadsAreGivenUp opens each kind of stream and reads
// nothing of it, or nothing after its beginning: 30 s after the first write that
// is not taken its place is free.
func TestStreamsThatNobodyReadsAreGivenUp(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reads int // bytes
		open  func(t *testing.T, f *front) io.ReadCloser
	}{
		{"GET", 0, func(t *testing.T, f *front) io.ReadCloser {
			return f.raw(t, http.MethodGet, "/mcp/fs", "", "Accept: text/event-stream", headerSession+": "+f.token("fs", "c"))
		}},
		{"GET, then silent", 100, func(t *testing.T, f *front) io.ReadCloser {
			return f.raw(t, http.MethodGet, "/mcp/fs", "", "Accept: text/event-stream", headerSession+": "+f.token("fs", "c"))
		}},
		{"subscriptions/listen", 0, func(t *testing.T, f *front) io.ReadCloser {
			return f.raw(t, http.MethodPost, "/mcp/fs", listenBody, headerVersion+": 2026-07-28", headerMethod+": subscriptions/listen")
		}},
		{"subscriptions/listen, then silent", 100, func(t *testing.T, f *front) io.ReadCloser {
			return f.raw(t, http.MethodPost, "/mcp/fs", listenBody, headerVersion+": 2026-07-28", headerMethod+": subscriptions/listen")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := serve(t, newFakeBroker(t), nil)
				defer f.stop()
				conn := tt.open(t, f)
				defer conn.Close()
				if _, err := io.ReadFull(conn, make([]byte, tt.reads)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if open := f.openListeners(); open != 1 {
					t.Fatalf("%d streams are open", open)
				}
				for i := range 100 { // what it is told, it does not hear
					f.broker.publish(actors.Notice{Backend: "fs", Method: fmt.Sprint("notifications/", i)})
				}
				elapse(10*time.Second + f.opts.Limits.WriteEvent + time.Second)
				synctest.Wait()
				if open := f.openListeners(); open != 0 {
					t.Errorf("%d streams are open", open)
				}
			})
		})
	}
}

func (f *front) openListeners() int {
	f.listeners.mu.Lock()
	defer f.listeners.mu.Unlock()
	return f.listeners.open
}

// TestAStreamsHeadersComeAtOnce looks when the headers of each kind of stream
// come, with nothing to say on it.
func TestAStreamsHeadersComeAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		method, body string
		headers      []string
		within       time.Duration
	}{
		"GET":                             {http.MethodGet, "", []string{"Accept: text/event-stream"}, 0},
		"subscriptions/listen":            {http.MethodPost, listenBody, []string{headerVersion + ": 2026-07-28", headerMethod + ": subscriptions/listen"}, 0},
		"a call of a client of streams":   {http.MethodPost, callHang, []string{"Accept: text/event-stream"}, 0},
		"a call, which may be JSON":       {http.MethodPost, callHang, nil, 75 * time.Millisecond},
		"a stateless call, with statuses": {http.MethodPost, strings.Replace(callHang, `"_meta":{`, `"_meta":{"`+metaVersion+`":"2026-07-28","`+metaCapabilities+`":{},`, 1), []string{headerVersion + ": 2026-07-28", headerMethod + ": tools/call", headerName + ": fs__hang"}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := serve(t, newFakeBroker(t), nil)
				defer f.stop()
				began := time.Now()
				conn := f.raw(t, tt.method, "/mcp", tt.body, append(tt.headers, headerSession+": "+f.token("", "c"))...)
				defer conn.Close()
				status := make([]byte, len("HTTP/1.1 200"))
				if _, err := io.ReadFull(conn, status); err != nil || string(status) != "HTTP/1.1 200" {
					t.Fatalf("%q, %v", status, err)
				}
				if took := time.Since(began); took != tt.within {
					t.Errorf("after %v, want %v", took, tt.within)
				}
			})
		})
	}
}

// TestASlowReaderGetsAllOfALargeAnswer takes an answer in pieces, each well
// within the limit for one and all together far beyond it.
func TestASlowReaderGetsAllOfALargeAnswer(t *testing.T) {
	const size = 8 << 20
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fs__echo","arguments":{"result":{"content":[],"text":"` + strings.Repeat("x", size) + `"}}}}`
	for _, accept := range []string{"application/json", "text/event-stream"} {
		t.Run(accept, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := serve(t, newFakeBroker(t), nil)
				defer f.stop()
				conn := f.raw(t, http.MethodPost, "/mcp", call, "Accept: "+accept, "Connection: close")
				defer conn.Close()
				got, piece := 0, make([]byte, 1<<20)
				for {
					n, err := io.ReadFull(conn, piece)
					got += n
					if err != nil {
						break
					}
					elapse(20 * time.Second)
				}
				if got < size {
					t.Errorf("the connection ended after %d bytes", got)
				}
			})
		})
	}
}

// TestAClientThatReadsNoAnswersIsLetGo sends a notification and does not read
// that it was accepted.
func TestAClientThatReadsNoAnswersIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), nil)
		defer f.stop()
		conn := f.raw(t, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		defer conn.Close()
		elapse(f.opts.Limits.WriteEvent + time.Second)
		if got, err := io.ReadAll(conn); err != nil || len(got) > 0 {
			t.Errorf("after its time it can still read %q, %v", got, err)
		}
	})
}

// TestStreamsOfNotificationsAreCapped opens as many as there may be; what comes
// then is refused, and taken when one has ended.
func TestStreamsOfNotificationsAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), func(o *Options) { o.Limits.MaxStreams = 1 })
		defer f.stop()
		first := f.listen(t, "fs")
		get := func() *http.Response {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:7420/mcp/fs", nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range map[string]string{"Authorization": "Bearer " + testToken, "Accept": "text/event-stream", headerSession: f.token("fs", "another")} {
				req.Header.Set(name, value)
			}
			resp, err := f.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		resp := get()
		if text := readAll(t, resp); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || !strings.Contains(text, `"Code":"overloaded"`) {
			t.Errorf("GET: %d %v %s", resp.StatusCode, resp.Header, text)
		}
		conn := f.raw(t, http.MethodPost, "/mcp/fs", listenBody, headerVersion+": 2026-07-28", headerMethod+": subscriptions/listen", "Connection: close")
		defer conn.Close()
		if text, err := io.ReadAll(conn); err != nil || !strings.Contains(string(text), `"code":"overloaded"`) {
			t.Errorf("subscriptions/listen: %s, %v", text, err)
		}
		_ = first.Body.Close()
		synctest.Wait()
		resp = get()
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("after the first ended: %d", resp.StatusCode)
		}
	})
}
