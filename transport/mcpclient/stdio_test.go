package mcpclient

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

const rich = `{"name":"echo","arguments":{"z":1,"a":12345678901234567890,"s":"<&\u2028\/","f":1.0e+2,"nested":{"y":[],"x":null}},"unknown":true}`

func TestStdioCallKeepsParamsAndResultByteForByte(t *testing.T) {
	got := make(chan string, 1)
	f := newFake(func(f *fake, m message) {
		got <- string(m.params)
		f.answer(m, string(m.params))
	})
	_, c := f.open(t, Options{})
	a, err := c.Call(t.Context(), call(rich), broker.Peer{})
	if err != nil {
		t.Fatal(err)
	}
	if p := <-got; p != rich {
		t.Errorf("the backend got %s", p)
	}
	if string(a.Result) != rich {
		t.Errorf("the result is %s", a.Result)
	}
	inc := c.Incarnation()
	if a.RuntimeID == "" || a.RuntimeID != inc.RuntimeID || inc.Reported || inc.PID != 4711 {
		t.Errorf("identity: answer %q, incarnation %+v", a.RuntimeID, inc)
	}
	if len(inc.Tools) != 1 || string(inc.Tools[0].Raw) != `{"name":"echo","x-unknown":12345678901234567890}` {
		t.Errorf("tools: %s", inc.Tools[0].Raw)
	}
	if !strings.Contains(string(inc.Server.Info), "12345678901234567890") {
		t.Errorf("server info: %s", inc.Server.Info)
	}
}

