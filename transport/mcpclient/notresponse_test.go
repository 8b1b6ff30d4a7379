package mcpclient

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/broker"
)

// What a backend may send with the id of a call, and what becomes of the call.
// After an ignored one the right answer follows.
var notResponses = []struct {
	name, text string // ID stands for the call's id
	ends       bool
}{
	{"neither", `{"jsonrpc":"2.0","id":ID}`, true},
	{"a null error alone", `{"jsonrpc":"2.0","id":ID,"error":null}`, true},
	{"both", `{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"m"}}`, true},
	{"both without a version", `{"id":ID,"result":{},"error":{"code":1,"message":"m"}}`, true},
	{"a text as the error", `{"jsonrpc":"2.0","id":ID,"error":"failed"}`, true},
	{"a list as the error", `{"jsonrpc":"2.0","id":ID,"error":[]}`, true},
	{"an error of another shape", `{"jsonrpc":"2.0","id":ID,"error":{"code":"x"}}`, true},
	{"unknown members", `{"jsonrpc":"2.0","id":ID,"output":{}}`, true},
	{"a value that is no JSON", `{"jsonrpc":"2.0","id":ID,"result":{"mean":NaN,"most":-Infinity}}`, true},
	{"a value nested too deep", `{"jsonrpc":"2.0","id":ID,"result":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, true},
	{"something behind it", `{"jsonrpc":"2.0","id":ID,"result":{}};`, true},
	{"a wrong escape", `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"C:\x"}}`, true},
	{"an end that is missing", `{"jsonrpc":"2.0","id":ID,"result":{}`, false},
	{"a log that is no JSON", `{"id":ID,"result":NaN}`, false},
	{"a broken request", `{"jsonrpc":"2.0","id":ID,"method":"roots/list","params":NaN,"result":1}`, false},
	{"a broken batch", `[{"jsonrpc":"2.0","id":ID,"result":NaN}]`, false},
	{"another id", `{"jsonrpc":"2.0","id":"ID"}`, false},
	{"a line of a log", `{"level":"error","id":ID,"error":"no such file"}`, false},
	{"a request of the backend", `{"jsonrpc":"2.0","id":ID,"method":"roots/list"}`, false},
	{"a broken request of the backend", `{"jsonrpc":"2.0","id":ID,"method":7}`, false},
}

func checkNotResponse(t *testing.T, c broker.Conn, ends bool) {
	t.Helper()
	type outcome struct {
		answer broker.Answer
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		a, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
		done <- outcome{a, err}
	}()
	select {
	case got := <-done:
		if !ends {
			if got.err != nil || string(got.answer.Result) != `{"right":true}` {
				t.Errorf("answer %s, %v", got.answer.Result, got.err)
			}
			return
		}
		if got.err == nil {
			t.Fatalf("it was an answer: %+v", got.answer)
		}
		f := failure(t, got.err)
		if !f.Dispatched || f.Gone || f.Abandoned || !strings.Contains(f.Cause, "no JSON-RPC") {
			t.Errorf("failure %+v", f)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the call hangs")
	}
}

func TestAStdioMessageThatIsNoResponseEndsItsCall(t *testing.T) {
	for _, tt := range notResponses {
		t.Run(tt.name, func(t *testing.T) {
			n := 0
			f := newFake(func(f *fake, m message) {
				if m.method == "" {
					return // our answer to its request
				}
				if n++; n == 1 {
					f.send(strings.ReplaceAll(tt.text, "ID", string(m.id)))
					if tt.ends {
						return
					}
				}
				f.answer(m, `{"right":true}`)
			})
			_, c := f.open(t, Options{})
			checkNotResponse(t, c, tt.ends)
			checkNotResponse(t, c, false) // the next call
		})
	}
}

func TestAnHTTPMessageThatIsNoResponseEndsItsCall(t *testing.T) {
	for _, tt := range notResponses {
		t.Run(tt.name, func(t *testing.T) {
			n := 0
			hold := make(chan struct{})
			u := newUpstream(t, "s", func(w http.ResponseWriter, r *http.Request, m message) {
				if m.method == "" {
					return
				}
				if n++; n == 1 {
					events(w, strings.ReplaceAll(tt.text, "ID", string(m.id)))
					if tt.ends {
						select { // the stream stays open
						case <-r.Context().Done():
						case <-hold:
						}
						return
					}
				}
				events(w, response(m, `{"right":true}`))
			})
			defer close(hold)
			_, c := u.open(t, Options{})
			checkNotResponse(t, c, tt.ends)
			checkNotResponse(t, c, false)
		})
	}
}
