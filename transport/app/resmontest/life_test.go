package resmontest

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func refusesConnections(t *testing.T, f *Fake) {
	t.Helper()
	if _, err := do(f.request(t, "GET", "/api/health", "")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the port answers: %v", err)
	}
}

func TestStartWritesBothFiles(t *testing.T) {
	f := Run(t, Options{Data: Small})
	if got := content(t, f.PortFile()); got != strconv.Itoa(f.Port()) {
		t.Errorf("the port file has %q, want the port and nothing else", got)
	}
	if got := content(t, f.TokenFile()); got != f.Token() || !tokenForm.MatchString(got) {
		t.Errorf("the token file has %d characters", len(got))
	}
	if filepath.Base(f.TokenFile()) != "api-token-"+strconv.Itoa(f.Port()) {
		t.Errorf("the token file is %s", f.TokenFile())
	}
	info, err := os.Stat(f.TokenFile())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token file is %v, %v", info.Mode(), err)
	}
	env := f.Env()
	if env["RESMON_PORT_FILE"] != f.PortFile() || env["RESMON_STATE_DIR"] != filepath.Dir(f.TokenFile()) || filepath.Dir(env["RESMON_DB_PATH"]) != filepath.Dir(f.PortFile()) ||
		filepath.Dir(f.PortFile()) == env["RESMON_STATE_DIR"] || env["RESMON_PORT"] != "" {
		t.Errorf("environment %v", env)
	}
	if port := f.PortEnv(); port["RESMON_PORT"] != strconv.Itoa(f.Port()) || port["RESMON_STATE_DIR"] != env["RESMON_STATE_DIR"] || len(port) != 2 {
		t.Errorf("environment with the port %v", port)
	}
	if err := f.Start(); err == nil {
		t.Error("it starts twice")
	}
}

func TestStopRemovesTheFilesAndCrashLeavesThem(t *testing.T) {
	f := Run(t, Options{Data: Small})
	port, token, runtime := f.Port(), f.Token(), f.RuntimeID()
	if err := f.Crash(); err != nil {
		t.Fatal(err)
	}
	refusesConnections(t, f)
	if content(t, f.TokenFile()) != token || content(t, f.PortFile()) != strconv.Itoa(port) {
		t.Error("a crash changed the files")
	}
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	if f.Port() != port || f.Token() == token || f.RuntimeID() == runtime || content(t, f.TokenFile()) != f.Token() {
		t.Errorf("the next life has port %d (was %d), the same token: %v", f.Port(), port, f.Token() == token)
	}
	must(t, f, "GET", "/api/health", "")
	for range 2 {
		if err := f.Stop(); err != nil {
			t.Fatal(err)
		}
		refusesConnections(t, f)
		for _, path := range []string{f.TokenFile(), f.PortFile()} {
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is there after a stop: %v", path, err)
			}
		}
	}
	if err := f.Restart(); err == nil {
		t.Error("what does not run restarts")
	}
}

func TestRestartKeepsThePortAndTheDataAndNothingElse(t *testing.T) {
	f := Run(t, Options{Data: Small})
	port, token, runtime := f.Port(), f.Token(), f.RuntimeID()
	id := must(t, f, "POST", "/api/search/sweep", `{"query":"q","repositories":["arxiv"]}`).object(t)["execution_id"].(interface{ String() string }).String()
	stale := f.request(t, "GET", "/api/health", "")
	if err := f.Restart(); err != nil {
		t.Fatal(err)
	}
	if f.Port() != port || f.Token() == token || f.RuntimeID() == runtime {
		t.Errorf("port %d (was %d), token kept %v, runtime kept %v", f.Port(), port, f.Token() == token, f.RuntimeID() == runtime)
	}
	if got, err := do(stale); err != nil || got.status != 401 {
		t.Errorf("the old token: %d, %v", got.status, err)
	}
	e := must(t, f, "GET", "/api/executions/"+id, "").object(t)
	if e["status"] != "interrupted" || e["interrupted_reason"] != "owner_dead" || e["owner_runtime_id"] != runtime || e["end_time"] == nil {
		t.Errorf("the run is %v", e)
	}
	if seeded := must(t, f, "GET", "/api/executions/16", "").object(t); seeded["status"] != "interrupted" || len(f.Running()) != 0 {
		t.Errorf("execution %v is %v; running %v", seeded["id"], seeded["status"], f.Running())
	}
	if f.Requests()[0].Life != runtime || f.Requests()[2].Life != f.RuntimeID() {
		t.Error("the record does not tell the lives apart")
	}
}

