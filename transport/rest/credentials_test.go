package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/credential"
	"berth/broker/drain"
	"berth/transport/httpguard"
	"berth/transport/rest"
)

// table is a store of credentials without a disk.
type table map[string]credential.Stored

func (s table) Credentials() (out []credential.Stored, err error) {
	for _, r := range s {
		out = append(out, r)
	}
	return out, nil
}

func (s table) SaveCredential(_ context.Context, c credential.Stored, _ *broker.Event) (uint64, error) {
	c.Revision++
	s[c.ID] = c
	return c.Revision, nil
}

// team is an operator API with credentials: t0 is the local operator's token.
type team struct {
	t       *testing.T
	f       *fake
	desk    *credential.Desk
	handler http.Handler
}

func newTeam(t *testing.T) *team {
	t.Helper()
	x := &team{t: t, f: newFake(t)}
	var err error
	x.desk, err = credential.Open(table{}, credential.Options{Now: func() time.Time { return at }, Random: rand.NewChaCha8([32]byte{1}), Known: credential.Known{
		Profile: func(name string) bool { return name == "files" || name == "full" }}})
	if err != nil {
		t.Fatal(err)
	}
	attempts := credential.NewAttempts()
	guard := httpguard.New(httpguard.Options{
		Authenticate: func(kind httpguard.Kind, value string) (broker.Caller, bool) {
			switch {
			case kind == httpguard.Bearer && value == "t0":
				return broker.Caller{Principal: broker.LocalOperator}, true
			case kind == httpguard.Bearer:
				return x.desk.Bearer(value)
			case kind == httpguard.SessionToken:
				return x.desk.Caller(value)
			}
			return broker.Caller{}, false
		},
		Login: httpguard.Login{
			Issue: func(token string) (httpguard.Session, bool) {
				c, ok := x.desk.Bearer(token)
				return httpguard.Session{Token: c.Credential, Expires: at.Add(time.Hour)}, ok
			},
			Begin: func(from netip.Addr) (func(), *broker.Refusal) { return attempts.Begin(from, at) },
		},
	})
	x.handler = x.f.handler(nil, func(o *rest.Options) { o.Guard, o.Credentials = guard, x.desk })
	return x
}

func (x *team) ask(method, path, body string, header ...string) (int, map[string]any) {
	x.t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	x.handler.ServeHTTP(w, r)
	var answer map[string]any
	if w.Header().Get("Content-Type") == "application/json" && !strings.HasPrefix(w.Body.String(), "[") { // the inbox is a bare list
		answer = object(x.t, w.Body.String())
	}
	return w.Code, answer
}

const admin = "Bearer t0"

func (x *team) make(body string) (id, token string) {
	x.t.Helper()
	status, answer := x.ask("POST", "/api/v1/credentials", body, "Authorization", admin)
	if status != 200 {
		x.t.Fatalf("%d %v", status, answer)
	}
	return answer["CredentialId"].(string), answer["Token"].(string)
}

