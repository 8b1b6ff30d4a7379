package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// noisy is a held backend that says something of the test's choice on the way
// to the right answer of its tool "noisy".
type noisy struct {
	*held
	say atomic.Value // string
}

func newNoisy() *noisy {
	n := &noisy{held: newHeld()}
	n.tools = `[{"name":"t","inputSchema":{"type":"object"}},{"name":"held","inputSchema":{"type":"object"}},{"name":"noisy","inputSchema":{"type":"object"}}]`
	right := n.handle
	n.handle = func(out *reply, m message) {
		if strings.Contains(string(m.Params), `"noisy"`) {
			out.send([]byte(strings.ReplaceAll(n.say.Load().(string), "ID", string(out.id))))
		}
		right(out, m)
	}
	return n
}

// noise is what a backend may say that is nobody's answer. ID stands for the
// id of the call that is running.
var noise = []struct{ name, text string }{
	{"no JSON", `hello`},
	{"an empty line", ``},
	{"white space", " \t "},
	{"cut off", `{"jsonrpc":"2.0","id":ID,`},
	{"a batch with the answer", `[{"jsonrpc":"2.0","id":ID,"result":{"wrong":1}}]`},
	{"an empty batch", `[]`},
	{"a number", `7`},
	{"null", `null`},
	{"an empty object", `{}`},
	{"a line of a log", `{"level":"info","msg":"x","id":ID}`},
	{"a result without an id", `{"jsonrpc":"2.0","result":{"wrong":1}}`},
	{"a result for null", `{"jsonrpc":"2.0","id":null,"result":{"wrong":1}}`},
	{"the id as a text", `{"jsonrpc":"2.0","id":"ID","result":{"wrong":1}}`},
	{"the id with a fraction", `{"jsonrpc":"2.0","id":ID.0,"result":{"wrong":1}}`},
	{"an object as the id", `{"jsonrpc":"2.0","id":{},"result":{"wrong":1}}`},
	{"an id that nobody used", `{"jsonrpc":"2.0","id":999999,"result":{"wrong":1}}`},
	{"a huge number as the id", `{"jsonrpc":"2.0","id":` + strings.Repeat("9", 3000) + `,"result":{"wrong":1}}`},
	{"a huge text as the id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 100_000) + `","result":{"wrong":1}}`},
	{"a message over the limit", `{"jsonrpc":"2.0","id":999999,"result":{"a":"` + strings.Repeat("x", maxAnswer) + `"}}`},
	{"a notification over the limit", `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"` + strings.Repeat("x", maxAnswer) + `"}}`},
	{"an unknown notification", `{"jsonrpc":"2.0","method":"notifications/no-such","params":{"a":1}}`},
	{"a notification with a text", `{"jsonrpc":"2.0","method":"notifications/progress","params":"x"}`},
	{"progress without a token", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`},
	{"progress of nothing", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"nothing","progress":1}}`},
	{"a log message of a wrong type", `{"jsonrpc":"2.0","method":"notifications/message","params":[]}`},
	{"a cancel of nothing", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nothing"}}`},
	{"a method that is no text", `{"jsonrpc":"2.0","method":7,"params":{}}`},
	{"an unknown request", `{"jsonrpc":"2.0","id":"q","method":"no/such","params":{}}`},
	{"a request with our own id", `{"jsonrpc":"2.0","id":ID,"method":"ping"}`},
	{"a request with a huge id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 5000) + `","method":"ping"}`},
	{"a request with an object as its id", `{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`},
	{"a question that nobody can be asked", `{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":"x"}`},
	{"invalid UTF-8", "\xff\xfe{}"},
	{"invalid UTF-8 in a notification", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"\xff\"}}"},
	{"a byte order mark", bom + `{"jsonrpc":"2.0","method":"notifications/x"}`},
	{"NULs", "\x00\x00\x00"},
	{"nested too deep", strings.Repeat("[", 50_000)},
	{"a lone surrogate in a name", `{"jsonrpc":"2.0","method":"notifications/x","\ud800":1}`},
	{"a repeated member", `{"jsonrpc":"2.0","method":"notifications/x","method":"notifications/y"}`},
}

func TestNoiseOfABackendIsNobodysAnswerAndHarmsNobody(t *testing.T) {
	eachPairing(t, func(t *testing.T, p pairing) {
		n := newNoisy()
		r, s := pair(t, p, &n.backend)
		defer r.close()
		end := n.hold(t, s)
		for _, tt := range noise {
			t.Run(tt.name, func(t *testing.T) {
				n.say.Store(tt.text)
				got, err := s.call("noisy")
				if err != nil || !strings.Contains(string(got), `"echo"`) {
					t.Errorf("the call: %s, %v", got, err)
				}
				if _, err := s.call("t"); err != nil {
					t.Errorf("the call after it: %v", err)
				}
			})
		}
		if err := end(); err != nil {
			t.Errorf("the call that was running: %v", err)
		}
		if lives := n.lived(); lives != 1 {
			t.Errorf("the backend had %d lives: a line of noise ended one", lives)
		}
	})
}

// TestNoiseOutsideOfCallsHarmsNobody says the same where no call is: on the GET
// stream, on the stream of a subscription, on stdio. What counts is heard after
// it all the same.
func TestNoiseOutsideOfCallsHarmsNobody(t *testing.T) {
	eachPairing(t, func(t *testing.T, p pairing) {
		c := newChanging()
		r, s := pair(t, p, &c.backend)
		defer r.close()
		_, _, err := s.roundTrip("tools/list", s.params(""))
		must(t, err)
		await(t, "a stream that the backend can speak on", c.listening)
		e := s.onStream(t)
		defer e.end()
		for _, tt := range noise {
			t.Run(tt.name, func(t *testing.T) {
				c.shout(strings.ReplaceAll(tt.text, "ID", "424242"))
				if _, err := s.call("t"); err != nil {
					t.Errorf("the call after it: %v", err)
				}
			})
		}
		c.change("tools", 1)
		for c.say("notifications/tools/list_changed") == 0 { // a message over the limit ends a stream
			await(t, "another stream of the backend", c.listening)
		}
		for await(t, "the change", e.told) != "notifications/tools/list_changed" {
			continue // an unknown notification is passed on
		}
		if lives := c.lived(); lives != 1 {
			t.Errorf("the backend had %d lives: noise ended one", lives)
		}
	})
}

// What a backend may say with the id of a call, and what its caller hears:
// never nothing, and never the wrong thing.
func TestAnAnswerThatIsNoneEndsItsCallAndHarmsNobody(t *testing.T) {
	tests := []struct {
		name, text string
		want       string // in the answer
	}{
		{"neither result nor error", `{"jsonrpc":"2.0","id":ID}`, "outcome_unknown"},
		{"both", `{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"m"}}`, "outcome_unknown"},
		{"a text as the error", `{"jsonrpc":"2.0","id":ID,"error":"failed"}`, "outcome_unknown"},
		{"an error without a message", `{"jsonrpc":"2.0","id":ID,"error":{"code":"x"}}`, "outcome_unknown"},
		{"a number that is none", `{"jsonrpc":"2.0","id":ID,"result":{"mean":NaN}}`, "outcome_unknown"},
		{"nested too deep", `{"jsonrpc":"2.0","id":ID,"result":{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}}`, "outcome_unknown"},
		{"an answer over the limit", `{"jsonrpc":"2.0","id":ID,"result":{"a":"` + strings.Repeat("x", maxAnswer) + `"}}`, "answer_too_large"},
		{"an answer over the limit with its id at the end", `{"result":{"a":"` + strings.Repeat("x", maxAnswer) + `"},"jsonrpc":"2.0","id":ID}`, "answer_too_large"},
		{"a result that is a text", `{"jsonrpc":"2.0","id":ID,"result":"x"}`, `"result":"x"`},
		{"a result that is null", `{"jsonrpc":"2.0","id":ID,"result":null}`, `"result":null`},
		{"a version of another kind", `{"jsonrpc":"1.0","id":ID,"result":{"right":1}}`, `"right":1`},
		{"a lone surrogate in a name", `{"jsonrpc":"2.0","id":ID,"result":{"right":1},"\ud800":1}`, `"right":1`},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"a\":\"x\xffy\xe6\x97\"}}", `"a":"x` + "\ufffd" + `y` + "\ufffd" + `"`},
		{"the answer twice", "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"right\":1}}\x00{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"wrong\":1}}", `"right":1`},
	}
	eachPairing(t, func(t *testing.T, p pairing) {
		h := newHeld()
		var text atomic.Value // string
		h.handle = answering(h, func(out *reply) {
			for part := range strings.SplitSeq(text.Load().(string), "\x00") {
				out.send([]byte(strings.ReplaceAll(part, "ID", string(out.id))))
			}
		})
		r, s := pair(t, p, &h.backend)
		defer r.close()
		end := h.hold(t, s)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				text.Store(tt.text)
				checkSaid(t, s, tt.want)
				if got, err := s.call("held-not"); err == nil {
					t.Errorf("a verb that is nobody's: %s", got)
				}
			})
		}
		if err := end(); err != nil {
			t.Errorf("the call that was running: %v", err)
		}
		if lives := h.lived(); lives != 1 {
			t.Errorf("the backend had %d lives: an answer ended one", lives)
		}
	})
}

