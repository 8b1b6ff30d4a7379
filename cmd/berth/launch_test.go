package main

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/actors/missions"
	"berth/actors/missions/briefing"
	"berth/broker"
	"berth/broker/config"
	"berth/broker/credential"
	"berth/broker/dispatch"
	"berth/broker/native/board"
	"berth/broker/native/codeindex"
)

// launched is a broker in this process with a user's mission under way.
type launched struct {
	*running
	t      *testing.T
	state  string
	server *httptest.Server
	log    *spoken
}

// spoken is a log that may be read while it is written.
type spoken struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *spoken) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func newLaunched(t *testing.T) *launched {
	x := &launched{t: t, state: t.TempDir(), log: &spoken{}}
	x.open()
	return x
}

// open starts all of the broker but its socket.
func (x *launched) open() {
	t := x.t
	x.running = newRunning(config.Default(), func(string) (string, bool) { return "", false }, slog.New(slog.NewTextHandler(x.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(x.close)
	must(t, x.openState(t.Context(), x.state))
	must(t, x.openJournal(t.Context()))
	must(t, x.openAccess())
	must(t, x.startActors())
	handler, err := x.handler()
	must(t, err)
	x.server = httptest.NewServer(handler)
	t.Cleanup(x.server.Close)
}

// ask makes a request and gives its answer, whose body is the caller's to close.
func (x *launched) ask(method, path, body string, header ...string) *http.Response {
	x.t.Helper()
	req, err := http.NewRequestWithContext(x.t.Context(), method, x.server.URL+path, strings.NewReader(body))
	must(x.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	must(x.t, err)
	return resp
}

func (x *launched) status(method, path, body string, header ...string) int {
	x.t.Helper()
	resp := x.ask(method, path, body, header...)
	defer resp.Body.Close()
	_, err := io.Copy(io.Discard, resp.Body)
	must(x.t, err)
	return resp.StatusCode
}

func TestALaunchTokenIsGoodForMCPAndNowhereElse(t *testing.T) {
	x := newLaunched(t)
	m := dispatch.Mission{ID: "msn_mp1a2b3c_4d5E6f7G8h9", Owner: dispatch.OwnedBy(broker.LocalOperator)}
	token, why := x.access.launches.Issue(m)
	if token == "" {
		t.Fatal(why)
	}
	for _, tt := range []struct {
		place, body string
		want        int
	}{
		{"POST /mcp", listTools, 200},
		{"POST /mcp/armada", listTools, 200},
		{"POST /rpc", listTools, 200},
		{"GET /api/v1/status", "", 401},
		{"GET /api/v1/jobs", "", 401},
		{"POST /api/v1/credentials", `{"Tenant":"default","User":"eve","Role":"global-admin"}`, 401},
		{"POST /api/v1/authenticate", `{"Token":"` + token + `"}`, 401},
		{"GET /dashboard/", "", 401},
		{"GET /metrics", "", 401},
	} {
		method, path, _ := strings.Cut(tt.place, " ")
		if got := x.status(method, path, tt.body, "Authorization", "Bearer "+token); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.place, got, tt.want)
		}
	}
	for _, header := range []string{"X-Token", "X-Api-Key"} {
		if got := x.status("POST", "/mcp", listTools, header, token); got != 401 {
			t.Errorf("as %s: %d", header, got)
		}
	}
	if got := x.status("POST", "/mcp", listTools, "Authorization", "Bearer "+token+"x"); got != 401 {
		t.Errorf("one character more: %d", got)
	}
	x.silent(token)
}

// silent fails the test when the token stands in the log or in a file of the
// state directory.
func (x *launched) silent(token string) {
	x.t.Helper()
	if strings.Contains(x.log.String(), token) {
		x.t.Error("the log has a launch token")
	}
	must(x.t, filepath.WalkDir(x.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(token)) {
			x.t.Errorf("%s has a launch token", filepath.Base(path))
		}
		return err
	}))
}

