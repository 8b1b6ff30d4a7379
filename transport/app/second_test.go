package app

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Another app, to show that one is added by writing a table: a shelf of notes.
const (
	notesHealth Route = iota
	notesList
	notesAdd
)

var notes = Surface{
	Name: "notes", Version: "0.1",
	Discovery: Discovery{Port: "NOTES_PORT", PortFile: "NOTES_PORT_FILE", Database: "NOTES_DB", StateDir: "NOTES_STATE", ReadOnly: "NOTES_READ_ONLY",
		PortFileName: "notes.port", TokenFile: "token.{port}", Token: regexp.MustCompile(`^[a-z]{8}$`),
		DefaultState: func(string, func(string) string) string { return "/nowhere" }, Health: notesHealth},
	Sentences: Sentences{NotRunning: "notes is not running.", NotNamed: "No notes at {path}.", NoPath: "notes.port", BadPort: "NOTES_PORT is no port.", NoToken: "No token in {state} for {base}.",
		TokenRefused: "{base} refuses the token.", NotThisApp: "{base} is not notes.", Restarted: "{base} has restarted.", Stopped: "{base} stopped.", ReadOnly: "Read-only.", Unsure: "It may be done; {verb} tells."},
	Routes: []Endpoint{notesHealth: {Method: Get, Path: "/up", Identity: true}, notesList: {Method: Get, Path: "/shelf/{shelf}"}, notesAdd: {Method: Put, Path: "/shelf/{shelf}"}},
	Tools: []Tool{
		{Name: "add_note", About: "Adds a note.", Effects: broker.Write, Confirm: true, Tells: "list_notes", Run: addNote,
			Params: []Param{{Name: "shelf", Kind: ID, Required: true}, {Name: "text", Kind: Text, Required: true}, {Name: "times", Kind: Count, Least: 1, Else: 1}}},
		{Name: "list_notes", About: "Lists notes.", Run: Whole(notesList, "shelf"), Params: []Param{{Name: "shelf", Kind: ID, Required: true}}},
		{Name: "panics", About: "Fails.", Run: func(*Call) (json.RawMessage, *Problem) { panic("a bug") }},
	},
}

func addNote(c *Call) (json.RawMessage, *Problem) {
	if problem := c.Alone(); problem != nil {
		return nil, problem
	}
	reply, problem := c.Send(Request{Route: notesAdd, ID: c.Text("shelf"), Body: Object{{"text", Quote(c.Text("text"))}, {"times", Int(c.Int("times"))}}.JSON()})
	if problem != nil {
		return nil, problem
	}
	if _, problem := c.Object(reply); problem != nil {
		return nil, problem
	}
	return reply.Body, nil
}

// notesApp is the app itself.
type notesApp struct {
	*httptest.Server
	env map[string]string

	mu      sync.Mutex
	asked   []string
	answer  http.HandlerFunc // instead of its own, but for health
	healthy http.HandlerFunc
}

func startNotes(t *testing.T) *notesApp {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startNotesOn(t, l)
}

func startNotesOn(t *testing.T, l net.Listener) *notesApp {
	t.Helper()
	n := &notesApp{}
	n.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(n.serve)}}
	n.Start()
	t.Cleanup(n.Close)
	dir := t.TempDir()
	_, port, err := net.SplitHostPort(n.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "token."+port), []byte("abcdefgh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.env = map[string]string{"NOTES_PORT": port, "NOTES_STATE": dir}
	return n
}

func (n *notesApp) serve(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, r.Method+" "+r.URL.Path)
	switch {
	case r.Header.Get("Authorization") != "Bearer abcdefgh":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/up" && n.healthy != nil:
		n.healthy(w, r)
	case r.URL.Path == "/up":
		w.Write([]byte(`{"status":"ok"}`))
	case n.answer != nil:
		n.answer(w, r)
	default:
		w.Write([]byte(`{ "shelf": 1.50, "n" : "é" }`))
	}
}

func (n *notesApp) requests() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.asked, ", ")
}

func openNotes(t *testing.T, o Options) (*Backend, broker.Conn) {
	t.Helper()
	b := New(&notes, o)
	conn, err := b.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()); b.Wait() })
	return b, conn
}

func callNotes(t *testing.T, conn broker.Conn, name, arguments string) (text string, isError bool) {
	t.Helper()
	a, err := conn.Call(t.Context(), &broker.Call{Params: json.RawMessage(`{"name":"` + name + `","arguments":` + arguments + `}`)}, broker.Peer{})
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(a.Result, &r); err != nil || len(r.Content) != 1 {
		t.Fatalf("%v %s", err, a.Result)
	}
	return r.Content[0].Text, r.IsError
}