// answering replaces the answer of tool t.
func answering(h *held, say func(out *reply)) func(*reply, message) {
	right := h.handle
	return func(out *reply, m message) {
		if strings.Contains(string(m.Params), `"t"`) {
			say(out)
			return
		}
		right(out, m)
	}
}

// checkSaid calls tool t and looks for want in what comes back.
func checkSaid(t *testing.T, s *session, want string) {
	t.Helper()
	m, _, err := s.roundTrip("tools/call", s.params(`"name":"t","arguments":{}`))
	if err != nil {
		if strings.Contains(err.Error(), want) {
			return // a result of null is no result to our own decoder
		}
		t.Errorf("%v, want %s", err, want)
		return
	}
	whole, err := json.Marshal(m)
	must(t, err)
	if text := fmt.Sprintf(`"result":%s "error":%s`, m.Result, m.Error); !strings.Contains(text, want) && !strings.Contains(string(whole), want) {
		t.Errorf("answered %.500s, want %s", text, want)
	}
}

// TestABackendThatBreaksOffIsNotSilence ends the connection in the middle of an
// answer.
func TestABackendThatBreaksOffIsNotSilence(t *testing.T) {
	for _, half := range []string{``, `{`, `{"jsonrpc":"2.0","id":ID,"result":{"a":"é`, "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"a\":\"\xe6"} {
		eachPairing(t, func(t *testing.T, p pairing) {
			h := newHeld()
			h.handle = answering(h, func(out *reply) {
				text := strings.ReplaceAll(half, "ID", string(out.id))
				if out.http != nil {
					out.http.Header().Set("Content-Type", "text/event-stream")
					text = "data: " + text
				}
				out.raw([]byte(text))
				out.cut()
			})
			r, s := pair(t, p, &h.backend)
			defer r.close()
			checkSaid(t, s, "outcome_unknown")
			done := h.hold(t, s) // the next call finds a backend
			if err := done(); err != nil {
				t.Errorf("the call after it: %v", err)
			}
		})
	}
}

