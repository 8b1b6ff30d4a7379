package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/transport/dashboard"
	"berth/transport/rest"
)

// team is a house with people in it.
type team struct {
	*house
	tokens []string // all that were given out
}

func newTeam(t *testing.T, settings map[string]any) *team {
	t.Helper()
	h := newHouse(t)
	h.configure(map[string]any{"berth": settings, "mcpServers": map[string]any{
		"fx": h.fixtureEntry(map[string]any{"trust_annotations": true, "effects": []any{map[string]any{"verb": "work", "is": []string{"write"}}}})}})
	must(t, h.start())
	return &team{house: h}
}

// hire makes a credential with the command and gives its id and token.
func (x *team) hire(user string, flags ...string) (id, token string) {
	x.t.Helper()
	args := append([]string{"token", "create", "--json", "--tenant", "acme", "--user", user}, flags...)
	code, out, errOut := x.berth(args...)
	var c rest.Credential
	if err := json.Unmarshal([]byte(out), &c); code != 0 || err != nil || len(c.Token) != 64 {
		x.t.Fatalf("%d %v %s", code, err, errOut)
	}
	x.tokens = append(x.tokens, c.Token)
	return c.CredentialID, c.Token
}

// ask makes one request without a session and gives status and body.
func (x *team) ask(method, path, body string, header ...string) (int, string) {
	x.t.Helper()
	req, err := http.NewRequestWithContext(x.t.Context(), method, "http://"+x.broker.Addr()+path, strings.NewReader(body))
	must(x.t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	must(x.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(x.t, err)
	return resp.StatusCode, string(text)
}

// busy reports whether a call runs at the one backend.
func (x *team) busy() bool {
	var list rest.Page[rest.Backend]
	if err := x.api("/api/v1/backends", nil, &list); err != nil {
		return false
	}
	return slices.ContainsFunc(list.Objects, func(b rest.Backend) bool { return b.Name == "fx" && b.InFlight == 1 })
}

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func TestEachOfTheThreeHeadersAuthenticatesAndNothingElseDoes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	must(t, os.MkdirAll(h.state, 0o700))
	key := strings.Repeat("k3y-", 10)
	must(t, os.WriteFile(filepath.Join(h.state, "api-key"), []byte(key+"\n"), 0o600))
	must(t, h.start())
	x := &team{house: h}
	_, token := x.hire("ana", "--role", "user")
	status, answer := x.ask("POST", "/api/v1/authenticate", `{"Token":"`+token+`"}`)
	var session rest.Authenticated
	if err := json.Unmarshal([]byte(answer), &session); status != 200 || err != nil || session.Token == "" {
		t.Fatalf("%d %s", status, answer)
	}
	local, err := os.ReadFile(filepath.Join(h.state, "api-token"))
	must(t, err)
	operator := strings.TrimSpace(string(local))
	status, answer = x.ask("POST", "/api/v1/authenticate", "", "Authorization", "Bearer "+operator)
	var own rest.Authenticated
	if err := json.Unmarshal([]byte(answer), &own); status != 200 || err != nil {
		t.Fatalf("%d %s", status, answer)
	}
	for name, tc := range map[string]struct {
		header []string
		mcp    int
		rest   int
	}{
		"none":                          {nil, 401, 401},
		"a credential token":            {[]string{"Authorization", "Bearer " + token}, 200, 403},
		"its session":                   {[]string{"X-Token", session.Token}, 200, 403},
		"the API key":                   {[]string{"X-Api-Key", key}, 200, 200},
		"the local token":               {[]string{"Authorization", "Bearer " + operator}, 200, 200},
		"its session, too":              {[]string{"X-Token", own.Token}, 200, 200},
		"a token as a session":          {[]string{"X-Token", token}, 401, 401},
		"a session as a token":          {[]string{"Authorization", "Bearer " + session.Token}, 401, 401},
		"a bad one before good ones":    {[]string{"Authorization", "Bearer x", "X-Token", session.Token, "X-Api-Key", key}, 401, 401},
		"a bad session before a key":    {[]string{"X-Token", "x", "X-Api-Key", key}, 401, 401},
		"a good one before bad ones":    {[]string{"Authorization", "Bearer " + operator, "X-Token", "x", "X-Api-Key", "x"}, 200, 200},
		"the cookie, which is a page's": {[]string{"Cookie", "berth_session_" + x.broker.Addr()[strings.LastIndex(x.broker.Addr(), ":")+1:] + "=" + own.Token}, 401, 200},
		"the cookie of a user":          {[]string{"Cookie", "berth_session_" + x.broker.Addr()[strings.LastIndex(x.broker.Addr(), ":")+1:] + "=" + session.Token}, 401, 403},
	} {
		if status, body := x.ask("POST", "/mcp", listTools, tc.header...); status != tc.mcp {
			t.Errorf("%s: /mcp answers %d %.200s", name, status, body)
		}
		if status, body := x.ask("GET", "/api/v1/status", "", tc.header...); status != tc.rest {
			t.Errorf("%s: the operator API answers %d %.200s", name, status, body)
		}
	}
	// Open are exactly these; everything else is 401, whatever it is.
	paths := map[string]bool{"GET /healthz": true, "POST /api/v1/authenticate": true, "GET /login/berth.css": true, "GET /login/berth.js": true, "GET /login/icon.svg": true,
		"GET /login/": false, "GET /login/page.html": false}
	for _, r := range dashboard.Routes() {
		paths[r.Method+" "+strings.TrimSuffix(r.Path, "{$}")] = r.Open
	}
	for _, r := range rest.Routes() {
		place := r.Method + " " + r.Path
		if _, said := paths[place]; !said {
			paths[place] = false
		}
	}
	for _, more := range []string{"POST /mcp", "GET /mcp", "DELETE /mcp", "POST /mcp/full", "POST /mcp/fx", "POST /mcp/nope", "POST /rpc", "GET /rpc", "GET /", "GET /dashboard", "GET /api/v1/status/health", "GET /nowhere", "PUT /mcp"} {
		paths[more] = false
	}
	for place, open := range paths {
		method, path, _ := strings.Cut(place, " ")
		status, body := x.ask(method, strings.NewReplacer("{id}", "x", "{name}", "x").Replace(path), `{"jsonrpc":`)
		if (status == 401) == open && place != "POST /api/v1/authenticate" && place != "POST /login" {
			t.Errorf("%s: %d %s", place, status, body)
		}
		if status == 401 && place != "POST /login" && !strings.Contains(body, `"Error":"Unauthorized"`) {
			t.Errorf("%s: %s", place, body)
		}
	}
	if code, _, errOut := h.berth("token", "rotate"); code != 0 {
		t.Fatal(errOut)
	}
	if status, _ := x.ask("GET", "/api/v1/status", "", "X-Token", own.Token); status != 401 {
		t.Errorf("a session of the token that was replaced: %d", status)
	}
}

func TestTwoPrincipalsShareNothingButTheBackends(t *testing.T) {
	t.Parallel()
	x := newTeam(t, map[string]any{})
	_, anas := x.hire("ana", "--role", "user")
	_, bens := x.hire("ben", "--role", "user")
	_, chiefs := x.hire("chief", "--role", "tenant-admin")
	ana, ben, chief, operator := newWireFor(x.house, "ana", anas), newWireFor(x.house, "ben", bens), newWireFor(x.house, "chief", chiefs), newWire(x.house, "operator")

	t.Run("idempotency keys", func(t *testing.T) {
		mine, err := ana.call(t.Context(), "fx__echo", map[string]any{"of": "ana"}, "k")
		must(t, err)
		theirs, err := ben.call(t.Context(), "fx__echo", map[string]any{"of": "ben"}, "k")
		must(t, err)
		if mine.JobID == "" || theirs.JobID == "" || mine.JobID == theirs.JobID || theirs.Replayed {
			t.Errorf("%+v\n%+v", mine, theirs)
		}
		again, err := ana.call(t.Context(), "fx__echo", map[string]any{"of": "ana"}, "k")
		must(t, err)
		if again.JobID != mine.JobID || !again.Replayed {
			t.Errorf("%+v", again)
		}
	})
	t.Run("jobs", func(t *testing.T) {
		mine, err := ana.call(t.Context(), "fx__echo", map[string]any{}, "job")
		must(t, err)
		ana.want(mine.JobID, "Succeeded", "")
		const never = "job_mpkd6cu0_Uuql5kDlrM4"
		for name, w := range map[string]*wire{"another user": ben, "the tenant's administrator": chief} {
			seen, err := w.status(t.Context(), mine.JobID, 0)
			must(t, err)
			other, err := w.status(t.Context(), never, 0)
			must(t, err)
			if seen.Code != "job_not_found" || !seen.IsError || strings.ReplaceAll(seen.Text, mine.JobID, never) != other.Text {
				t.Errorf("%s sees %s\nof none %s", name, seen.Text, other.Text)
			}
			for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/result"} {
				_, real := w.request(t.Context(), method, map[string]any{"taskId": mine.JobID})
				_, none := w.request(t.Context(), method, map[string]any{"taskId": never})
				var is *rpcError
				if !errors.As(real, &is) || none == nil || real.Error() != none.Error() {
					t.Errorf("%s, %s: %v, of none %v", name, method, real, none)
				}
			}
			if listed, err := w.request(t.Context(), "tasks/list", map[string]any{}); err != nil || strings.Contains(string(listed), mine.JobID) {
				t.Errorf("%s lists %s, %v", name, listed, err)
			}
		}
		if seen, err := operator.status(t.Context(), mine.JobID, 0); err != nil || seen.Status != "Succeeded" {
			t.Errorf("the operator: %+v, %v", seen, err)
		}
	})
	t.Run("the rest of an answer", func(t *testing.T) {
		cut, err := ana.request(t.Context(), "tools/call", map[string]any{"name": "fx__big", "arguments": map[string]any{"bytes": 20_000},
			"_meta": map[string]any{"berth/resultTokens": 500}})
		must(t, err)
		var answer struct {
			Meta struct {
				Call struct {
					Shape struct{ Handle string } `json:"shape"`
					More  struct{ Handle string } `json:"more"`
				} `json:"berth/call"`
			} `json:"_meta"`
		}
		must(t, json.Unmarshal(cut, &answer))
		handle := answer.Meta.Call.More.Handle + answer.Meta.Call.Shape.Handle
		if handle == "" {
			_, rest, found := strings.Cut(string(cut), `"handle":"`)
			if !found {
				t.Fatalf("%.1500s", cut[len(cut)-1500:])
			}
			handle, _, _ = strings.Cut(rest, `"`)
		}
		if got, err := ana.call(t.Context(), "more", map[string]any{"handle": handle}, ""); err != nil || got.IsError {
			t.Fatalf("its own: %.300s, %v", got.Text, err)
		}
		theirs, err := ben.call(t.Context(), "more", map[string]any{"handle": handle}, "")
		must(t, err)
		nonsense, err := ben.call(t.Context(), "more", map[string]any{"handle": "nonsense"}, "")
		must(t, err)
		if theirs.Code != "handle_unknown" || theirs.Text != nonsense.Text {
			t.Errorf("another's: %s\nnonsense: %s", theirs.Text, nonsense.Text)
		}
	})
	t.Run("sessions", func(t *testing.T) {
		stolen := &wire{house: x.house, http: ben.http, token: ben.token, session: ana.session}
		if _, err := stolen.call(t.Context(), "fx__echo", map[string]any{}, ""); err != nil {
			t.Errorf("it is not served without a session: %v", err)
		}
		var list rest.Page[rest.Session]
		must(t, x.api("/api/v1/sessions", url.Values{}, &list))
		for _, s := range list.Objects {
			if s.User == "ana" && s.Calls == 0 {
				t.Errorf("%+v", s)
			}
		}
		status, body := x.ask("GET", "/mcp/full", "", "Authorization", "Bearer "+bens, "Accept", "text/event-stream", "Mcp-Session-Id", ana.session)
		if status != 404 || strings.Contains(body, "ana") {
			t.Errorf("another's stream: %d %s", status, body)
		}
	})
	x.silent(t)
}

