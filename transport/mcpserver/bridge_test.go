package mcpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/transport/jsonrpc"
)

// roundTrip is a broker as the bridge's HTTP client meets it.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// connected tells the request's trace that bytes may have left.
func connected(r *http.Request) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
}

func response(status int, kind, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}
}

var refusedDial = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

// A message is posted again only when it certainly had no effect.
func TestBridgePostsTwiceOnlyWhatDidNotArrive(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	ok := func(r *http.Request) (*http.Response, error) {
		connected(r)
		return response(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`), nil
	}
	dial := func(*http.Request) (*http.Response, error) { return nil, refusedDial }
	unauthorized := func(r *http.Request) (*http.Response, error) {
		connected(r)
		return response(401, "application/json", `{"Error":"Unauthorized","Code":"unauthorized","Message":"A valid bearer token is needed."}`), nil
	}
	reset := func(r *http.Request) (*http.Response, error) {
		connected(r)
		return nil, &net.OpError{Op: "read", Err: errors.New("connection reset")}
	}
	cut := func(r *http.Request) (*http.Response, error) {
		connected(r)
		return response(200, "text/event-stream", ": \n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,"), nil
	}
	for _, tt := range []struct {
		name, line     string
		answers        []roundTrip
		want, unwanted string
		discoveries    int
	}{
		{"served", call, []roundTrip{ok}, `"result":{}`, "", 1},
		{"found at a new address", call, []roundTrip{dial, ok}, `"result":{}`, "", 2},
		{"found with a new token", call, []roundTrip{unauthorized, ok}, `"result":{}`, "", 2},
		{"nowhere", call, []roundTrip{dial, dial}, `"code":"broker_not_running"`, "", 2},
		{"token refused for good", call, []roundTrip{unauthorized, unauthorized}, `"code":"unauthorized"`, "", 2},
		{"a call that may have arrived", call, []roundTrip{reset}, `"code":"outcome_unknown"`, "", 1},
		{"a call whose stream broke", call, []roundTrip{cut}, `"code":"outcome_unknown"`, "", 1},
		{"a list that may have arrived", list, []roundTrip{reset}, `"code":"broker_not_running"`, "outcome_unknown", 1},
		{"a call that moved and broke", call, []roundTrip{dial, reset}, `"code":"outcome_unknown"`, "", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				posts := 0
				r := startBridge(t, nil, Bridge{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
					mu.Lock()
					defer mu.Unlock()
					if posts++; posts > len(tt.answers) {
						t.Errorf("posted %d times", posts)
						return nil, refusedDial
					}
					return tt.answers[posts-1](req)
				})})
				r.write(tt.line + "\n")
				out := r.output()
				if strings.Count(out, "\n") != 1 || !strings.Contains(out, tt.want) || tt.unwanted != "" && strings.Contains(out, tt.unwanted) {
					t.Errorf("got %s", out)
				}
				if err := r.close(); err != nil {
					t.Error(err)
				}
				if posts != len(tt.answers) || len(r.finds) != tt.discoveries {
					t.Errorf("%d posts and %d discoveries", posts, len(r.finds))
				}
			})
		})
	}
}

func TestBridgeCancelDoesNotOvertakeItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		f := serve(t, b, nil)
		defer f.stop()
		r := startBridge(t, f, Bridge{})
		r.write(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}` + "\n")
		_, _ = io.WriteString(r.stdin, callHang+"\n"+`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`+"\n")
		elapse(time.Second)
		synctest.Wait()
		b.mu.Lock()
		if len(b.cancels) != 1 || len(b.inFlight) != 0 {
			t.Errorf("after a second: cancels %v, in flight %v", b.cancels, b.inFlight)
		}
		b.mu.Unlock()
		if out := r.output(); strings.Contains(out, `"id":1`) {
			t.Errorf("a cancelled request was answered: %s", out)
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
		if len(b.ended) != 1 {
			t.Errorf("%d sessions were ended", len(b.ended))
		}
	})
}