func TestAnotherAppIsATable(t *testing.T) {
	app := startNotes(t)
	b, conn := openNotes(t, Options{Env: app.env})
	if got := string(notes.List(false)[0].Raw); got != `{"name":"add_note","description":"Adds a note.","inputSchema":{"type":"object","properties":{"shelf":{"type":"integer"},"text":{"type":"string"},"times":{"type":"integer","minimum":1,"default":1}},"required":["shelf","text"]},"requires_confirmation":true}` {
		t.Errorf("%s", got)
	}
	source := notes.Source("n", true)
	if len(source.Tools) != 2 || source.Effects["add_note"] != broker.Write || string(source.Server.Info) != `{"name":"notes","version":"0.1"}` {
		t.Errorf("%+v", source)
	}
	tests := []struct {
		name, arguments string
		isError         bool
		want            string
	}{
		{"list_notes", `{"shelf":3}`, false, `{"shelf":1.50,"n":"é"}`},
		{"add_note", `{"shelf":"3","text":"<b>","times":"2"}`, false, `{"shelf":1.50,"n":"é"}`},
		{"add_note", `{"shelf":3}`, true, `{"error":"invalid_argument","message":"The argument text is required.","detail":{"argument":"text"}}`},
		{"panics", `{}`, true, `{"error":"internal_error","message":"The tool panics failed inside the adapter.","detail":{"reason":"panic"}}`},
		{"nothing", `{}`, true, `{"error":"invalid_argument","message":"There is no tool nothing here.","detail":{"name":"nothing"}}`},
		{"list_notes", `7`, true, `{"error":"invalid_argument","message":"The arguments must be an object.","detail":{}}`},
	}
	for _, tt := range tests {
		if text, isError := callNotes(t, conn, tt.name, tt.arguments); text != tt.want || isError != tt.isError {
			t.Errorf("%s %s: %s", tt.name, tt.arguments, text)
		}
	}
	if got := app.requests(); got != "GET /up, GET /shelf/3, PUT /shelf/3" {
		t.Errorf("asked: %s", got)
	}
	if got := string(b.Refuse("list_notes", broker.Refuse(broker.CodeCallTimeout, "Too late.", nil))); !strings.Contains(got, `"tried":["`+app.URL+`"]`) {
		t.Errorf("%s", got)
	}
}

func TestAServerThatClosesEachConnectionIsConfirmedAllTheSame(t *testing.T) {
	app := startNotes(t)
	app.Config.SetKeepAlivesEnabled(false)
	_, conn := openNotes(t, Options{Env: app.env})
	for range 3 {
		if text, isError := callNotes(t, conn, "list_notes", `{"shelf":1}`); isError {
			t.Errorf("%s", text)
		}
	}
}

func TestAServerThatHangsUpAfterEachHealthCheckIsNotAskedForEver(t *testing.T) {
	app := startNotes(t)
	app.healthy = func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}"))
		conn.Close()
	}
	_, conn := openNotes(t, Options{Env: app.env})
	text, isError := callNotes(t, conn, "list_notes", `{"shelf":1}`)
	if !isError || !strings.Contains(text, `"reason":"closed"`) {
		t.Errorf("%s", text)
	}
	if n := strings.Count(app.requests(), "/up"); n > 2*maxStale {
		t.Errorf("%d health checks", n)
	}
}

func TestHealthIsJudgedByWhatItSays(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"another status", `201`, `"not_notes":["BASE"],"status":201`},
		{"no JSON", `ok`, `"not_notes":["BASE"],"status":200`},
		{"no status", `{}`, `"not_notes":["BASE"],"status":200`},
		{"not ok", `{"status":"starting"}`, `"not_notes":["BASE"],"status":200`},
		{"an array", `["ok"]`, `"not_notes":["BASE"],"status":200`},
		{"too long", `{"status":"ok","x":"` + strings.Repeat("x", maxHealth) + `"}`, `"not_notes":["BASE"],"status":200`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			app := startNotes(t)
			app.healthy = func(w http.ResponseWriter, _ *http.Request) {
				if tt.body == "201" {
					w.WriteHeader(http.StatusCreated)
					w.Write([]byte(`{"status":"ok"}`))
					return
				}
				w.Write([]byte(tt.body))
			}
			_, conn := openNotes(t, Options{Env: app.env})
			text, isError := callNotes(t, conn, "list_notes", `{"shelf":1}`)
			if !isError || !strings.Contains(text, strings.ReplaceAll(tt.want, "BASE", app.URL)) {
				t.Errorf("%s", text)
			}
			if got := app.requests(); got != "GET /up" {
				t.Errorf("asked: %s", got)
			}
		})
	}
}

func TestWhatSpeaksNoHTTPIsNotTheApp(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte("SSH-2.0-something\r\n"))
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token."+port), []byte("abcdefgh"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, conn := openNotes(t, Options{Env: map[string]string{"NOTES_PORT": port, "NOTES_STATE": dir}})
	text, isError := callNotes(t, conn, "list_notes", `{"shelf":1}`)
	// It may have closed before or after its line was read.
	if !isError || !strings.Contains(text, `"not_notes"`) && !strings.Contains(text, "is not running") {
		t.Errorf("%s", text)
	}
}