// TestACharacterOfABackendSplitOverWritesIsWhole writes an answer byte by byte.
func TestACharacterOfABackendSplitOverWritesIsWhole(t *testing.T) {
	const result = `{"content":[{"type":"text","text":"é日本😀 \u00e9"}]}`
	eachPairing(t, func(t *testing.T, p pairing) {
		b := &backend{handle: func(out *reply, _ message) {
			whole := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, out.id, result) + "\n"
			if out.http != nil {
				out.http.Header().Set("Content-Type", "text/event-stream")
				whole = "data: " + whole + "\n"
			}
			for _, c := range []byte(whole) {
				out.raw([]byte{c})
			}
		}}
		r, s := pair(t, p, b)
		defer r.close()
		got, err := s.call("t")
		must(t, err)
		if err := same(p.completed("tools/call", []byte(result)), got); err != nil {
			t.Errorf("%v: %s", err, got)
		}
	})
}

// TestWhatAnHTTPBackendMayAnswerWith goes through forms that are right and
// forms that are wrong; each has its answer.
func TestWhatAnHTTPBackendMayAnswerWith(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":ID,"result":{"right":1}}`
	tests := []struct {
		name, kind string
		status     int
		body, want string
	}{
		{"plain JSON", "application/json", 200, answer, `"right":1`},
		{"JSON with parameters", "application/json; charset=utf-8", 200, answer, `"right":1`},
		{"pretty JSON", "application/json", 200, "\n{\r\n \"jsonrpc\": \"2.0\",\n \"id\": ID,\n \"result\": {\n\t\"right\":1 }}\n", `"right":1`},
		{"an event", "text/event-stream", 200, "data: " + answer + "\n\n", `"right":1`},
		{"an event with CRLF", "text/event-stream", 200, "event: message\r\nid: 1\r\ndata: " + answer + "\r\n\r\n", `"right":1`},
		{"an event without a blank", "text/event-stream", 200, "data:" + answer + "\n\n", `"right":1`},
		{"an event of two lines", "text/event-stream", 200, "data: {\"jsonrpc\":\"2.0\",\"id\":ID,\ndata: \"result\":{\"right\":1}}\n\n", `"right":1`},
		{"comments and unknown fields", "text/event-stream", 200, ": hello\n\nretry: 5\n\nfoo: bar\ndata\n\n:\ndata: " + answer + "\n\n", `"right":1`},
		{"an event of another kind", "text/event-stream", 200, "event: endpoint\ndata: /x\n\ndata: " + answer + "\n\n", `"right":1`},
		{"a byte order mark", "text/event-stream", 200, bom + "data: " + answer + "\n\n", `"right":1`},
		{"noise before it", "text/event-stream", 200, "data: hello\n\ndata: []\n\ndata: " + answer + "\n\n", `"right":1`},
		{"an error with an error status", "application/json", 400, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"mine","data":{"own":1.0}}}`, `"data":{"own":1.0}`},
		{"an event whose end is missing", "text/event-stream", 200, "data: " + answer, `"right":1`},
		{"an event that is cut off", "text/event-stream", 200, "data: " + answer[:len(answer)-1], "outcome_unknown"},
		{"an error for null, on the request's own stream", "text/event-stream", 200, `data: {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"mine"}}` + "\n\n", `"message":"mine"`},
		{"a stream without an answer", "text/event-stream", 200, ": nothing\n\n", "outcome_unknown"},
		{"no JSON", "application/json", 200, "hello", "outcome_unknown"},
		{"JSON cut off", "application/json", 200, `{"jsonrpc":"2.0","id":ID,"result":{"a":`, "outcome_unknown"},
		{"another's id", "application/json", 200, `{"jsonrpc":"2.0","id":999,"result":{"wrong":1}}`, "outcome_unknown"},
		{"a batch", "application/json", 200, "[" + answer + "]", "outcome_unknown"},
		{"an empty body", "application/json", 200, "", "outcome_unknown"},
		{"accepted", "", 202, "", "outcome_unknown"},
		{"no content", "", 204, "", "outcome_unknown"},
		{"a page", "text/html", 200, "<html>", "outcome_unknown"},
		{"a page with an error", "text/html", 500, "<html>", "outcome_unknown"},
		{"a redirect", "", 307, "", "outcome_unknown"},
		{"over the limit", "application/json", 200, `{"jsonrpc":"2.0","id":ID,"result":{"a":"` + strings.Repeat("x", maxAnswer) + `"}}`, "answer_too_large"},
		{"a stream over the limit", "text/event-stream", 200, `data: {"jsonrpc":"2.0","id":ID,"result":{"a":"` + strings.Repeat("x", maxAnswer) + "\"}}\n\n", "answer_too_large"},
	}
	eachOf(t, over(overHTTP), func(t *testing.T, p pairing) {
		h := newHeld()
		var current atomic.Int64
		h.handle = answering(h, func(out *reply) {
			now := tests[current.Load()]
			if now.status == 307 {
				out.http.Header().Set("Location", "/elsewhere")
			}
			if now.kind != "" {
				out.http.Header().Set("Content-Type", now.kind)
			}
			out.http.WriteHeader(now.status)
			if now.body != "" {
				out.raw([]byte(strings.ReplaceAll(now.body, "ID", string(out.id))))
			}
		})
		r, s := pair(t, p, &h.backend)
		defer r.close()
		end := h.hold(t, s)
		for i, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				current.Store(int64(i))
				checkSaid(t, s, tt.want)
			})
		}
		if err := end(); err != nil {
			t.Errorf("the call that was running: %v", err)
		}
	})
}