func TestStdioPrettyPrintedParamsStayOneLine(t *testing.T) {
	f := newFake(func(f *fake, m message) { f.answer(m, string(m.params)) })
	_, c := f.open(t, Options{})
	a, err := c.Call(t.Context(), call("{\n  \"name\": \"a\\nb\"\r\n}"), broker.Peer{})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{   "name": "a\nb"  }`; string(a.Result) != want {
		t.Errorf("got %q, want %q", a.Result, want)
	}
}

func TestStdioErrorComesBackAsItCame(t *testing.T) {
	const object = `{"data":{"z":12345678901234567890,"a":"\u003c"}, "code":-32042,"own":1.0,"message":"no"}`
	f := newFake(func(f *fake, m message) {
		f.send(`{"jsonrpc":"2.0","error":` + object + `,"id":` + string(m.id) + `}`)
	})
	_, c := f.open(t, Options{})
	a, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
	if err != nil {
		t.Fatal(err)
	}
	if a.Error == nil || a.Error.Code != -32042 || a.Error.Message != "no" || string(a.Error.Data) != `{"z":12345678901234567890,"a":"\u003c"}` || string(a.Error.Object()) != object {
		t.Errorf("error: %+v", a.Error)
	}
}

func TestStdioReportedRuntimeIDWins(t *testing.T) {
	f := newFake(nil)
	f.introduction = `{"protocolVersion":"2024-11-05","capabilities":{},"_meta":{"berth/runtimeId":"life-1"}}`
	_, c := f.open(t, Options{})
	inc := c.Incarnation()
	if inc.RuntimeID != "life-1" || !inc.Reported || len(inc.Tools) != 0 {
		t.Errorf("incarnation: %+v", inc)
	}
}

func TestStdioOpenRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		introduction, page, want string
	}{
		"unknown version":        {introduction: `{"protocolVersion":"1999-01-01"}`, want: "1999-01-01"},
		"version without shake":  {introduction: `{"protocolVersion":"2026-07-28"}`, want: "2026-07-28"},
		"no object":              {introduction: `[]`, want: "not the one of an MCP server"},
		"a list without tools":   {introduction: plainIntroduction, page: `{"nothing":1}`, want: "no list of tools"},
		"broken capabilities":    {introduction: `{"protocolVersion":"2025-11-25","capabilities":3}`, want: "not an object"},
		"tools of another shape": {introduction: plainIntroduction, page: `{"tools":{"a":1}}`, want: "no list of tools"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(nil)
			f.introduction = tc.introduction
			f.pages = func(string) string { return tc.page }
			_, err := NewStdio(StdioConfig{Start: f.start}, Options{}).Open(t.Context(), nil)
			var open *broker.OpenError
			if !errors.As(err, &open) || !strings.Contains(open.Cause, tc.want) || open.Auth {
				t.Fatalf("Open: %v", err)
			}
			<-f.done // the child was stopped
		})
	}
}

func TestStdioOpenTellsWhyTheChildEnded(t *testing.T) {
	f := newFake(nil)
	f.pages = func(string) string { f.exit(); return "" }
	_, err := NewStdio(StdioConfig{Start: f.start}, Options{Redact: func(s string) string { return strings.ReplaceAll(s, "words", "[x]") }}).Open(t.Context(), nil)
	var open *broker.OpenError
	if !errors.As(err, &open) || !strings.Contains(open.Cause, "status 7") || open.Stderr != "last [x]" {
		t.Fatalf("Open: %#v", err)
	}
}

func TestACauseIsCutAfterItsCredentialsAreTakenOut(t *testing.T) {
	f := newFake(nil)
	f.introduction = `{"protocolVersion":"` + strings.Repeat("x", 195) + ` several words"}`
	_, err := NewStdio(StdioConfig{Start: f.start}, Options{Redact: func(s string) string { return strings.ReplaceAll(s, "several words", "[x]") }}).Open(t.Context(), nil)
	var open *broker.OpenError
	if !errors.As(err, &open) || strings.Contains(open.Cause, "sever") || !strings.Contains(open.Cause, "xx [x]") {
		t.Fatalf("Open: %#v", err)
	}
}

func TestStdioOpenEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(nil)
		f.deafAfter = 1
		start := time.Now()
		_, err := NewStdio(StdioConfig{Start: f.start}, Options{OpenTimeout: 5 * time.Second}).Open(t.Context(), nil)
		if err == nil || time.Since(start) != 5*time.Second {
			t.Fatalf("Open: %v after %v", err, time.Since(start))
		}
	})
}

func TestToolPagesAreFollowedToTheEnd(t *testing.T) {
	pages := map[string]string{
		``:                     `{"tools":[{"name":"a"}],"nextCursor":"p\u0032"}`,
		`{"cursor":"p\u0032"}`: `{"tools":[{"name":"b"},{"title":"nameless"}],"nextCursor":"p3"}`,
		`{"cursor":"p3"}`:      `{"tools":[{"name":"c"}]}`,
	}
	f := newFake(nil)
	f.pages = func(p string) string { return pages[p] }
	_, c := f.open(t, Options{})
	inc := c.Incarnation()
	if len(inc.Tools) != 3 || len(inc.Flags) != 1 || !strings.Contains(inc.Flags[0], "without a name") {
		t.Errorf("tools %d, flags %q", len(inc.Tools), inc.Flags)
	}
}

func TestToolWalkIsBounded(t *testing.T) {
	n := 0
	for name, tc := range map[string]struct {
		pages func(string) string
		opts  Options
		tools int
		flag  string
	}{
		"repeated cursor": {
			pages: func(string) string { return `{"tools":[{"name":"a"}],"nextCursor":"again"}` },
			tools: 2, flag: "repeats a cursor",
		},
		"cursor without end": {
			pages: func(string) string { n++; return fmt.Sprintf(`{"tools":[{"name":"a"}],"nextCursor":"%d"}`, n) },
			tools: maxPages, flag: "pages",
		},
		"too many tools": {
			pages: func(string) string { return `{"tools":[{"name":"a"},{"name":"b"},{"name":"c"}]}` },
			opts:  Options{MaxTools: 2}, tools: 2, flag: "more than 2 tools",
		},
		"too many bytes": {
			pages: func(string) string {
				n++
				return fmt.Sprintf(`{"tools":[{"name":"a","d":"%s"}],"nextCursor":"%d"}`, strings.Repeat("x", 600), n)
			},
			opts: Options{MaxAnswer: 1000}, tools: 2, flag: "larger than 1000 bytes",
		},
		"cursor of another type": {
			pages: func(string) string { return `{"tools":[],"nextCursor":7}` },
			tools: 0, flag: "no string",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(nil)
			f.pages = tc.pages
			_, c := f.open(t, tc.opts)
			inc := c.Incarnation()
			if len(inc.Tools) != tc.tools || len(inc.Flags) != 1 || !strings.Contains(inc.Flags[0], tc.flag) {
				t.Errorf("tools %d, flags %q", len(inc.Tools), inc.Flags)
			}
		})
	}
}

func TestStdioNoiseIsSkippedAndCounted(t *testing.T) {
	f := newFake(func(f *fake, m message) {
		f.send("Server listening on port 3")
		f.send("")
		f.send(`{"jsonrpc":"2.0","id":`)
		f.send(`{"jsonrpc":"2.0"}`)
		f.send(`{"jsonrpc":"2.0","id":99999,"result":{}}`)
		f.send(`{"jsonrpc":"2.0","id":"` + string(m.id) + `","result":{}}`)
		f.send(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
		f.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":77,"progress":1}}`)
		f.answer(m, `{"bad":"`+"\xff"+`"}`)
		f.answer(m, `{"duplicate":true}`)
		f.send(`{"jsonrpc":"2.0","method":"end"}`)
	})
	s, c := f.open(t, Options{})
	a, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
	if err != nil || string(a.Result) != "{\"bad\":\"\uFFFD\"}" {
		t.Fatalf("answer %q, %v", a.Result, err)
	}
	// The script has returned when its message is seen; a second call's answer
	// comes after all of its noise was read.
	f.script = nil
	<-f.seen
	want := Noise{Banner: 1, Broken: 2, BadText: 1, Unknown: 3, Notifications: 2, LateProgress: 1}
	c.Close(t.Context())
	if got := s.Noise(); got != want {
		t.Errorf("noise\n got %+v\nwant %+v", got, want)
	}
}