// What is told of an error is cut, also where a token stands: no half of one is
// left. This app's tokens have no form that would show what they are.
func TestACutLeavesNoHalfOfAToken(t *testing.T) {
	app := startNotes(t)
	var body string
	app.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		w.Write([]byte(body))
	}
	_, conn := openNotes(t, Options{Env: app.env})
	for before := range len("abcdefgh") {
		for _, body = range []string{
			`{"detail":"` + strings.Repeat("é", maxRelayed-before) + `\u0061bcdefgh"}`,
			`{"detail":[{"loc":["` + strings.Repeat("é", maxField-before) + `abcdefgh"],"type":"t"}]}`,
		} {
			text, isError := callNotes(t, conn, "list_notes", `{"shelf":1}`)
			rest, _, _ := strings.Cut(text[strings.LastIndex(text, "é")+len("é"):], `"`)
			if !isError || !strings.HasPrefix(redacted+" (t)", rest) {
				t.Errorf("%d characters before the end is left %q", before, rest)
			}
		}
	}
}

// piped is a listener inside the process, for a bubble: what travels over it
// takes no time there.
type piped struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func (p *piped) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *piped) Close() error   { p.once.Do(func() { close(p.over) }); return nil }
func (p *piped) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7} }

func (p *piped) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// inBubble runs a test against the app inside a bubble, so that limits are those
// of its clock, however busy the machine is.
func inBubble(t *testing.T, limits Limits, test func(t *testing.T, app *notesApp, b *Backend, conn broker.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		p := &piped{conns: make(chan net.Conn), over: make(chan struct{})}
		app := startNotesOn(t, p)
		b, conn := openNotes(t, Options{Env: app.env, Limits: limits, Dial: p.dial})
		test(t, app, b, conn)
	})
}

// silent reads a request and answers nothing until its caller has gone.
func silent(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestACallWaitsNoLongerThanItsLimits(t *testing.T) {
	tests := []struct {
		name   string
		limits Limits
		after  time.Duration
	}{
		{"of a request", Limits{}, 30 * time.Second},
		{"of a call", Limits{Call: 20 * time.Second}, 20 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, tt.limits, func(t *testing.T, app *notesApp, _ *Backend, conn broker.Conn) {
				app.answer = silent
				began := time.Now()
				text, isError := callNotes(t, conn, "add_note", `{"shelf":1,"text":"x"}`)
				if !isError || !strings.Contains(text, `"outcome_unknown":true,"reason":"timeout"`) || !strings.Contains(text, "It may be done; list_notes tells.") {
					t.Errorf("%s", text)
				}
				if took := time.Since(began); took != tt.after {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestAnAppThatSaysNothingIsNotWaitedForLong(t *testing.T) {
	inBubble(t, Limits{}, func(t *testing.T, app *notesApp, _ *Backend, conn broker.Conn) {
		app.healthy = silent
		began := time.Now()
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				if text, isError := callNotes(t, conn, "list_notes", `{"shelf":1}`); !isError || !strings.Contains(text, `"message":"notes is not running."`) {
					t.Errorf("%s", text)
				}
			})
		}
		calls.Wait()
		if took := time.Since(began); took != 3*time.Second || app.requests() != "GET /up" {
			t.Errorf("after %s, having asked %s", took, app.requests())
		}
	})
}

func TestAnAddressThatTakesNoConnectionIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := startNotesOn(t, &piped{conns: make(chan net.Conn), over: make(chan struct{})})
		_, conn := openNotes(t, Options{Env: app.env, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		began := time.Now()
		text, isError := callNotes(t, conn, "list_notes", `{"shelf":1}`)
		if took := time.Since(began); !isError || !strings.Contains(text, "notes is not running.") || took != 3*time.Second {
			t.Errorf("after %s: %s", took, text)
		}
	})
}

func TestACallThatWaitsForItsTurnInVainHasDoneNothing(t *testing.T) {
	inBubble(t, Limits{}, func(t *testing.T, app *notesApp, b *Backend, conn broker.Conn) {
		b.alone["add_note"] <- struct{}{} // another call has it
		began := time.Now()
		text, isError := callNotes(t, conn, "add_note", `{"shelf":1,"text":"y"}`)
		if !isError || !strings.Contains(text, `"conflict"`) || !strings.Contains(text, "nothing was changed") || app.requests() != "" || time.Since(began) != 40*time.Second {
			t.Errorf("after %s: %s; asked: %s", time.Since(began), text, app.requests())
		}
		if text, isError := callNotes(t, conn, "list_notes", `{"shelf":1}`); isError {
			t.Errorf("another tool waits too: %s", text)
		}
		<-b.alone["add_note"]
		for range 2 { // the turn is given back
			if text, isError := callNotes(t, conn, "add_note", `{"shelf":1,"text":"y"}`); isError {
				t.Errorf("%s", text)
			}
		}
	})
}
