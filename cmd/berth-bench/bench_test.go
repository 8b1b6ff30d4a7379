package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newEcho() *echoServer {
	return &echoServer{buffers: sync.Pool{New: func() any { return new([2][]byte) }}}
}

// paths with clients of a server in this process.
func serverPath(t *testing.T, h http.Handler, n int) path {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	clients, err := dialAll(t.Context(), target{name: "test", addr: s.Listener.Addr().String(), path: "/", tool: "echo"}, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeAll(clients); err != nil {
			t.Error(err)
		}
	})
	return path{name: nameDirect, clients: asClients(clients)}
}

func TestDriveCountsCheckedCallsOfEveryClient(t *testing.T) {
	p := serverPath(t, newEcho(), 3)
	got, err := compare(t.Context(), []path{p}, 3, 2, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	results := summarise(got, []path{p}, 3)
	if len(got[nameDirect]) != 2 || len(results) != 1 {
		t.Fatalf("turns %v, results %v", got, results)
	}
	r := results[0]
	if r.rate <= 0 || r.p50 <= 0 || r.p99 < r.p50 || r.of[nameDirect].median != 1 || r.added.median != 0 {
		t.Errorf("%+v", r)
	}
}

// slow answers each call after a time.
type slow time.Duration

func (s slow) call() error         { <-time.After(time.Duration(s)); return nil }
func (s slow) limit(time.Duration) {}

func TestATurnWithoutACallSaysHowLongTheCallsTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := drive(path{name: "far", clients: []client{slow(2 * time.Second), slow(3 * time.Second)}}, 2, time.Second)
		if err == nil || !strings.Contains(err.Error(), "far with 2 clients: no call ended in the 1s of the turn that count; the slowest took 3s, and a timer of this process was late by 0s") {
			t.Error(err)
		}
	})
}

func TestDriveRefusesToCountWhatIsWrong(t *testing.T) {
	for name, spoil := range map[string]func(body []byte) (status int, spoiled []byte){
		"another text": func(body []byte) (int, []byte) { return 200, bytes.Replace(body, []byte("fox"), []byte("dog"), 1) },
		"another id": func(body []byte) (int, []byte) {
			return 200, bytes.Replace(body, []byte(`"id":1`), []byte(`"id":2`), 1)
		},
		"a status":       func(body []byte) (int, []byte) { return 500, body },
		"a short answer": func(body []byte) (int, []byte) { return 200, body[:20] },
	} {
		t.Run(name, func(t *testing.T) {
			echo := newEcho()
			p := serverPath(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if !bytes.Contains(body, []byte("tools/call")) {
					r.Body = io.NopCloser(bytes.NewReader(body))
					echo.ServeHTTP(w, r)
					return
				}
				response, _, err := answer(nil, body)
				if err != nil {
					t.Error(err)
				}
				status, spoiled := spoil(response)
				w.WriteHeader(status)
				_, _ = w.Write(spoiled)
			}), 1)
			if _, err := drive(p, 1, 20*time.Millisecond); err == nil {
				t.Error("it was counted")
			}
		})
	}
}

func TestClientReadsAnAnswerOnAStream(t *testing.T) {
	echo := newEcho()
	p := serverPath(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !bytes.Contains(body, []byte("tools/call")) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			echo.ServeHTTP(w, r)
			return
		}
		response, _, _ := answer(nil, body)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": \n\n")
		w.(http.Flusher).Flush()
		fmt.Fprintf(w, "event: message\ndata: %s\n\n", response)
	}), 1)
	for range 3 {
		if err := p.clients[0].call(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestScriptKeepsItsLengthAndNeverRepeatsAnID(t *testing.T) {
	s := newScript(7, "echo", func(b []byte) []byte { return b })
	size, seen := len(s.request), map[string]bool{}
	for range 1000 {
		request := string(s.next())
		if len(request) != size || seen[string(s.wantID)] || !strings.Contains(request, string(s.wantID)+",") || !strings.Contains(request, string(s.wantText)) {
			t.Fatalf("request %s, want %s", request, s.wantID)
		}
		seen[string(s.wantID)] = true
	}
}

func TestLineEchoAnswersWhatComesTogether(t *testing.T) {
	in := `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}` + "\n"
	var out bytes.Buffer
	if err := echoLines(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"x"}]}}` + "\n"
	if out.String() != want {
		t.Errorf("got %s", out.String())
	}
}

func TestAppendLogHoldsEveryRecordThatWasAcknowledged(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	l, err := openLog(name)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := l.write(int64(i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil || bytes.Count(text, []byte("\n")) != 20 {
		t.Errorf("%d records, %v", bytes.Count(text, []byte("\n")), err)
	}
}

func TestAimsSayByHowMuchTheyAreMissed(t *testing.T) {
	for _, c := range []struct {
		a        aim
		holds    bool
		distance string
	}{
		{below("x", 0.2, 0.3, "ms"), true, ""},
		{below("x", 0.3, 0.3, "ms"), false, "0 %"},
		{below("x", 6, 4, "KiB"), false, "50 %"},
		{above("x", 0.8, 0.8), true, ""},
		{above("x", 0.6, 0.8), false, "25 %"},
	} {
		if c.a.holds != c.holds || !c.holds && c.a.distance != c.distance {
			t.Errorf("%+v", c.a)
		}
	}
}

func TestSpreadIsMedianAndQuartiles(t *testing.T) {
	if s := spreadOf([]float64{9, 1, 5, 3, 7}); s != (spread{3, 5, 7}) {
		t.Errorf("%+v", s)
	}
	if s := spreadOf(nil); s != (spread{}) {
		t.Errorf("%+v", s)
	}
}

func TestReplaceBlockLeavesTheRestAlone(t *testing.T) {
	name := filepath.Join(t.TempDir(), "doc.md")
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	blockBegin, blockEnd := fmt.Sprintf(blockBegin, "bench"), fmt.Sprintf(blockEnd, "bench")
	write("head\n" + blockBegin + "old\n" + blockEnd + "tail\n")
	if err := replaceBlock(name, "bench", "new\n"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(name); string(got) != "head\n"+blockBegin+"new\n"+blockEnd+"tail\n" {
		t.Errorf("got %s", got)
	}
	write("head\n" + blockBegin + "old\n")
	if err := replaceBlock(name, "bench", "new\n"); err == nil {
		t.Error("a file without the end of a block was written")
	}
}

func TestUnknownPartIsRefused(t *testing.T) {
	err := bench(options{only: "http,nonsense"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("error %v", err)
	}
}