// writerFunc is an output that looks at what is written.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestBridgeTakesAnIDAgainOnceItWasAnswered(t *testing.T) {
	r := &bridge{flights: map[string]*flight{}}
	first, ok := r.takeOff([]byte("1"))
	if _, again := r.takeOff([]byte("1")); !ok || again {
		t.Fatal("two requests of one id were taken")
	}
	written := false
	r.out = writerFunc(func(p []byte) (int, error) {
		// A client may send the next request as soon as it sees these bytes.
		_, written = r.takeOff([]byte("1"))
		return len(p), nil
	})
	r.answer(first, []byte(`{}`))
	if !written {
		t.Error("the id was still taken when its answer was written")
	}
	r.land(first) // the first one's end must not free the second one's id
	if _, again := r.takeOff([]byte("1")); again {
		t.Error("the id of a running request was given away")
	}
}

func TestBridgeWaitsForRunningRequestsAfterTheInputEnds(t *testing.T) {
	for _, tt := range []struct {
		name, args, want string
		ms               time.Duration
		took             time.Duration
		ended            int
	}{
		{"in time", `{"ms":4000}`, `"slept":4000`, 4000, 4 * time.Second, 1},
		{"too long", `{"ms":40000}`, `"code":"outcome_unknown"`, 40000, 10 * time.Second, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFakeBroker(t)
				f := serve(t, b, nil)
				defer f.stop()
				r := startBridge(t, f, Bridge{})
				r.write(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}` + "\n")
				r.output()
				r.write(callSlow(1, tt.args)) // without a line break
				began := time.Now()
				if err := r.close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took < tt.took || took > tt.took+time.Second {
					t.Errorf("ended after %v", took)
				}
				if out := r.output(); !strings.Contains(out, tt.want) {
					t.Errorf("got %s", out)
				}
				if len(b.ended) != tt.ended {
					t.Errorf("%d sessions were ended", len(b.ended))
				}
			})
		})
	}
}

func TestBridgeRefusesALineThatIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), nil)
		defer f.stop()
		r := startBridge(t, f, Bridge{MaxLine: 1000})
		long := strings.Repeat("x", 200_000)
		r.write(`{"method":"tools/call","params":{"name":"` + long + `"},"jsonrpc":"2.0","id":"q"}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/` + long + `"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n")
		out := r.output()
		if strings.Count(out, "\n") != 2 || !strings.Contains(out, `"id":"q","error":`) || !strings.Contains(out, `"code":"request_too_large"`) || !strings.Contains(out, `"id":2,"result":{}`) {
			t.Errorf("got %s", out)
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
}

func TestBridgeRefusesMoreRequestsThanItCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), nil)
		defer f.stop()
		r := startBridge(t, f, Bridge{MaxInFlight: 1})
		r.write(callSlow(1, `{"ms":2000}`) + "\n" + callSlow(2, `{}`) + "\n")
		if out := r.output(); !strings.Contains(out, `"id":2,"error"`) || !strings.Contains(out, `"code":"overloaded"`) {
			t.Errorf("got %s", out)
		}
		elapse(3 * time.Second)
		r.write(callSlow(2, `{}`) + "\n")
		if out := r.output(); !strings.Contains(out, `"id":1,"result"`) || !strings.Contains(out, `"id":2,"result"`) {
			t.Errorf("got %s", out)
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
}

// silent is a body that never says anything until its request is given up.
type silent struct{ ctx context.Context }

func (s silent) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}
func (silent) Close() error { return nil }

func TestBridgeGivesASilentBrokerUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startBridge(t, nil, Bridge{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			connected(req)
			resp := response(200, "text/event-stream", "")
			resp.Body = silent{req.Context()}
			return resp, nil
		})})
		r.write(callHang + "\n")
		elapse(61 * time.Second)
		if out := r.output(); !strings.HasPrefix(out, "[1m0s]") || !strings.Contains(out, `"code":"outcome_unknown"`) {
			t.Errorf("got %s", out)
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
}

