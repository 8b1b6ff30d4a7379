package app

import (
	"context"
	"encoding/json"
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
	n := &notesApp{}
	n.Server = httptest.NewServer(http.HandlerFunc(n.serve))
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
	base, token := b.Where()
	if base != app.URL || filepath.Base(token) != "token."+app.env["NOTES_PORT"] {
		t.Errorf("%s %s", base, token)
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
		{"no JSON", `ok`, `"not_notes":["BASE"],"status":200`},
		{"no status", `{}`, `"not_notes":["BASE"],"status":200`},
		{"not ok", `{"status":"starting"}`, `"not_notes":["BASE"],"status":200`},
		{"an array", `["ok"]`, `"not_notes":["BASE"],"status":200`},
		{"too long", `{"status":"ok","x":"` + strings.Repeat("x", maxHealth) + `"}`, `"not_notes":["BASE"],"status":200`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			app := startNotes(t)
			app.healthy = func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(tt.body)) }
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

func TestACallWaitsNoLongerThanItsLimits(t *testing.T) {
	app := startNotes(t)
	release := make(chan struct{})
	app.answer = func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	t.Cleanup(func() { close(release) })
	_, conn := openNotes(t, Options{Env: app.env, Limits: Limits{Request: 50 * time.Millisecond, Call: 80 * time.Millisecond}})
	text, isError := callNotes(t, conn, "add_note", `{"shelf":1,"text":"x"}`)
	if !isError || !strings.Contains(text, `"outcome_unknown":true,"reason":"timeout"`) || !strings.Contains(text, "It may be done; list_notes tells.") {
		t.Errorf("%s", text)
	}
}

func TestACallThatWaitsForItsTurnInVainHasDoneNothing(t *testing.T) {
	app := startNotes(t)
	b, conn := openNotes(t, Options{Env: app.env, Limits: Limits{Call: 50 * time.Millisecond}})
	b.alone["add_note"] <- struct{}{} // another call has it
	text, isError := callNotes(t, conn, "add_note", `{"shelf":1,"text":"y"}`)
	if !isError || !strings.Contains(text, `"conflict"`) || !strings.Contains(text, "nothing was changed") || app.requests() != "" {
		t.Errorf("%s; asked: %s", text, app.requests())
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
}
