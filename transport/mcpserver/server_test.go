package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
)

const callHang = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fs__hang","_meta":{"progressToken":1}}}`

func callSlow(id int, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"fs__slow","arguments":%s,"_meta":{"progressToken":1}}}`, id, args)
}

// trap fails the test when it is read.
type trap struct{ t *testing.T }

func (r trap) Read([]byte) (int, error) {
	r.t.Error("the body was read")
	return 0, io.EOF
}

func TestUnauthorizedIsSaidBeforeTheBodyIsRead(t *testing.T) {
	s, err := New(testOptions(newFakeBroker(t)))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "http://evil.example/mcp/none", trap{t})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

// failing is a broker with a fault in what a request's own goroutine asks it.
type failing struct{ *fakeBroker }

func (failing) Attach(actors.SessionInfo) *broker.Refusal { panic("the-inside") }

func TestPanicOfAHandlerIsANeutral500(t *testing.T) {
	var log bytes.Buffer
	opts := testOptions(failing{newFakeBroker(t)})
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	r.Header.Set("Authorization", "Bearer "+testToken)
	r.Header.Set(headerSession, (&front{Server: s}).token("", "x"))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), `"Code":"internal"`) || strings.Contains(w.Body.String(), "inside") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "the-inside") {
		t.Error("the panic is not in the log")
	}
}

func TestAnswersCarryTheSecurityHeaders(t *testing.T) {
	s, err := New(testOptions(newFakeBroker(t)))
	if err != nil {
		t.Fatal(err)
	}
	for token, status := range map[string]int{testToken: 200, "wrong": 401} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != status || w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("got %d %v", w.Code, w.Header())
		}
	}
}

func TestBodyOverTheLimitIsRefused(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunked=%v", chunked), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := serve(t, newFakeBroker(t), func(o *Options) { o.Guard = testGuard(100) })
				defer f.stop()
				fits := `{"jsonrpc":"2.0","id":1,"method":"ping"}` + strings.Repeat(" ", 60)
				for body, want := range map[string]int{fits: 200, fits + " ": 413} {
					var in io.Reader = strings.NewReader(body)
					answered := make(chan struct{})
					if chunked {
						in = io.MultiReader(in) // hides the length
						if want == 413 {
							// The body goes on until the answer is there: else the end of the
							// connection races with the last write of the client.
							in = io.MultiReader(in, readerFunc(func([]byte) (int, error) { <-answered; return 0, io.EOF }))
						}
					}
					req, _ := http.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", in)
					req.Header.Set("Authorization", "Bearer "+testToken)
					resp, err := f.client.Do(req)
					close(answered)
					if err != nil {
						t.Fatal(err)
					}
					text, _ := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if resp.StatusCode != want || want == 413 && !strings.Contains(string(text), `"Code":"request_too_large"`) {
						t.Errorf("%d bytes: got %d %s", len(body), resp.StatusCode, text)
					}
				}
			})
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestBodyThatDripsIsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		token, status string
		after         time.Duration
	}{
		{testToken, "408", 60 * time.Second},
		{"wrong", "401", 0}, // nobody waits for what nobody reads
	} {
		t.Run(tt.status, func(t *testing.T) { drip(t, tt.token, tt.status, tt.after) })
	}
}

func drip(t *testing.T, token, status string, after time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), nil)
		defer f.stop()
		conn, err := f.pipes.dial(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		began := time.Now()
		go func() {
			_, _ = io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "+token+"\r\nContent-Length: 1000\r\n\r\n")
			for {
				if _, err := io.WriteString(conn, " "); err != nil {
					return
				}
				elapse(time.Second)
			}
		}()
		answer, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 "+status+" ") {
			t.Errorf("got %q", answer)
		}
		if took := time.Since(began); took < after || took > after+2*time.Second {
			t.Errorf("given up after %v, want %v", took, after)
		}
	})
}

// The deadline for a body must not end the connection while a call runs.
func TestCallMayOutlastTheLimitForBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), nil)
		defer f.stop()
		for range 2 { // the second time on a connection that was used before
			resp, err := f.post(t.Context(), "/mcp", "", callSlow(1, `{"ms":150000}`))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || !strings.Contains(string(body), `"slept":150000`) {
				t.Errorf("got %v %s", err, body)
			}
		}
	})
}

func TestSlowReaderGetsOnlyTheLatestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), nil)
		defer f.stop()
		resp, err := f.post(t.Context(), "/mcp", "", callSlow(1, `{"ms":10000,"progress":1999}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		elapse(9 * time.Second) // 1,799 notifications that nobody takes
		synctest.Wait()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		var seen []float64
		for line := range strings.Lines(string(body)) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				var m struct {
					Method string
					Params struct{ Progress float64 }
				}
				if err := json.Unmarshal([]byte(data), &m); err != nil {
					t.Fatal(err)
				}
				if m.Method != "" {
					seen = append(seen, m.Params.Progress)
				}
			}
		}
		// What the buffers of HTTP hold, one gap, then the end.
		if len(seen) < 2 || len(seen) > 400 || seen[len(seen)-1] != 1999 {
			t.Fatalf("%d notifications, the last %v", len(seen), seen[len(seen)-1:])
		}
		gap := 0.0
		for i := 1; i < len(seen); i++ {
			if seen[i] <= seen[i-1] {
				t.Errorf("progress went from %v to %v", seen[i-1], seen[i])
			}
			gap = max(gap, seen[i]-seen[i-1])
		}
		if gap < 1000 {
			t.Errorf("the largest gap is %v: stale progress was kept", gap)
		}
	})
}

func TestReaderThatTakesNothingIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		f := serve(t, b, nil)
		defer f.stop()
		conn, err := f.pipes.dial(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		began := time.Now()
		_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", testToken, len(callHang), callHang)
		if verb := <-b.dropped; verb != "hang" {
			t.Errorf("dropped %s", verb)
		}
		if took := time.Since(began); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("dropped after %v", took)
		}
	})
}

func TestDroppedConnectionEndsTheContextOfDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		f := serve(t, b, nil)
		defer f.stop()
		ctx, drop := context.WithCancel(t.Context())
		resp, err := f.post(ctx, "/mcp", f.token("", "x"), callHang)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		drop()
		<-b.dropped
		if took := time.Since(began); took > time.Second {
			t.Errorf("noticed after %v", took)
		}
		_ = resp.Body.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.cancels) > 0 {
			t.Error("a drop was passed on as a cancel") // in this era it is none
		}
	})
}

func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		f := serve(t, b, func(o *Options) { o.Limits.MaxStreams = 2 })
		defer f.stop()
		ctx, drop := context.WithCancel(t.Context())
		for range 2 {
			resp, err := f.post(ctx, "/mcp", "", callHang)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
		}
		for _, tt := range []struct{ body, want string }{
			{callHang, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"code\":\"overloaded\"`},
			{`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `"data":{"code":"overloaded"`},
			{`{"jsonrpc":"2.0","id":3,"method":"ping"}`, `"result":{}`},
		} {
			if got := f.ask(t, "/mcp", "", tt.body); !strings.Contains(got, tt.want) {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		}
		drop()
		<-b.dropped
		<-b.dropped
		synctest.Wait()
		if got := f.ask(t, "/mcp", "", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); !strings.Contains(got, `"tools"`) {
			t.Errorf("places were not given back: %s", got)
		}
	})
}

// ask posts a message and reads the whole answer.
func (f *front) ask(t *testing.T, path, session, body string) string {
	t.Helper()
	resp, err := f.post(t.Context(), path, session, body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDrainRefusesNewWorkAndWaitsForTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), nil)
		defer f.stop()
		answer := make(chan string, 1)
		go func() { answer <- f.ask(t, "/mcp", "", callSlow(1, `{"ms":20000}`)) }()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if open := f.Drain(short); open != 1 {
			t.Errorf("%d requests were open at the end of the wait", open)
		}
		if got := f.ask(t, "/mcp", "", callSlow(2, `{}`)); !strings.Contains(got, `\"code\":\"shutting_down\"`) || !strings.Contains(got, `"isError":true`) {
			t.Errorf("new work: %s", got)
		}
		if open := f.Drain(t.Context()); open != 0 {
			t.Errorf("%d requests are open after the drain", open)
		}
		if got := <-answer; !strings.Contains(got, `"slept":20000`) {
			t.Errorf("the old request got %s", got)
		}
	})
}

func TestSessionIsWhatItsTokenSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := serve(t, newFakeBroker(t), nil)
		resp, err := first.post(t.Context(), "/mcp/fs", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"Claude-Code","version":"2.1"}}}`)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		token := resp.Header.Get(headerSession)
		first.stop()

		b := newFakeBroker(t)
		f := serve(t, b, nil) // another life with the same key
		defer f.stop()
		foreign := serve(t, newFakeBroker(t), func(o *Options) { o.SessionKey = []byte("another key of 16 bytes") })
		defer foreign.stop()
		ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		flipped := []byte(token)
		flipped[len(flipped)/2] ^= 1
		for _, tt := range []struct {
			name, path, token, bearer string
			f                         *front
			known                     bool
		}{
			{"the session itself", "/mcp/fs", token, testToken, f, true},
			{"another principal", "/mcp/fs", token, "other", f, false},
			{"another profile", "/mcp", token, testToken, f, false},
			{"a changed token", "/mcp/fs", string(flipped), testToken, f, false},
			{"a cut token", "/mcp/fs", token[:len(token)-4], testToken, f, false},
			{"another key", "/mcp/fs", token, testToken, foreign, false},
		} {
			before := len(tt.f.broker.attached)
			req, _ := http.NewRequest(http.MethodPost, "http://localhost"+tt.path, strings.NewReader(ping))
			req.Header.Set("Authorization", "Bearer "+tt.bearer)
			req.Header.Set(headerSession, tt.token)
			resp, err := tt.f.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: served with %d", tt.name, resp.StatusCode)
			}
			if known := len(tt.f.broker.attached) > before; known != tt.known {
				t.Errorf("%s: known: %v", tt.name, known)
			}
		}
		got := b.attached[0]
		if strings.Contains(token, got.Key) || got.Profile != "fs" || got.ClientName != "Claude-Code" || got.ClientVersion != "2.1" ||
			got.ProtocolVersion != "2025-06-18" || string(got.Capabilities) != `{"roots":{}}` || got.Principal != broker.LocalOperator || got.Started.IsZero() {
			t.Errorf("the broker was told %+v", got)
		}
	})
}

func TestSessionThatTheBrokerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		b.refuse = broker.Refuse(broker.CodeOverloaded, "Too many sessions.", nil).Retry(time.Second)
		f := serve(t, b, nil)
		defer f.stop()
		token := f.token("", "x")
		for _, tt := range []struct{ body, want string }{
			{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`, `"error":{"code":-32010,"message":"Too many sessions."`},
			{callHang, `\"code\":\"overloaded\"`},
			{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `"data":{"code":"overloaded"`},
		} {
			if got := f.ask(t, "/mcp", token, tt.body); !strings.Contains(got, tt.want) {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		}
	})
}

func TestListIsPaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := catalog.Source{Backend: "many", Listed: true}
		for i := range 2 * catalog.PageSize {
			many.Tools = append(many.Tools, tool(fmt.Sprintf("t%04d", i), ""))
		}
		f := serve(t, newFakeBroker(t, many), nil)
		defer f.stop()
		names, cursor, once := 0, "", map[string]bool{}
		for page := 0; page == 0 || cursor != ""; page++ {
			params := ""
			if cursor != "" {
				params = `,"params":{"cursor":"` + cursor + `"}`
			}
			var got struct {
				Result struct {
					Tools      []struct{ Name string }
					NextCursor string
				}
			}
			if err := json.Unmarshal([]byte(f.ask(t, "/mcp/many", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"`+params+`}`)), &got); err != nil {
				t.Fatal(err)
			}
			if n := len(got.Result.Tools); n == 0 || n > catalog.PageSize {
				t.Fatalf("page %d has %d tools", page, n)
			}
			names, cursor = names+len(got.Result.Tools), got.Result.NextCursor
			for _, tool := range got.Result.Tools {
				once[tool.Name] = true
			}
		}
		if want := 2*catalog.PageSize + 1; names != want || len(once) != want { // and job_status
			t.Errorf("%d tools, %d of them different, want %d", names, len(once), want)
		}
		list := func(params string) string {
			return f.ask(t, "/mcp/many", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"`+params+`}`)
		}
		if bare, empty := list(""), list(`,"params":{}`); bare != empty {
			t.Error("absent params are answered otherwise than empty ones")
		}
		for _, cursor := range []string{"abc", "-1", "100000", "1.5"} {
			if text := list(`,"params":{"cursor":"` + cursor + `"}`); !strings.Contains(text, `"code":-32602`) {
				t.Errorf("the cursor %s is answered with %.300s", cursor, text)
			}
		}
	})
}

func TestPlanReachesTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := fsSource()
		src.Rules = catalog.Rules{Long: []string{"job"}, Seats: map[string]int{"echo": 3},
			PromoteAfter: map[string]time.Duration{"echo": -1, "add": 7 * time.Second}, CallTimeout: map[string]time.Duration{"echo": time.Hour}}
		b := newFakeBroker(t)
		b.set(t, nativeSource(), src)
		f := serve(t, b, nil)
		defer f.stop()
		for _, tt := range []struct {
			params string
			check  func(actors.Request) bool
		}{
			{`{"name":"fs__echo"}`, func(r actors.Request) bool {
				return r.PromoteAfter == 0 && r.CallTimeout == time.Hour && r.Call.Seats == 3 && r.Call.Lane == broker.LaneCalls && !r.Long
			}},
			{`{"name":"fs__add","arguments":{"a":1}}`, func(r actors.Request) bool { return r.PromoteAfter == 7*time.Second && r.Call.Seats == 1 }},
			{`{"name":"fs__job"}`, func(r actors.Request) bool { return r.Long && r.Call.Lane == broker.LaneJobs }},
			{`{"name":"fs__fail","_meta":{"berth/idempotencyKey":"k"}}`, func(r actors.Request) bool {
				return r.Long && r.IdempotencyKey == "k" && r.Digest != "" && string(r.Call.Params) == `{"name":"fail"}`
			}},
			{`{"name":"job_status","arguments":{"jobId":"x","waitSeconds":"5"}}`, func(r actors.Request) bool {
				return r.Call.Lane == broker.LaneControl && r.PromoteAfter == 0 && string(r.Call.Params) == `{"name":"job_status","arguments":{"jobId":"x","waitSeconds":5}}`
			}},
		} {
			f.ask(t, "/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+tt.params+`}`)
			if r := b.requests[len(b.requests)-1]; !tt.check(r) {
				t.Errorf("%s became %+v %+v %s", tt.params, r, *r.Call, r.Call.Params)
			}
		}
	})
}

func TestNewRefusesWhatIsIncomplete(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no broker":   func(o *Options) { o.Broker = nil },
		"no guard":    func(o *Options) { o.Guard = nil },
		"a short key": func(o *Options) { o.SessionKey = []byte("short") },
	} {
		opts := testOptions(newFakeBroker(t))
		change(&opts)
		if s, err := New(opts); err == nil {
			t.Errorf("%s: got %v", name, s)
		}
	}
}

func TestACallWaitsForItsOwnBackendOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, catalog.Source{Backend: "late"}, catalog.Source{Backend: "mute"})
		f := serve(t, b, nil)
		defer f.stop()
		begun := time.Now()
		answers := make(chan string)
		go func() {
			answers <- f.ask(t, "/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"late__echo","arguments":{}}}`)
		}()
		<-time.After(time.Second)
		b.set(t, nativeSource(), fsSource(), catalog.Source{Backend: "late", Listed: true, Tools: fsTools()[1:2]}, catalog.Source{Backend: "mute"})
		answer := <-answers
		if !strings.Contains(answer, `"name":"echo"`) || time.Since(begun) != time.Second {
			t.Errorf("after %s: %s", time.Since(begun), answer)
		}
	})
}
