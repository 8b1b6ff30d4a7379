package mcpserver

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/policy"
	"berth/transport/jsonrpc"
)

func TestUpstreamParamsChangeOnlyWhatIsOurs(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"the name", `{ "name":"b__x", "arguments":{ "a":1.0 } }`, `{"name":"x","arguments":{ "a":1.0 }}`},
		{"nothing", `{ "name":"x" , "z":[ ] }`, `{ "name":"x" , "z":[ ] }`},
		{"empty _meta stays", `{"name":"x","_meta":{}}`, `{"name":"x","_meta":{}}`},
		{"_meta of ours goes", `{"name":"x","_meta":{"berth/a":1,"progressToken":"t"}}`, `{"name":"x"}`},
		{"_meta of others stays", `{"name":"x","_meta":{"berth":1,"berth/a":{"b":2},"k":1e5,"xberth/":0}}`, `{"name":"x","_meta":{"berth":1,"k":1e5,"xberth/":0}}`},
		{"escaped keys are seen", `{"name":"x","_meta":{"bert\u0068/a":1,"k":0}}`, `{"name":"x","_meta":{"k":0}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tc, problem := readToolCall(json.RawMessage(tt.in))
			if problem != "" {
				t.Fatal(problem)
			}
			plan := policy.Plan{Verb: &catalog.Verb{Upstream: "x"}, Arguments: tc.arguments}
			if got := string(upstreamParams(tc, plan)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestPatienceGoesByTheBeginningOfTheName(t *testing.T) {
	for client, want := range map[string]time.Duration{
		"claude-code": 220 * time.Second, "Claude-Code/2": 220 * time.Second, "codex-mcp-client": 140 * time.Second,
		"claude": 45 * time.Second, "": 45 * time.Second, "my claude-code": 45 * time.Second,
	} {
		if got := patience(MeasuredClients, client); got != want {
			t.Errorf("%q waits %v, want %v", client, got, want)
		}
	}
	if got := patience([]ClientLimits{{Client: "a", PromoteAfter: -1}}, "b"); got != 45*time.Second {
		t.Errorf("a table without an entry for all gives %v", got)
	}
}

func TestAnAnswerThatItsClientDoesNotTakeIsRefusedOnce(t *testing.T) {
	const limit = 4 << 10
	table := []ClientLimits{{Client: "small", PromoteAfter: time.Minute}, {Client: "SMALL", MaxAnswer: limit}, {Client: "any", MaxAnswer: -1}, {MaxAnswer: 2 * limit}}
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), func(o *Options) { o.Clients = table })
		defer f.stop()
		for _, tt := range []struct {
			client, method string
			size           int
			limit          int // zero: it is delivered
		}{
			{"small", "tools/call", limit - 400, 0},
			{"Small/2", "tools/call", limit, limit},
			{"small", "resources/read", limit, limit},
			{"other", "tools/call", limit, 0},
			{"", "tools/call", 2 * limit, 2 * limit},
			{"any", "tools/call", 8 * limit, 0},
		} {
			params := fmt.Sprintf(`{"name":"echo","uri":"x://1","arguments":{"text":"%s"}}`, strings.Repeat("x", tt.size))
			got := f.ask(t, "/mcp/fs", f.token("fs", tt.client), fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, tt.method, params))
			refused := strings.Contains(got, "answer_too_large")
			if refused != (tt.limit > 0) || refused && (!strings.Contains(got, fmt.Sprint(tt.limit)) || !strings.Contains(got, "do not repeat it") || strings.Contains(got, "xxxx")) {
				t.Errorf("%+v got %.400s", tt, got)
			}
			if isError := strings.Contains(got, `"isError":true`); isError != (refused && tt.method == "tools/call") {
				t.Errorf("%+v: isError is %v", tt, isError)
			}
		}
	})
}

func TestAcceptIsReadLeniently(t *testing.T) {
	both := accepts{true, true}
	for header, want := range map[string]accepts{
		"": both, "text/html": both, "*/*": both, "application/json, text/event-stream": both,
		"application/json": {json: true}, "Text/Event-Stream;q=0.5": {stream: true},
		"application/json; q=0, text/event-stream": {stream: true}, "application/*": {json: true},
	} {
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		if header != "" {
			r.Header.Set("Accept", header)
		}
		if got := parseAccept(r); got != want {
			t.Errorf("%q: %+v", header, got)
		}
	}
}

func TestProgressNeverCountsBackwardsFromOurOwn(t *testing.T) {
	now := time.Unix(0, 0)
	p := newProgress(json.RawMessage(`"t"`), func() time.Time { return now })
	now = now.Add(10 * time.Second)
	if own := string(p.own()); !strings.Contains(own, `"progress":0.000010`) {
		t.Fatalf("ours: %s", own)
	}
	if own := string(p.own()); !strings.Contains(own, `"progress":0.000011`) { // the clock stood still
		t.Fatalf("ours: %s", own)
	}
	p.report(broker.Progress{Params: json.RawMessage(`{"progress":0}`)})
	if got := p.take(); got != nil {
		t.Errorf("passed on %s", got)
	}
	if own := p.own(); own != nil {
		t.Errorf("ours after the backend spoke: %s", own)
	}
	p.report(broker.Progress{Params: json.RawMessage(`{"progressToken":"theirs","progress":1,"message":"m"}`)})
	if got, want := string(bytes.Join(p.take(), nil)), `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1,"message":"m"}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if p.waiting() {
		t.Error("something is left")
	}
}