func TestARevokedLaunchTokenIsRefusedAndItsStreamEnds(t *testing.T) {
	x := newLaunched(t)
	m := dispatch.Mission{ID: "msn_mp1a2b3c_4d5E6f7G8h9", Owner: dispatch.OwnedBy(broker.LocalOperator)}
	token, _ := x.access.launches.Issue(m)
	bearer := []string{"Authorization", "Bearer " + token}
	hello := x.ask("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}}`, bearer...)
	_ = hello.Body.Close()
	session := hello.Header.Get("Mcp-Session-Id")
	stream := x.ask("GET", "/mcp", "", append(bearer, "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25", "Accept", "text/event-stream")...)
	defer stream.Body.Close()
	if hello.StatusCode != 200 || session == "" || stream.StatusCode != 200 {
		t.Fatalf("%d %q %d", hello.StatusCode, session, stream.StatusCode)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, stream.Body)
		ended <- err
	}()
	x.access.launches.Revoke(m.ID)
	if got := x.status("POST", "/mcp", listTools, bearer...); got != 401 {
		t.Errorf("the next request: %d", got)
	}
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("the stream is open after 5 s")
	}
	x.silent(token)
}

func TestWithoutAnAPIKeyNoMissionIsItsHolders(t *testing.T) {
	m := dispatch.Mission{ID: "msn_mp1a2b3c_4d5E6f7G8h9", Owner: dispatch.OwnedBy(operatorByKey)}
	if why := newLaunched(t).access.launches.Would(m); why == "" {
		t.Error("an agent would have the rights of a key that is not there")
	}
	x := &launched{t: t, state: t.TempDir(), log: &spoken{}}
	must(t, os.WriteFile(filepath.Join(x.state, "api-key"), []byte(strings.Repeat("k3y-", 10)+"\n"), 0o600))
	x.open()
	if why := x.access.launches.Would(m); why != "" {
		t.Error(why)
	}
}

// What an agent starts is its mission's owner's, so it finds it again.
func TestAnAgentMayPollTheJobThatItStarted(t *testing.T) {
	x := newLaunched(t)
	token, _ := x.access.launches.Issue(dispatch.Mission{ID: "msn_mp1a2b3c_4d5E6f7G8h9", Owner: dispatch.OwnedBy(broker.LocalOperator)})
	call := func(verb, arguments string) (out struct {
		JobID   string `json:"JobId"`
		Status  string
		Unavail string `json:"UnavailableReason"`
		Objects []struct {
			ID string `json:"Id"`
		}
	}) {
		t.Helper()
		resp := x.ask("POST", "/rpc", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+verb+`","arguments":`+arguments+`}}`, "Authorization", "Bearer "+token)
		defer resp.Body.Close()
		var answer struct {
			Result struct {
				IsError bool
				Content []struct{ Text string }
			}
		}
		must(t, json.NewDecoder(resp.Body).Decode(&answer))
		if resp.StatusCode != 200 || len(answer.Result.Content) == 0 || answer.Result.IsError {
			t.Fatalf("%s: %d %+v", verb, resp.StatusCode, answer)
		}
		must(t, json.Unmarshal([]byte(answer.Result.Content[0].Text), &out))
		return out
	}
	if got := call("call_read", `{"name":"mission_code_search","arguments":{"missionId":"msn_mp1a2b3c_4d5E6f7G8h9","query":"x"}}`); got.Unavail != "mission_not_found" {
		t.Errorf("a search that was passed on: %+v", got)
	}
	call("add_vessel", `{"name":"gone","repoUrl":"https://127.0.0.1:1/gone.git"}`)
	vessels := call("enumerate", `{"entityType":"vessels"}`)
	if len(vessels.Objects) != 1 {
		t.Fatalf("%+v", vessels)
	}
	job := call("index_update", `{"vesselId":"`+vessels.Objects[0].ID+`"}`)
	if job.JobID == "" {
		t.Fatalf("%+v", job)
	}
	if got := call("job_status", `{"jobId":"`+job.JobID+`","waitSeconds":50}`); got.JobID != job.JobID {
		t.Errorf("%+v", got)
	}
}

// What agents come with, and who is told of their missions, fit the seams of the
// package that carries missions out.
var (
	_ missions.Tokens  = (*credential.Launches)(nil)
	_ missions.Board   = (*board.Board)(nil)
	_ briefing.Tokens  = (*credential.Launches)(nil)
	_ briefing.Signals = (*board.Board)(nil)
	_ briefing.Packs   = (*codeindex.Family)(nil)
)