// TestAQuestionOfAStatelessBackendThatIsNoneEndsItsCall goes through results
// that ask for input in a wrong way. A client of the same era gets them as they
// are; one of the other era gets an error.
func TestAQuestionOfAStatelessBackendThatIsNoneEndsItsCall(t *testing.T) {
	tests := []struct{ name, result, want string }{ // want: of a handshake-era client
		{"a list of questions", `{"resultType":"input_required","inputRequests":[]}`, "outcome_unknown"},
		{"a text as the questions", `{"resultType":"input_required","inputRequests":"x"}`, "outcome_unknown"},
		{"a question that is a text", `{"resultType":"input_required","inputRequests":{"a":"x"}}`, "outcome_unknown"},
		{"a question without a method", `{"resultType":"input_required","inputRequests":{"a":{"params":{}}}}`, "outcome_unknown"},
		{"a question that nobody knows", `{"resultType":"input_required","inputRequests":{"a":{"method":"no/such"}}}`, "outcome_unknown"},
		{"a question that no client has", `{"resultType":"input_required","inputRequests":{"a":{"method":"tools/call","params":{"name":"t"}}}}`, "outcome_unknown"},
		{"more questions than anybody answers", `{"resultType":"input_required","inputRequests":{"a0":{}` + strings.Repeat(`,"a":{}`, 40) + `}}`, "outcome_unknown"},
		{"another kind of result", `{"resultType":"no such","own":1.0}`, `"own":1.0`},
		{"a number as the kind", `{"resultType":7,"own":1.0}`, `"own":1.0`},
		{"a state without questions", `{"resultType":"complete","requestState":7,"own":1.0}`, `"own":1.0`},
	}
	for _, p := range pairings {
		if p.backend != stateless {
			continue
		}
		t.Run(p.String(), func(t *testing.T) {
			h := newHeld()
			var result atomic.Value // string
			h.handle = answering(h, func(out *reply) { out.result(result.Load().(string)) })
			r, s := pair(t, p, &h.backend)
			defer r.close()
			end := h.hold(t, s)
			for _, tt := range tests {
				t.Run(tt.name, func(t *testing.T) {
					result.Store(tt.result)
					want := tt.want
					if p.client == stateless {
						want = tt.result[1 : len(tt.result)-1]
					}
					checkSaid(t, s, want)
				})
			}
			if err := end(); err != nil {
				t.Errorf("the call that was running: %v", err)
			}
			if lives := h.lived(); lives != 1 {
				t.Errorf("the backend had %d lives", lives)
			}
		})
	}
}