func TestProgressWaitsForABusyMachineAndNotForASlowReader(t *testing.T) {
	for reported, want := range map[int]string{1: "[1]", 3: "[1 2 3]", maxBehind: "[1 2 3 4 5 6 7 8]", maxBehind + 1: "[9]", 2*maxBehind + 2: "[17 18]"} {
		p, woken := newProgress(json.RawMessage(`1`), time.Now), 0
		p.onReport(func() { woken++ })
		for n := range reported {
			p.report(broker.Progress{Params: fmt.Appendf(nil, `{"progress":%d}`, n+1)})
		}
		var got []int
		for _, m := range p.take() {
			var n struct{ Params struct{ Progress int } }
			if err := json.Unmarshal(m, &n); err != nil {
				t.Fatal(err)
			}
			got = append(got, n.Params.Progress)
		}
		if fmt.Sprint(got) != want || woken == 0 || p.waiting() {
			t.Errorf("of %d: %v, woken %d times", reported, got, woken)
		}
	}
}

func TestProgressNeedsATokenThatCanBeRepeated(t *testing.T) {
	for token, want := range map[string]bool{``: false, `null`: false, `{}`: false, `true`: false, `[1]`: false,
		`1`: true, `-1`: true, `"x"`: true, `"` + strings.Repeat("x", maxProgressToken) + `"`: false} {
		if got := newProgress(json.RawMessage(token), time.Now) != nil; got != want {
			t.Errorf("%.20s: %v", token, got)
		}
	}
}

func TestSessionTokenIsBoundedAndKeepsItsFields(t *testing.T) {
	key := []byte("0123456789abcdef")
	in := session{nonce: make([]byte, nonceBytes), principal: "p", profile: "fs", version: "2025-11-25", client: strings.Repeat("é", 300),
		caps: json.RawMessage(`{"x":"` + strings.Repeat("y", maxCapabilities) + `"}`), started: time.UnixMilli(1700000000123).UTC()}
	token := in.token(key)
	if len(token) > maxToken {
		t.Errorf("the token has %d bytes", len(token))
	}
	out, ok := openSession(token, key)
	if !ok || out.principal != "p" || out.profile != "fs" || out.version != "2025-11-25" || out.started != in.started || out.key != in.key {
		t.Errorf("got %+v %v", out, ok)
	}
	if out.client != strings.Repeat("é", maxClientText/2) || out.caps != nil {
		t.Errorf("client %q, capabilities %s", out.client, out.caps)
	}
}

func FuzzOpenSession(f *testing.F) {
	key := []byte("0123456789abcdef")
	s := session{nonce: make([]byte, nonceBytes), principal: "p", caps: json.RawMessage(`{}`)}
	f.Add(s.token(key))
	f.Add("")
	f.Add(strings.Repeat("A", 43))
	f.Fuzz(func(t *testing.T, token string) {
		if got, ok := openSession(token, key); ok {
			// Only the key's holder makes tokens, so whatever opens must be one
			// that signing its own content gives again.
			if again := got.token(key); again != token {
				t.Errorf("%q opened and is signed as %q", token, again)
			}
		}
	})
}

func TestEventsAreReadAsTheFormatSays(t *testing.T) {
	in := ": \n\nevent: message\ndata: {\"a\":1}\n\ndata:x\ndata: y\r\nid: 5\n\nevent: no data\n\ndata: cut short"
	alive := 0
	e := newEventReader(strings.NewReader(in), 100, func() { alive++ })
	for _, want := range []string{`{"a":1}`, "x\ny"} {
		got, err := e.next()
		if err != nil || string(got) != want {
			t.Fatalf("got %q %v, want %q", got, err, want)
		}
	}
	if got, err := e.next(); err != io.EOF {
		t.Errorf("got %q %v at the end", got, err)
	}
	if alive != 11 {
		t.Errorf("%d lines were seen", alive)
	}
	for _, long := range []string{"data: " + strings.Repeat("x", 101) + "\n\n", strings.Repeat("data: "+strings.Repeat("x", 40)+"\n", 3) + "\n"} {
		if got, err := newEventReader(strings.NewReader(long), 100, func() {}).next(); err != errTooLarge {
			t.Errorf("got %q %v", got, err)
		}
	}
}