func TestBackendRequestsAreAnsweredAtOnce(t *testing.T) {
	f := newFake(func(f *fake, m message) {
		switch {
		case m.method == "tools/call":
			f.send(`{"jsonrpc":"2.0","id":"p1","method":"ping"}`)
			f.send(`{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{}}`)
			f.answer(m, `{}`)
		}
	})
	s, c := f.open(t, Options{})
	if _, err := c.Call(t.Context(), call(`{}`), broker.Peer{}); err != nil {
		t.Fatal(err)
	}
	<-f.seen // the call
	ping, sampling := <-f.seen, <-f.seen
	if string(ping.id) != `"p1"` || string(ping.result) != `{}` {
		t.Errorf("ping: %s %s", ping.id, ping.result)
	}
	if string(sampling.id) != `2` || !strings.Contains(string(sampling.err), "cannot be asked for sampling") {
		t.Errorf("sampling: %s %s", sampling.id, sampling.err)
	}
	if s.Noise().Requests != 1 {
		t.Errorf("noise: %+v", s.Noise())
	}
}

func TestProgressComesInOrderWithoutTheToken(t *testing.T) {
	const n = 20 // fewer than are kept for a slow reader
	f := newFake(func(f *fake, m message) {
		value := member(m.params, "_meta", "progressToken")
		if value == nil {
			t.Errorf("no token in %s", m.params)
		}
		for i := range n {
			f.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d,"progressToken":%s,"total":12345678901234567890}}`, i, value))
		}
		f.answer(m, string(m.params))
		f.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":99,"progressToken":%s}}`, value))
	})
	s, c := f.open(t, Options{})
	cl := call(`{"z":1,"_meta":{"k":12345678901234567890},"a":2}`)
	cl.WantProgress = true
	var got []string
	returned := false
	a, err := c.Call(t.Context(), cl, broker.Peer{Progress: func(p broker.Progress) {
		if returned {
			t.Error("progress after the answer")
		}
		got = append(got, string(p.Params))
	}})
	returned = true
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != n {
		t.Fatalf("%d notifications", len(got))
	}
	for i, p := range got {
		if want := fmt.Sprintf(`{"progress":%d,"total":12345678901234567890}`, i); p != want {
			t.Errorf("progress %d is %s", i, p)
		}
	}
	if !strings.HasPrefix(string(a.Result), `{"z":1,"_meta":{"k":12345678901234567890,"progressToken":`) || !strings.HasSuffix(string(a.Result), `},"a":2}`) {
		t.Errorf("params were %s", a.Result)
	}
	<-f.seen
	c.Close(t.Context())
	if s.Noise().LateProgress != 1 {
		t.Errorf("noise: %+v", s.Noise())
	}
}