func TestACredentialIsMadeListedAndRevoked(t *testing.T) {
	x := newTeam(t)
	id, token := x.make(`{"tenant":"t","User":"ana","ROLE":"tenant-admin","Label":"l","Profiles":["files"],"ReadOnly":true,"Shares":{"*":{"Weight":2,"InFlight":3,"PerSecond":4}}}`)
	status, list := x.ask("GET", "/api/v1/credentials", "", "Authorization", admin)
	raw, _ := json.Marshal(list)
	row := list["Objects"].([]any)[0].(map[string]any)
	if status != 200 || strings.Contains(string(raw), token) || strings.Contains(strings.ToLower(string(raw)), "hash") || row["CredentialId"] != id ||
		row["Role"] != "tenant-admin" || row["LastUsedUtc"] != nil || row["Revoked"] != false || row["CreatedBy"] != "default/operator" || row["ReadOnly"] != true {
		t.Errorf("%d %s", status, raw)
	}
	if shares := row["Shares"].(map[string]any)["*"].(map[string]any); fmt.Sprintf("%v %v", shares["Burst"], shares["InFlight"]) != "4 3" {
		t.Errorf("%v", shares)
	}
	status, gone := x.ask("POST", "/api/v1/credentials/"+id+"/revoke", `{"Reason":"lost"}`, "Authorization", admin)
	if status != 200 || gone["Revoked"] != true || gone["RevokedBy"] != "default/operator" || gone["Token"] != nil {
		t.Errorf("%d %v", status, gone)
	}
	if status, _ := x.ask("GET", "/api/v1/status", "", "Authorization", "Bearer "+token); status != 401 {
		t.Errorf("the revoked one: %d", status)
	}
	for path, body := range map[string]string{"/api/v1/credentials/crd_none/revoke": "{}", "/api/v1/credentials/" + id + "/revoke": "[]", "/api/v1/credentials": `{"Tenant":"t"}`} {
		status, answer := x.ask("POST", path, body, "Authorization", admin)
		want := map[string]string{"/api/v1/credentials/crd_none/revoke": "credential_not_found"}[path]
		if want == "" {
			want = "invalid_arguments"
		}
		if status/100 != 4 || answer["Code"] != want {
			t.Errorf("%s %s: %d %v", path, body, status, answer)
		}
	}
	for name, body := range map[string]string{"ReadOnyl": `{"Tenant":"t","User":"u","Role":"user","ReadOnyl":true}`, "Rate": `{"tenant":"t","User":"u","Role":"user","Shares":{"fx":{"Rate":1}}}`} {
		status, answer := x.ask("POST", "/api/v1/credentials", body, "Authorization", admin)
		if data, _ := answer["Data"].(map[string]any); status != 400 || answer["Code"] != "invalid_arguments" || data["Name"] != name {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	if status, answer := x.ask("POST", "/api/v1/credentials", `{"Tenant":"t","User":"u","Role":"user","Profiles":["nope"]}`, "Authorization", admin); status != 404 || answer["Code"] != "profile_unknown" {
		t.Errorf("%d %v", status, answer)
	}
}

func TestACredentialTokenIsExchangedForASession(t *testing.T) {
	x := newTeam(t)
	id, token := x.make(`{"Tenant":"t","User":"ana","Role":"global-admin"}`)
	for name, ask := range map[string][]string{"in the body": {`{"token":"` + token + `"}`}, "as a header": {"", "Authorization", "Bearer " + token}} {
		status, answer := x.ask("POST", "/api/v1/authenticate", ask[0], ask[1:]...)
		if status != 200 || answer["Token"] != id || answer["ExpiresUtc"] == "" || len(answer) != 2 {
			t.Fatalf("%s: %d %v", name, status, answer)
		}
	}
	if status, _ := x.ask("GET", "/api/v1/status", "", "X-Token", id); status != 200 {
		t.Errorf("the session: %d", status)
	}
	for name, ask := range map[string][]string{"nothing": {""}, "a wrong one": {`{"Token":"x"}`}, "a bad header before a good body": {`{"Token":"` + token + `"}`, "Authorization", "Bearer x"},
		"another scheme": {"", "Authorization", "Basic " + token}} {
		r := httptest.NewRequest("POST", "http://localhost/api/v1/authenticate", strings.NewReader(ask[0]))
		if len(ask) > 1 {
			r.Header.Set(ask[1], ask[2])
		}
		w := httptest.NewRecorder()
		x.handler.ServeHTTP(w, r)
		if w.Code != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" || object(t, w.Body.String())["Error"] != "Unauthorized" || strings.Contains(w.Body.String(), token) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	last, answer := 0, map[string]any(nil)
	for range credential.AttemptsBurst + 1 {
		last, answer = x.ask("POST", "/api/v1/authenticate", `{"Token":"x"}`)
	}
	if last != 429 || answer["Code"] != "rate_limited" || answer["Error"] != "TooManyRequests" {
		t.Errorf("after too many: %d %v", last, answer)
	}
	if status, answer := x.ask("GET", "/api/v1/authenticate", ""); status != 405 {
		t.Errorf("GET: %d %v", status, answer)
	}
}

// TestRowsThatDoNotSayCallerAreForGlobalAdministrators is the Decided line of
// contracts/native.md section 21, for every row.
func TestRowsThatDoNotSayCallerAreForGlobalAdministrators(t *testing.T) {
	x := newTeam(t)
	for _, role := range []string{"user", "tenant-admin"} {
		_, token := x.make(`{"Tenant":"t","User":"ana","Role":"` + role + `"}`)
		for _, route := range rest.Routes() {
			if route.Scope == rest.Everyone {
				continue
			}
			status, answer := x.ask(route.Method, concrete(route.Path), "not looked at", "Authorization", "Bearer "+token)
			if status != 403 || answer["Code"] != "global_administrator_required" || answer["Data"].(map[string]any)["Reason"] != "global_administrator_required" {
				t.Errorf("%s, %s %s: %d %v", role, route.Method, route.Path, status, answer)
			}
		}
	}
}

func TestACredentialThatOnlyReadsChangesNothing(t *testing.T) {
	x := newTeam(t)
	_, token := x.make(`{"Tenant":"t","User":"ana","Role":"global-admin","ReadOnly":true}`)
	for _, route := range rest.Routes() {
		if route.Scope == rest.Everyone || route.Path == "/api/v1/calls" {
			continue
		}
		status, answer := x.ask(route.Method, concrete(route.Path), `{"Reason":"r"}`, "Authorization", "Bearer "+token)
		if refused := status == 403 && answer["Code"] == "read_only_session"; refused != (route.Method != "GET") {
			t.Errorf("%s %s: %d %v", route.Method, route.Path, status, answer)
		}
	}
	for name, want := range map[string]any{"files__build": "read_only_session", "files__read": nil} {
		_, answer := x.ask("POST", "/api/v1/calls", `{"Name":"`+name+`","Arguments":{"path":"p"}}`, "Authorization", "Bearer "+token)
		refusal, _ := answer["Refusal"].(map[string]any)
		if refusal["code"] != want {
			t.Errorf("%s: %v", name, answer)
		}
	}
	if len(x.f.requests) != 1 {
		t.Errorf("%d calls came through", len(x.f.requests))
	}
}

func TestACallIsMadeWithinItsCredentialsProfilesAndShares(t *testing.T) {
	x := newTeam(t)
	id, token := x.make(`{"Tenant":"t","User":"ana","Role":"global-admin","Profiles":["files"],"Shares":{"files":{"InFlight":3}}}`)
	for profile, want := range map[string]any{"": nil, "files": nil, "full": "profile_not_permitted"} {
		_, answer := x.ask("POST", "/api/v1/calls", `{"Name":"read","Profile":"`+profile+`","Arguments":{"path":"p"}}`, "Authorization", "Bearer "+token)
		refusal, _ := answer["Refusal"].(map[string]any)
		if refusal["code"] != want {
			t.Errorf("%q: %v", profile, answer)
		}
	}
	if len(x.f.requests) != 2 {
		t.Fatalf("%d calls came through", len(x.f.requests))
	}
	for _, r := range x.f.requests {
		if s := r.Call.Share; s == nil || s.Holder != id || s.InFlight != 3 || r.Call.Principal.User != "ana" {
			t.Errorf("%+v", r.Call)
		}
	}
}

// TestAWaitEndsWithItsCredential: what a request waited for is not shown to who
// holds a credential that was revoked meanwhile.
func TestAWaitEndsWithItsCredential(t *testing.T) {
	for name, tt := range map[string]struct {
		method, path, body string
		keepAlive          time.Duration
		status             int
	}{
		"for a job":                        {"GET", "/api/v1/jobs/job_1?waitSeconds=50", "", time.Minute, 401},
		"for an idle backend":              {"POST", "/api/v1/backends/files/drain?waitSeconds=50", `{"Reason":"r"}`, time.Minute, 401},
		"for a call":                       {"POST", "/api/v1/calls", `{"Name":"files__read","Arguments":{"path":"p"}}`, time.Minute, 401},
		"for a call that was kept waiting": {"POST", "/api/v1/calls", `{"Name":"files__read","Arguments":{"path":"p"}}`, time.Second, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				f.jobs = []broker.Job{job("job_1", broker.JobRunning, 0)}
				f.do = func(ctx context.Context, _ actors.Request) actors.Reply {
					<-ctx.Done()
					j := job("job_1", broker.JobRunning, 0)
					return actors.Reply{Job: &j}
				}
				life, revoke := context.WithCancel(t.Context())
				counted := map[broker.Code]int{}
				guard := httpguard.New(httpguard.Options{
					Authenticate: func(httpguard.Kind, string) (broker.Caller, bool) {
						return broker.Caller{Principal: broker.LocalOperator, Life: life}, life.Err() == nil
					},
					Counted: func(code broker.Code) { counted[code]++ },
				})
				h := f.handler(nil, func(o *rest.Options) { o.Guard, o.KeepAlive, o.Drains = guard, tt.keepAlive, slowDrains{} })
				time.AfterFunc(3*time.Second, revoke)
				began := time.Now()
				status, body := ask(t, h, tt.method, tt.path, tt.body)
				if took := time.Since(began); took < 3*time.Second || took > 8*time.Second {
					t.Errorf("it ended after %s", took)
				}
				if status != tt.status || !strings.Contains(strings.ToLower(body), `"code":"unauthorized"`) || strings.Contains(body, "job_1") {
					t.Errorf("status %d, body %s", status, body)
				}
				if counted[broker.CodeUnauthorized] != 1 {
					t.Errorf("counted %v", counted)
				}
			})
		})
	}
}