func TestRestartBetweenTwoRequests(t *testing.T) {
	f := Run(t, Options{Data: Small})
	must(t, f, "POST", "/api/search/sweep", sweepBody)
	second, runtime := f.request(t, "GET", "/api/executions/1", ""), f.RuntimeID()
	f.Inject(RestartAfter(), Scope{Template: "/api/health", Times: 1})
	if id := identityOf(t, must(t, f, "GET", "/api/health", "")); id["runtime_id"] != runtime {
		t.Errorf("the answer is of %v, want %s", id, runtime)
	}
	if got, err := do(second); err != nil || got.status != 401 {
		t.Errorf("the next request: %d, %v", got.status, err)
	}
	if id := identityOf(t, must(t, f, "GET", "/api/health", "")); id["runtime_id"] == runtime || id["runtime_id"] != f.RuntimeID() || content(t, f.TokenFile()) != f.Token() {
		t.Errorf("the new life is %v", id)
	}
	if len(f.Running()) != 0 {
		t.Error("a run outlived its process")
	}
}

func TestCallersDuringARestartMeetOneLifeOrTheOther(t *testing.T) {
	f := Run(t, Options{Data: Small})
	var callers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got, err := do(f.request(t, "GET", "/api/health", ""))
				if err == nil && got.err == nil && got.status != 200 && got.status != 401 {
					t.Errorf("%d %s", got.status, got.body)
				}
			}
		})
	}
	for range 20 {
		if err := f.Restart(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	callers.Wait()
	must(t, f, "GET", "/api/health", "")
}

func TestRotatedTokenRefusesTheOldOne(t *testing.T) {
	f := Run(t, Options{Data: Small})
	old, runtime := f.request(t, "GET", "/api/health", ""), f.RuntimeID()
	if err := f.RotateToken(); err != nil {
		t.Fatal(err)
	}
	if got, err := do(old); err != nil || got.status != 401 {
		t.Errorf("the old token: %d, %v", got.status, err)
	}
	if content(t, f.TokenFile()) != f.Token() || f.RuntimeID() != runtime {
		t.Error("the file has another token, or the life changed")
	}
	must(t, f, "GET", "/api/health", "")
	if len(f.Secrets()) != 3 {
		t.Errorf("%d secrets, want two tokens and what is planted", len(f.Secrets()))
	}
}

func TestFilesCanBePutIntoEveryState(t *testing.T) {
	f := Run(t, Options{Data: Small})
	t.Run("port file", func(t *testing.T) {
		for state, want := range map[FileState]string{FileStale: "1", FileEmpty: "", FileMalformed: "127.0.0.1:" + strconv.Itoa(f.Port()), FileGood: strconv.Itoa(f.Port())} {
			if err := f.SetPortFile(state); err != nil || content(t, f.PortFile()) != want {
				t.Errorf("state %d: %q, %v", state, content(t, f.PortFile()), err)
			}
		}
		if err := f.SetPortFile(FileMissing); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(f.PortFile()); !errors.Is(err, os.ErrNotExist) {
			t.Error("the port file is there")
		}
		if got := content(t, f.tokenFile(DeadPort)); !tokenForm.MatchString(got) || got == f.Token() {
			t.Error("the dead port has no token file of its own")
		}
		if c, err := net.Dial("tcp4", "127.0.0.1:"+strconv.Itoa(DeadPort)); err == nil {
			c.Close()
			t.Error("something listens on the dead port")
		}
	})
	t.Run("token file", func(t *testing.T) {
		for _, state := range []FileState{FileStale, FileEmpty, FileMalformed, FileShort} {
			if err := f.SetTokenFile(state); err != nil {
				t.Fatal(err)
			}
			if got := content(t, f.TokenFile()); got == f.Token() || tokenForm.MatchString(got) != (state == FileStale) {
				t.Errorf("state %d has %d characters", state, len(got))
			}
		}
		if err := f.SetTokenFile(FileMissing); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(f.TokenFile()); !errors.Is(err, os.ErrNotExist) {
			t.Error("the token file is there")
		}
		if err := f.SetTokenFile(FileGood); err != nil || content(t, f.TokenFile()) != f.Token() {
			t.Errorf("the token file is not good again: %v", err)
		}
	})
	if f.SetPortFile(99) == nil || f.SetTokenFile(99) == nil {
		t.Error("a state that does not exist is taken")
	}
}

func TestSquattersAnswerForNobody(t *testing.T) {
	f := Run(t, Options{Data: Small})
	if _, err := f.Squat(SquatHTML); err == nil {
		t.Fatal("the port of a running instance was taken")
	}
	if err := f.Crash(); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[SquatterKind]int{SquatHTML: 200, SquatJSON: 200, Squat401: 401} {
		t.Run(string(kind), func(t *testing.T) {
			s, err := f.Squat(kind)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			got, err := do(f.request(t, "GET", "/api/health", ""))
			if err != nil || got.status != want || got.header.Get("WWW-Authenticate") == `Bearer realm="resmon"` {
				t.Errorf("%d %s, %v", got.status, got.body, err)
			}
			if seen := s.Requests(); len(seen) != 1 || seen[0].Token != TokenOther || seen[0].Path != "/api/health" || s.Connections() != 1 || s.URL() != f.Base() {
				t.Errorf("it saw %+v on %d connections", seen, s.Connections())
			}
		})
	}
	t.Run("silent", func(t *testing.T) {
		s, err := f.Squat(SquatSilent)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp4", s.URL()[len("http://"):])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Close() }()
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("it said %d bytes", n)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	must(t, f, "GET", "/api/health", "")
}

func TestInstancesHaveNothingInCommon(t *testing.T) {
	a, b := Run(t, Options{Data: Small, Stamp: "a", FirstID: 1_000}), Run(t, Options{Data: Small, Stamp: "b", FirstID: 2_000})
	if a.Port() == b.Port() || a.Token() == b.Token() || a.RuntimeID() == b.RuntimeID() {
		t.Error("two instances share a port, a token or a runtime id")
	}
	req := a.request(t, "GET", "/api/health", "")
	req.Header.Set("Authorization", "Bearer "+b.Token())
	if got, err := do(req); err != nil || got.status != 401 {
		t.Errorf("the token of another instance: %d, %v", got.status, err)
	}
	for _, path := range []string{"/api/documents/1001/why", "/api/routines/1001", "/api/executions/1001", "/api/profiles/1001"} {
		if got := get(t, b, path); got.status != 404 {
			t.Errorf("%s is known to the other: %d", path, got.status)
		}
	}
}

// Every answer that is passed on shows whose it is: by the stamp, or by ids
// that no other instance has.
func TestAnswersCarryTheStamp(t *testing.T) {
	f := Run(t, Options{Data: Small, Stamp: "lab7", FirstID: 70_000})
	for _, p := range Pairs() {
		if p.Method != "GET" || p.Template == "/api/executions" {
			continue
		}
		path := instance(f, p.Template)
		got := must(t, f, "GET", path, "")
		if !regexp.MustCompile(`lab7`).Match(got.body) && !regexp.MustCompile(`^/api/settings/(assistant|embeddings|storage|notifications)$`).MatchString(path) {
			t.Errorf("%s: no stamp in %.200s", path, got.body)
		}
	}
	for _, row := range must(t, f, "GET", "/api/executions", "").list(t) {
		if row["id"].(float64) <= 70_000 {
			t.Errorf("execution %v", row["id"])
		}
	}
}

// instance fills the place of a template with the id of something that exists.
func instance(f *Fake, template string) string {
	return regexp.MustCompile(`\{[a-z_]+\}`).ReplaceAllString(template, strconv.FormatInt(f.ExecutionID(1), 10))
}

func TestStopWaitsForWhatRuns(t *testing.T) {
	f := Run(t, Options{Data: Small})
	held := f.Inject(Hold(), Scope{})
	ended := make(chan error, 1)
	req := f.request(t, "GET", "/api/health", "")
	go func() {
		_, err := do(req)
		ended <- err
	}()
	<-held.Reached()
	if err := f.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("a request was answered by an instance that had stopped")
	}
}

func TestOptionsWithoutADirectoryAreRefused(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("no directory is needed")
	}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Options{Dir: blocked}); err == nil {
		t.Error("a file is taken for a directory")
	}
}