// broken is an output whose reader is gone.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestBridgeEndsWhenItsClientIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, stdin := io.Pipe()
		ended := make(chan error, 1)
		b := Bridge{Discover: func() (string, string, error) { return "", "", errors.New("no port file") }}
		go func() { ended <- b.Run(t.Context(), in, broken{}, io.Discard) }()
		_, _ = io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
		if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestBridgeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), nil)
		defer f.stop()
		ctx, stop := context.WithCancel(t.Context())
		in, stdin := io.Pipe()
		out := newTimedLines()
		ended := make(chan error, 1)
		b := Bridge{Transport: f.client.Transport, Discover: func() (string, string, error) { return "http://127.0.0.1", testToken, nil }}
		go func() { ended <- b.Run(ctx, in, out, io.Discard) }()
		_, _ = io.WriteString(stdin, callHang+"\n")
		synctest.Wait()
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if got := out.take(); !strings.Contains(got, `"code":"outcome_unknown"`) {
			t.Errorf("the running call was told %q", got)
		}
	})
}

// deaf is a standard stream whose other side does nothing: closing it ends
// neither a read nor a write that waits.
type deaf struct{ forEver chan struct{} }

func (d deaf) Read([]byte) (int, error) {
	<-d.forEver
	return 0, io.EOF
}

func (d deaf) Write(p []byte) (int, error) {
	<-d.forEver
	return len(p), nil
}

func (deaf) Close() error { return nil }

func TestBridgeEndsWithItsContextWhateverItsStreamsDo(t *testing.T) {
	for _, tt := range []struct {
		name, lines string
		deafOut     bool
	}{
		{"idle", "", false},
		{"with a running call", callHang + "\n", false},
		{"with a running call that cannot be told", callHang + "\n", true},
		{"with an answer that nobody reads", "no message\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := serve(t, newFakeBroker(t), nil)
				defer f.stop()
				ctx, stop := context.WithCancel(t.Context())
				d := deaf{make(chan struct{})}
				defer close(d.forEver)
				lines := newTimedLines()
				var out io.Writer = lines
				if tt.deafOut {
					out = d
				}
				in := struct {
					io.Reader
					io.Closer
				}{io.MultiReader(strings.NewReader(tt.lines), d), d}
				ended := make(chan error, 1)
				b := Bridge{Transport: f.client.Transport, Discover: func() (string, string, error) { return "http://127.0.0.1", testToken, nil }}
				go func() { ended <- b.Run(ctx, in, out, io.Discard) }()
				synctest.Wait()
				stop()
				select {
				case err := <-ended:
					if !errors.Is(err, context.Canceled) {
						t.Errorf("ended with %v", err)
					}
				case <-time.After(5 * time.Second):
					t.Fatal("it does not end")
				}
				if got := lines.take(); tt.lines != "" && !tt.deafOut && !strings.Contains(got, `"code":"outcome_unknown"`) {
					t.Errorf("the running call was told %q", got)
				}
			})
		})
	}
}

// Over real sockets, with the bridge's own HTTP client.
func TestBridgeOverTCP(t *testing.T) {
	s, err := New(testOptions(newFakeBroker(t)))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	moved := httptest.NewServer(http.RedirectHandler(srv.URL+"/mcp/fs", http.StatusTemporaryRedirect))
	defer moved.Close()
	for base, want := range map[string]string{
		srv.URL:   `{"jsonrpc":"2.0","id":1,"result":{"content":[], "got":{"name":"echo"}}}` + "\n",
		moved.URL: `"message":"The broker answered with HTTP 307."`,
	} {
		var out, errs strings.Builder
		b := Bridge{Profile: "fs", Discover: func() (string, string, error) { return base, testToken, nil }}
		in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
		if err := b.Run(t.Context(), in, &out, &errs); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) || errs.String() != "" {
			t.Errorf("got %q and %q", out.String(), errs.String())
		}
	}
}

func TestBridgeHangsUpOnSubscriptionsWhenItsClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), nil)
		r := startBridge(t, f, Bridge{})
		r.write(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"` +
			metaVersion + `":"2026-07-28","` + metaCapabilities + `":{}}}}` + "\n")
		if got := r.output(); !strings.Contains(got, acknowledged) {
			t.Fatal(got)
		}
		began := time.Now()
		if err := r.close(); err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		f.stop()
	})
}