// slowDrains are backends that never become idle.
type slowDrains struct{ fakeDrains }

func (slowDrains) Idle(ctx context.Context, was drain.Drained) (drain.Drained, error) {
	<-ctx.Done()
	return was, nil
}

// Who sends a body knows JSON, not the types of Go.
func TestAFieldOfAnotherTypeIsToldInTheWordsOfJSON(t *testing.T) {
	x := newTeam(t)
	for body, want := range map[string]string{
		`{"Tenant":1}`:                          "In the field Tenant a string is wanted.",
		`{"ReadOnly":"yes"}`:                    "In the field ReadOnly true or false is wanted.",
		`{"Profiles":"files"}`:                  "In the field Profiles a list is wanted.",
		`{"Profiles":["files",7]}`:              "In the field Profiles a string is wanted.",
		`{"Shares":[1]}`:                        "In the field Shares an object is wanted.",
		`{"Shares":{"a":{"Weight":1.5}}}`:       "In the field Shares.Weight a whole number is wanted.",
		`{"Shares":{"a":{"PerSecond":"5"}}}`:    "In the field Shares.PerSecond a number is wanted.",
		"{\"Tenant\":\"t\xff\",\"User\":\"u\"}": "The body is not valid UTF-8.",
	} {
		status, answer := x.ask("POST", "/api/v1/credentials", body, "Authorization", admin)
		if status != 400 || answer["Error"] != "DeserializationError" || answer["Code"] != "invalid_arguments" || answer["Message"] != want {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
}