func TestARevokedCredentialIsRefusedAndItsStreamsEnd(t *testing.T) {
	t.Parallel()
	x := newTeam(t, map[string]any{})
	id, token := x.hire("ana", "--role", "user")
	_, other := x.hire("ana", "--role", "user", "--label", "another of hers")
	ana := newWireFor(x.house, "ana", token)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+x.broker.Addr()+"/mcp/full", nil)
	must(t, err)
	for name, value := range map[string]string{"Authorization": "Bearer " + token, "Accept": "text/event-stream", "Mcp-Session-Id": ana.session, "Mcp-Protocol-Version": "2025-11-25"} {
		req.Header.Set(name, value)
	}
	stream, err := http.DefaultClient.Do(req)
	must(t, err)
	defer stream.Body.Close()
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(io.Discard, stream.Body)
		ended <- err
	}()
	answer := make(chan string, 1)
	go func() {
		r, err := ana.call(context.WithoutCancel(t.Context()), "fx__work", map[string]any{"seconds": 5}, "")
		answer <- fmt.Sprint(r.Text, err)
	}()
	eventually(t, "the call runs", x.busy)
	if code, out, errOut := x.berth("token", "revoke", id, "--reason", "lost"); code != 0 || !strings.Contains(out, "is revoked") {
		t.Fatalf("%d %s %s", code, out, errOut)
	}
	if status, body := x.ask("POST", "/mcp", listTools, "Authorization", "Bearer "+token); status != 401 {
		t.Errorf("the next request: %d %s", status, body)
	}
	limit := time.After(5 * time.Second)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the stream: %v", err)
		}
	case <-limit:
		t.Error("the stream is open after 5 s")
	}
	select {
	case text := <-answer:
		if !strings.Contains(text, "unauthorized") {
			t.Errorf("the call was answered with %s", text)
		}
	case <-limit:
		t.Error("the call waits after 5 s")
	}
	// What may write goes on as a job, whose owner is the user.
	hers := newWireFor(x.house, "ana", other)
	tasks, err := hers.request(t.Context(), "tasks/list", map[string]any{})
	must(t, err)
	var list struct{ Tasks []struct{ TaskID string } }
	must(t, json.Unmarshal(tasks, &list))
	if len(list.Tasks) != 1 {
		t.Fatalf("%s", tasks)
	}
	hers.want(list.Tasks[0].TaskID, "Succeeded", "")
	if code, out, _ := x.berth("token", "list"); code != 0 || strings.Contains(out, id) || !strings.Contains(out, "another of hers") {
		t.Errorf("%s", out)
	}
	must(t, x.start())
	if status, _ := x.ask("POST", "/mcp", listTools, "Authorization", "Bearer "+token); status != 401 {
		t.Errorf("after a restart: %d", status)
	}
	if status, _ := x.ask("POST", "/mcp", listTools, "Authorization", "Bearer "+other); status != 200 {
		t.Errorf("the other after a restart: %d", status)
	}
	x.silent(t)
}