func FuzzEventReader(f *testing.F) {
	f.Add([]byte("data: {}\n\n: \n\ndata: 1\ndata: 2\n\n"))
	f.Add([]byte("data\n\nretry: 5\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		e := newEventReader(bytes.NewReader(in), 64, func() {})
		for range len(in) + 1 {
			got, err := e.next()
			if err != nil {
				return
			}
			if len(got) > 64 {
				t.Fatalf("an event of %d bytes", len(got))
			}
		}
		t.Fatal("more events than bytes")
	})
}

// BenchmarkFront is the front alone: no network, a broker that answers at once.
func BenchmarkFront(b *testing.B) {
	for _, bench := range []struct{ name, body string }{
		{"call", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fs__echo","arguments":{"path":"/a/b","n":12},"_meta":{"progressToken":1}}}`},
		{"ping", `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
		{"list", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			broker := &instant{fakeBroker: newFakeBroker(b)}
			s, err := New(testOptions(broker))
			if err != nil {
				b.Fatal(err)
			}
			token := (&front{Server: s}).token("", "bench")
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(bench.body))
					r.Header.Set("Authorization", "Bearer "+testToken)
					r.Header.Set("Accept", "application/json, text/event-stream")
					r.Header.Set(headerSession, token)
					w := httptest.NewRecorder()
					s.ServeHTTP(w, r)
					if w.Code != http.StatusOK {
						b.Fatal(w.Code, w.Body)
					}
				}
			})
		})
	}
}

func TestSessionKeepsNothingOfTheBodyThatOpenedIt(t *testing.T) {
	s := &Server{opts: Options{Random: rand.Reader, Now: time.Now}}
	params := []byte(`{"protocolVersion":"2025-06-18","capabilities":{"x":1},"clientInfo":{"name":"n"}}`)
	ses, problem, err := s.handshake(&request{msg: jsonrpc.Message{Params: params}})
	if problem != "" || err != nil {
		t.Fatal(problem, err)
	}
	clear(params)
	if string(ses.caps) != `{"x":1}` || ses.client != "n" || ses.version != "2025-06-18" {
		t.Errorf("%s %q %q", ses.caps, ses.client, ses.version)
	}
	large := []byte(`{"protocolVersion":"2025-06-18","capabilities":{"x":"` + strings.Repeat("y", maxCapabilities) + `"}}`)
	if ses, _, _ = s.handshake(&request{msg: jsonrpc.Message{Params: large}}); ses.caps != nil {
		t.Error("large capabilities are kept")
	}
}

func TestOpenedSessionIsRememberedForItsPrincipalOnly(t *testing.T) {
	key := []byte("0123456789abcdef")
	owner, other := broker.LocalOperator, broker.Principal{Tenant: "default", User: "other", Role: broker.User}
	var o opened
	o.init()
	ses := session{nonce: make([]byte, nonceBytes), principal: owner.Digest(), version: "2025-06-18", started: time.UnixMilli(1)}
	token := ses.token(key)
	for range 2 { // the second time it is remembered
		if got, ok := o.open(token, key, owner); !ok || got.key != ses.key {
			t.Fatal("its owner cannot open it")
		}
		if _, ok := o.open(token, key, other); ok {
			t.Error("another principal can open it")
		}
		if _, ok := o.open(token+"A", key, owner); ok {
			t.Error("a changed id can be opened")
		}
	}
	// Whatever falls on the same places: each id opens its own session.
	tokens := map[string]string{}
	for i := range 3 * openedSlots {
		ses.started = time.UnixMilli(int64(i))
		tokens[ses.token(key)] = ses.key
	}
	for range 2 {
		for token, want := range tokens {
			if got, ok := o.open(token, key, owner); !ok || got.key != want {
				t.Fatalf("%q opens another session", token)
			}
		}
	}
}

func TestAnErrorOfEveryKindNamesItsRequest(t *testing.T) {
	rq := &request{callID: func() string { return "call_1" }}
	for data, want := range map[string]string{"": `{"call_id":"call_1"}`, "{}": `{"call_id":"call_1"}`, `{"a":1}`: `{"a":1,"call_id":"call_1"}`} {
		if got := string(rq.named([]byte(data))); got != want {
			t.Errorf("%s: %s, want %s", data, got, want)
		}
	}
}