func TestProgressOfASlowReaderKeepsTheLatest(t *testing.T) {
	entered, sent := make(chan struct{}), make(chan struct{})
	f := newFake(func(f *fake, m message) {
		one := func(i int) {
			f.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, m.id, i))
		}
		one(0)
		<-entered
		for i := 1; i <= 3*notesKept; i++ {
			one(i)
		}
		f.answer(m, `{}`)
		f.send(`{"jsonrpc":"2.0","method":"flushed"}`) // read after the answer was
		close(sent)
	})
	s, c := f.open(t, Options{})
	cl := call(`{}`)
	cl.WantProgress = true
	var last string
	var once sync.Once
	if _, err := c.Call(t.Context(), cl, broker.Peer{Progress: func(p broker.Progress) {
		once.Do(func() { close(entered); <-sent })
		last = string(p.Params)
	}}); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(`{"progress":%d}`, 3*notesKept); last != want {
		t.Errorf("the last is %s, want %s", last, want)
	}
	if s.Noise().LostProgress != 2*notesKept {
		t.Errorf("noise: %+v", s.Noise())
	}
}

func TestMalformedParamsAreRefusedBeforeDispatch(t *testing.T) {
	f := newFake(nil)
	_, c := f.open(t, Options{})
	for _, p := range []string{`[1]`, `{"_meta":3}`, `{"a":`} {
		cl := call(p)
		cl.WantProgress = true
		_, err := c.Call(t.Context(), cl, broker.Peer{Progress: func(broker.Progress) {}})
		if got := failure(t, err); got.Dispatched || got.Refusal == nil || got.Refusal.Code != broker.CodeInvalidArguments {
			t.Errorf("%s: %+v", p, got)
		}
	}
}

func TestOversizedAnswerFailsItsCallAlone(t *testing.T) {
	const limit = 200_000
	big := strings.Repeat("x", limit)
	for name, format := range map[string]string{
		"id first":               `{"jsonrpc":"2.0","id":%s,"result":{"big":"%s","id":1}}`,
		"id last":                `{"result":{"big":"%[2]s"},"jsonrpc":"2.0","id":%[1]s}`,
		"id last before jsonrpc": `{"result":{"big":"%[2]s"}, "id" : %[1]s , "jsonrpc":"2.0" }`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(func(f *fake, m message) {
				if strings.Contains(string(m.params), "big") {
					f.send(fmt.Sprintf(format, m.id, big))
					return
				}
				f.answer(m, `{"fine":true}`)
			})
			s, c := f.open(t, Options{MaxAnswer: limit})
			_, err := c.Call(t.Context(), call(`{"name":"big"}`), broker.Peer{})
			if got := failure(t, err); got.Refusal == nil || got.Refusal.Code != broker.CodeAnswerTooLarge || got.Gone || !got.Dispatched {
				t.Errorf("failure: %+v", got)
			}
			if a, err := c.Call(t.Context(), call(`{}`), broker.Peer{}); err != nil || string(a.Result) != `{"fine":true}` {
				t.Errorf("the next call: %s, %v", a.Result, err)
			}
			if s.Noise().Oversized != 1 {
				t.Errorf("noise: %+v", s.Noise())
			}
		})
	}
}

func TestAnAnswerOf65MiBIsRefusedAndTheNextOnePasses(t *testing.T) {
	chunk := strings.Repeat("x", 1<<20)
	f := newFake(func(f *fake, m message) {
		if !strings.Contains(string(m.params), "big") {
			f.answer(m, `{}`)
			return
		}
		f.out.Write([]byte(`{"jsonrpc":"2.0","id":` + string(m.id) + `,"result":"`))
		for range 65 {
			f.out.Write([]byte(chunk))
		}
		f.send(`"}`)
	})
	_, c := f.open(t, Options{})
	_, err := c.Call(t.Context(), call(`{"name":"big"}`), broker.Peer{})
	if got := failure(t, err); got.Refusal == nil || got.Refusal.Code != broker.CodeAnswerTooLarge {
		t.Errorf("failure: %+v", got)
	}
	if _, err := c.Call(t.Context(), call(`{}`), broker.Peer{}); err != nil {
		t.Error(err)
	}
}