func TestACredentialIsHeldToItsShareItsProfilesAndReading(t *testing.T) {
	t.Parallel()
	x := newTeam(t, map[string]any{})
	_, narrow := x.hire("ana", "--role", "user", "--share", "fx=in_flight:1")
	_, slow := x.hire("ben", "--role", "user", "--share", "*=rate:0.01,burst:2")
	_, reader := x.hire("cy", "--role", "user", "--read-only", "--profile", "fx", "--profile", "full")

	ana := newWireFor(x.house, "ana", narrow)
	done := make(chan error, 1)
	go func() {
		_, err := ana.call(context.WithoutCancel(t.Context()), "fx__slow", map[string]any{"seconds": 3600}, "")
		done <- err
	}()
	eventually(t, "the call runs", x.busy)
	second := newWireFor(x.house, "ana again", narrow)
	refused, err := second.call(t.Context(), "fx__echo", map[string]any{}, "")
	must(t, err)
	if refused.Code != string(broker.CodeOverloaded) || !refused.IsError || !strings.Contains(refused.Text, `"of":"credential"`) || !strings.Contains(refused.Text, "retry_after_ms") {
		t.Errorf("%s", refused.Text)
	}
	ben := newWireFor(x.house, "ben", slow)
	for i, want := range []string{"", "", "rate_limited"} {
		if r, err := ben.call(t.Context(), "fx__echo", map[string]any{}, ""); err != nil || r.Code != want {
			t.Errorf("call %d: %+v, %v", i, r, err)
		}
	}
	if r, err := ben.call(t.Context(), "health", map[string]any{}, ""); err != nil || r.IsError {
		t.Errorf("what holds no seat is not counted: %+v, %v", r, err)
	}
	auth := []string{"Authorization", "Bearer " + reader}
	if status, list := x.ask("POST", "/mcp", listTools, auth...); status != 200 || !strings.Contains(list, `"echo"`) || strings.Contains(list, `"work"`) {
		t.Errorf("%d %s", status, list)
	}
	for path, want := range map[string]int{"/mcp/fx": 200, "/mcp/full": 200, "/mcp/essential": 403, "/mcp/nope": 403} {
		if status, body := x.ask("POST", path, listTools, auth...); status != want || (want == 403 && !strings.Contains(body, "profile_not_permitted")) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if _, body := x.ask("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","arguments":7}}`, auth...); !strings.Contains(body, "read_only_session") && !strings.Contains(body, "invalid_arguments") {
		t.Errorf("%s", body)
	}
	if code, _, errOut := x.berth("token", "create", "--tenant", "acme", "--user", "u", "--role", "user", "--profile", "nope"); code != exitRefused || !strings.Contains(errOut, "profile_unknown") {
		t.Errorf("%d %s", code, errOut)
	}
	for _, share := range []string{"fx", "fx=", "fx=weight:x", "fx=weight:0", "fx=in_flight:1.5", "fx=what:1", "fx=rate:5,rate:6"} {
		if code, _, _ := x.berth("token", "create", "--tenant", "acme", "--user", "u", "--role", "user", "--share", share); code != exitUsage {
			t.Errorf("--share %s: exit %d", share, code)
		}
	}
	if code, _, _ := x.berth("token", "create", "--tenant", "acme", "--user", "u"); code != exitUsage {
		t.Errorf("without a role: exit %d", code)
	}
	must(t, x.broker.Stop())
	<-done
	if code, _, errOut := x.berth("token", "list"); code != exitNoBroker {
		t.Errorf("without a broker: %d %s", code, errOut)
	}
	x.silent(t)
}

// silent stops the broker and looks for tokens in everything that it wrote.
func (x *team) silent(t *testing.T) {
	t.Helper()
	select {
	case <-x.broker.Ended():
	default:
		must(t, x.broker.Stop())
	}
	seen := map[string][]byte{"the log": []byte(x.broker.Log())}
	must(t, filepath.WalkDir(x.state, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		seen[path], err = os.ReadFile(path)
		return err
	}))
	if len(seen[filepath.Join(x.state, journalFile)]) == 0 || len(x.tokens) == 0 {
		t.Error("there was nothing to look at")
	}
	for what, data := range seen {
		for i, token := range x.tokens {
			if bytes.Contains(data, []byte(token)) {
				t.Errorf("%s has token %d", what, i)
			}
		}
	}
}

// TestWhatAnAdministratorHasOpenEndsWithHisCredential: the stream of events ends,
// and a request that waits for a job gets no job.
func TestWhatAnAdministratorHasOpenEndsWithHisCredential(t *testing.T) {
	t.Parallel()
	x := newTeam(t, map[string]any{"drain_timeout": "0s"})
	id, token := x.hire("chief", "--role", "global-admin")
	job, err := newWire(x.house, "worker").call(t.Context(), "fx__work", map[string]any{"seconds": 60}, "k")
	must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+x.broker.Addr()+"/api/v1/events/stream", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	stream, err := http.DefaultClient.Do(req)
	must(t, err)
	defer stream.Body.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, stream.Body)
		ended <- err
	}()
	eventually(t, "the job runs", func() bool {
		_, body := x.ask("GET", "/api/v1/jobs/"+job.JobID, "", "Authorization", "Bearer "+token)
		return strings.Contains(body, `"Status":"Running"`)
	})
	type answer struct {
		status int
		body   string
	}
	waited := make(chan answer, 1)
	go func() {
		status, body := x.ask("GET", "/api/v1/jobs/"+job.JobID+"?waitSeconds=50", "", "Authorization", "Bearer "+token)
		waited <- answer{status, body}
	}()
	before := x.refusals("unauthorized")
	if code, _, errOut := x.berth("token", "revoke", id, "--reason", "lost"); code != 0 {
		t.Fatal(errOut)
	}
	limit := time.After(5 * time.Second)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the stream: %v", err)
		}
	case <-limit:
		t.Error("the stream is open after 5 s")
	}
	select {
	case got := <-waited: // also when it came after the revocation
		if got.status != 401 || strings.Contains(got.body, job.JobID) {
			t.Errorf("the wait was answered with %+v", got)
		}
	case <-limit:
		t.Error("the request waits after 5 s")
	}
	if after := x.refusals("unauthorized"); after != before+1 {
		t.Errorf("%d refusals were counted", after-before)
	}
	x.silent(t)
}

// refusals is how many refusals of a code were counted.
func (x *team) refusals(code string) (n int) {
	x.t.Helper()
	for line := range strings.Lines(x.get("/metrics")) {
		if value, ok := strings.CutPrefix(line, `berth_refusals_total{code="`+code+`"} `); ok {
			_, err := fmt.Sscan(value, &n)
			must(x.t, err)
		}
	}
	return n
}

// TestATaskOfAStatelessClientIsItsUsers: a client of 2026-07-28 has no session, so
// its credential alone says whose tasks it sees.
func TestATaskOfAStatelessClientIsItsUsers(t *testing.T) {
	t.Parallel()
	x := newTeam(t, map[string]any{"drain_timeout": "0s"})
	id, anas := x.hire("ana", "--role", "user")
	_, bens := x.hire("ben", "--role", "user")
	_, answer := x.ask("POST", "/api/v1/authenticate", `{"Token":"`+anas+`"}`)
	var session rest.Authenticated
	must(t, json.Unmarshal([]byte(answer), &session))
	request := func(method, name string, params map[string]any, header ...string) (int, string) {
		params["_meta"] = map[string]any{"berth/idempotencyKey": "k", "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "t", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}}}
		body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
		must(t, err)
		header = append(header, "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
		return x.ask("POST", "/mcp/full", string(body), header...)
	}
	bearer, token, other := []string{"Authorization", "Bearer " + anas}, []string{"X-Token", session.Token}, []string{"Authorization", "Bearer " + bens}
	status, body := request("tools/call", "fx__work", map[string]any{"name": "fx__work", "arguments": map[string]any{"seconds": 60}}, bearer...)
	var made struct{ Result struct{ TaskID string } }
	if err := json.Unmarshal([]byte(body), &made); status != 200 || err != nil || made.Result.TaskID == "" {
		t.Fatalf("%d %s", status, body)
	}
	task := func() map[string]any { return map[string]any{"taskId": made.Result.TaskID} }
	for name, header := range map[string][]string{"her credential": bearer, "her session": token} {
		if status, body := request("tasks/get", made.Result.TaskID, task(), header...); status != 200 || !strings.Contains(body, `"status":"working"`) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		_, seen := request(method, made.Result.TaskID, task(), other...)
		_, none := request(method, "job_none", map[string]any{"taskId": "job_none"}, other...)
		if seen != none || !strings.Contains(seen, `"code":-32602`) {
			t.Errorf("%s by another: %s\nof no task: %s", method, seen, none)
		}
	}
	if code, _, errOut := x.berth("token", "revoke", id, "--reason", "lost"); code != 0 {
		t.Fatal(errOut)
	}
	for name, header := range map[string][]string{"her credential": bearer, "her session": token} {
		if status, body := request("tasks/get", made.Result.TaskID, task(), header...); status != 401 {
			t.Errorf("%s after its end: %d %s", name, status, body)
		}
	}
	x.silent(t)
}