func TestBridgeSaysInHeadersWhatTheBodySays(t *testing.T) {
	for _, name := range []string{"plain", "two words", " spaced", "n\u00e4me", "=?base64?x?=", "new\nline", ""} {
		params := `{"name":` + string(jsonrpc.Quote(name)) + `,"_meta":{"` + metaVersion + `":"2026-07-28"}}`
		c := carriage(jsonrpc.Message{Method: "tools/call", Params: []byte(params)})
		if problem := checkHeaders(c.header, "tools/call", object(t, params)); problem != "" {
			t.Errorf("%q: %s", name, problem)
		}
		if value := c.header.Get(headerName); value != headerSafe(value) {
			t.Errorf("%q is no header", value)
		}
		// An exact profile hands on methods of any name.
		params = `{"_meta":{"` + metaVersion + `":"2026-07-28"}}`
		c = carriage(jsonrpc.Message{Method: name, Params: []byte(params)})
		if problem := checkHeaders(c.header, name, object(t, params)); problem != "" {
			t.Errorf("the method %q: %s", name, problem)
		}
		if value := c.header.Get(headerMethod); value != headerSafe(value) {
			t.Errorf("%q is no header", value)
		}
	}
}

func TestBridgeCancelOfTheStatelessEraEndsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), nil)
		r := startBridge(t, f, Bridge{})
		r.write(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fs__hang","_meta":{"` + metaVersion + `":"2026-07-28","` + metaCapabilities + `":{}}}}` + "\n")
		elapse(2 * time.Second) // its stream is open
		r.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n")
		if verb := <-f.broker.dropped; verb != "hang" {
			t.Error(verb)
		}
		if got := r.output(); got != "" {
			t.Errorf("a cancelled request was answered: %s", got)
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
		f.stop()
	})
}

// A client that cancels and then signals means both: the broken connection
// alone is no cancel to the broker.
func TestBridgeThatIsToldToStopStillCarriesCancels(t *testing.T) {
	const cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n"
	for _, tt := range []struct {
		name  string
		write func(stdin io.Writer, signal func())
	}{
		{"on its way", func(stdin io.Writer, signal func()) {
			_, _ = io.WriteString(stdin, cancelled)
			synctest.Wait()
			signal()
		}},
		{"not read yet", func(stdin io.Writer, signal func()) {
			signal()
			_, _ = io.WriteString(stdin, cancelled)
		}},
		{"behind something else", func(stdin io.Writer, signal func()) {
			signal()
			_, _ = io.WriteString(stdin, `{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n"+cancelled)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var got []string
				transport := roundTrip(func(r *http.Request) (*http.Response, error) {
					connected(r)
					body, err := io.ReadAll(r.Body)
					if err != nil {
						return nil, err
					}
					msg, err := jsonrpc.Decode(body)
					if err != nil {
						return nil, err
					}
					if msg.Kind == jsonrpc.Request {
						<-r.Context().Done()
						return nil, r.Context().Err()
					}
					elapse(time.Second)
					if r.Context().Err() == nil {
						mu.Lock()
						defer mu.Unlock()
						got = append(got, msg.Method)
					}
					return response(202, "", ""), r.Context().Err()
				})
				in, stdin := io.Pipe()
				ctx, signal := context.WithCancel(t.Context())
				defer signal()
				ended := make(chan error, 1)
				b := Bridge{Transport: transport, Discover: func() (string, string, error) { return "http://127.0.0.1:7420", testToken, nil }}
				go func() { ended <- b.Run(ctx, in, io.Discard, io.Discard) }()
				_, _ = io.WriteString(stdin, callHang+"\n")
				synctest.Wait()
				tt.write(stdin, signal)
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("it ended with %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				if len(got) != 1 || got[0] != "notifications/cancelled" {
					t.Errorf("the broker was told %q", got)
				}
			})
		})
	}
}
