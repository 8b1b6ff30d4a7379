package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/journal"
	"berth/transport/install"
	"berth/transport/statedir"
)

// sick is what a row of the doctor's tests makes ill.
type sick struct {
	t         *testing.T
	dir, home string
	args      []string
}

func (s *sick) file(name, text string, mode os.FileMode) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	must(s.t, os.WriteFile(path, []byte(text), 0o600))
	must(s.t, os.Chmod(path, mode)) // past the umask
	return path
}

// journalWith is a closed journal in the state directory.
func (s *sick) journalWith(fill func(*journal.Journal)) {
	s.t.Helper()
	j, err := journal.Open(filepath.Join(s.dir, journalFile), journal.Options{})
	must(s.t, err)
	fill(j)
	must(s.t, j.Close())
}

func (s *sick) broker() {
	s.t.Helper()
	_, stop, err := startFakeBroker(s.dir)
	must(s.t, err)
	s.t.Cleanup(stop)
}

func (s *sick) register(client string, o install.Options) {
	s.t.Helper()
	o.Home = s.home
	r, err := install.Plan(client, o)
	must(s.t, err)
	_, err = r.Apply()
	must(s.t, err)
}

// diagnose runs the doctor and gives its report and exit code.
func (s *sick) diagnose() (doctorReport, int) {
	s.t.Helper()
	var out, errOut bytes.Buffer
	code := run(append([]string{"doctor", "--json", "--state-dir", s.dir}, s.args...), strings.NewReader(""), &out, &errOut)
	var report doctorReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		s.t.Fatalf("%v\n%s\n%s", err, &out, &errOut)
	}
	return report, code
}

func newSick(t *testing.T) *sick {
	t.Helper()
	s := &sick{t: t, dir: filepath.Join(t.TempDir(), "state"), home: t.TempDir()}
	must(t, os.Mkdir(s.dir, 0o700))
	t.Setenv("HOME", s.home)
	for _, name := range []string{"XDG_CONFIG_HOME", "OPENCODE_CONFIG", "CLAUDE_CONFIG_DIR", "CODEX_HOME", statedir.EnvDir} {
		t.Setenv(name, "")
	}
	t.Chdir(s.home)
	return s
}

// freeConfig is a configuration that listens where nobody does.
func (s *sick) freeConfig() {
	path := filepath.Join(s.home, "berth.json")
	must(s.t, os.WriteFile(path, []byte(`{"berth": {"listen": "127.0.0.1:0"}}`), 0o600))
	s.args = []string{"--config", path}
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	old := func(age time.Duration) func(*journal.Journal) {
		return func(j *journal.Journal) {
			for i := range 7 {
				_, _, err := j.CreateJob(context.Background(), broker.Job{ID: fmt.Sprintf("job_old_%d", i), Operation: "b__work", Status: broker.JobAccepted,
					SubmittedAt: time.Now().Add(-age), Backend: "b"})
				if err != nil {
					panic(err)
				}
			}
		}
	}
	tests := []struct {
		name     string
		ill      func(*sick)
		check    string
		severity string
		says     string
		command  string
	}{
		{"no state directory", func(s *sick) { must(s.t, os.Remove(s.dir)) }, "state_directory", severeWarning, "no broker has run", "berth serve"},
		{"a state directory that is a file", func(s *sick) { must(s.t, os.Remove(s.dir)); must(s.t, os.WriteFile(s.dir, nil, 0o600)) }, "state_directory", severeError, "no directory", ""},
		{"a state directory that others can change", func(s *sick) { must(s.t, os.Chmod(s.dir, 0o777)) }, "state_directory", severeError, "mode 0777", "chmod 0700 "},
		{"a token that others can read", func(s *sick) { s.file("api-token", "x", 0o644) }, "secret_files", severeError, "api-token (mode 0644)", "chmod 0600 "},
		{"a token that is a link", func(s *sick) { must(s.t, os.Symlink("/etc/hostname", filepath.Join(s.dir, "api-token"))) }, "secret_files", severeError, "no regular file", "ls -l"},
		{"a journal that others can read", func(s *sick) {
			s.journalWith(func(*journal.Journal) {})
			must(s.t, os.Chmod(filepath.Join(s.dir, journalFile), 0o640))
		}, "secret_files", severeError, "journal.db", "chmod 0600 "},
		{"an API key that others can read", func(s *sick) { s.file("api-key", strings.Repeat("k", 40), 0o644) }, "secret_files", severeError, "api-key (mode 0644)", "chmod 0600 "},
		{"no broker", func(*sick) {}, "broker", severeWarning, "No broker runs", "berth serve"},
		{"a port file of a broker that is gone", func(s *sick) {
			c := exec.Command("true") // a process that has ended
			must(s.t, c.Run())
			s.file("berth.port", fmt.Sprintf("address 127.0.0.1:1\npid %d\nstart 1\nboot x\n", c.Process.Pid), 0o600)
		}, "broker", severeWarning, "is gone", "berth serve"},
		{"a port file that is none", func(s *sick) { s.file("berth.port", "what?", 0o600) }, "broker", severeError, "cannot be understood", "ls -l"},
		{"nobody at the address of a broker that runs", func(s *sick) {
			d, err := statedir.Open(s.dir)
			must(s.t, err)
			lock, err := d.Lock()
			must(s.t, err)
			s.t.Cleanup(func() { must(s.t, lock.Release()) })
			_, err = d.Credential()
			must(s.t, err)
			must(s.t, d.WritePort("127.0.0.1:1"))
		}, "broker", severeError, "does not answer as one", "berth backends"},
		{"a broker of another version", func(s *sick) { s.broker() }, "version", severeWarning, "of version test", "stopped"},
		{"a backend that is down", func(s *sick) { s.broker() }, "backends", severeError, "gone is down: connection refused", "berth backends"},
		{"a backend that did not come up", func(s *sick) { s.broker() }, "backends", severeError, "wrong could not be started when it was last needed: no such program", "berth backends"},
		{"an address that is taken", func(s *sick) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(s.t, err)
			s.t.Cleanup(func() { must(s.t, l.Close()) })
			path := filepath.Join(s.home, "taken.json")
			must(s.t, os.WriteFile(path, []byte(`{"berth": {"listen": "`+l.Addr().String()+`"}}`), 0o600))
			s.args = []string{"--config", path}
		}, "address", severeError, "Another program listens on", "lsof "},
		{"a configuration with a problem", func(s *sick) {
			path := filepath.Join(s.home, "bad.json")
			must(s.t, os.WriteFile(path, []byte(`{"berth": {"max_streams": 0}, "mcpServers": {"a": {"url": "ftp://x"}}}`), 0o600))
			s.args = []string{"--config", path}
		}, "configuration", severeError, "max_streams", "berth check-config"},
		{"a configuration whose catalog cannot be served", func(s *sick) {
			path := filepath.Join(s.home, "bad.json")
			must(s.t, os.WriteFile(path, []byte(`{"berth": {"profiles": {"p": {"select": [{"verb": "*"}], "required": ["no_such_verb"]}}}}`), 0o600))
			s.args = []string{"--config", path}
		}, "configuration", severeError, "no_such_verb", "berth check-config"},
		{"a configuration whose rules for proofs are wrong", func(s *sick) {
			path := filepath.Join(s.home, "bad.json")
			must(s.t, os.WriteFile(path, []byte(`{"berth": {"proofs": {"enabled": true, "needs": [{"verb": "b__write", "kind": "none", "targets": ["args:/path"]}]}}}`), 0o600))
			s.args = []string{"--config", path}
		}, "configuration", severeError, "there is no kind", "berth check-config"},
		{"a configuration that is not named", func(s *sick) { s.args = nil }, "configuration", severeUnknown, "not known", "--config"},
		{"jobs that are old", func(s *sick) { s.journalWith(old(48 * time.Hour)) }, "jobs", severeWarning, "job_old_0 (b__work) was submitted 2d ago", "berth jobs explain job_old_0"},
		{"more old jobs than are named", func(s *sick) { s.journalWith(old(48 * time.Hour)) }, "jobs", severeWarning, "2 more jobs", "berth jobs list"},
		{"a journal that is damaged", func(s *sick) { s.file(journalFile, strings.Repeat("x", 1<<16), 0o600) }, "journal", severeError, "cannot be opened", "berth restore"},
		{"a running broker's journal that is too large to be read in passing", func(s *sick) {
			s.journalWith(func(*journal.Journal) {})
			must(s.t, os.Truncate(filepath.Join(s.dir, journalFile), largeJournal+1))
			s.broker()
		}, "journal", severeUnknown, "Not looked at: pages.", "berth journal check"},
		{"less room than a backup needs", func(s *sick) {
			if os.Truncate(s.file(journalFile, "", 0o600), 1<<43) != nil {
				s.t.Skip("this file system has no such large files")
			}
		}, "disk", severeWarning, "a backup needs", "df -h"},
		{"a clock that is behind", func(s *sick) {
			later := time.Now().Add(72 * time.Hour)
			must(s.t, os.Chtimes(s.file("session.key", "x", 0o600), later, later))
		}, "clock", severeError, "The clock is behind", "timedatectl"},
		{"a client with a program that is not there", func(s *sick) { s.register("codex", install.Options{BerthPath: "/nowhere/berth"}) }, "clients", severeWarning, "cannot be started", "berth install codex --write"},
		{"a client with another program", func(s *sick) { s.register("gemini", install.Options{BerthPath: "/bin/sh"}) }, "clients", severeWarning, "another program", "berth install gemini --write"},
		{"a client with another state directory", func(s *sick) {
			self, err := os.Executable()
			must(s.t, err)
			s.register("claude", install.Options{BerthPath: self, StateDir: "/elsewhere"})
		}, "clients", severeWarning, "state directory /elsewhere", "berth install claude --write"},
		{"a client with another address", func(s *sick) {
			s.broker()
			s.register("opencode", install.Options{Via: install.ViaHTTP, URL: "http://127.0.0.1:1/mcp"})
		}, "clients", severeWarning, "127.0.0.1:1, and the broker listens on", "--via http"},
		{"a client with an address and no broker", func(s *sick) {
			s.register("cursor", install.Options{Via: install.ViaHTTP, URL: "http://127.0.0.1:1/mcp"})
		}, "clients", severeUnknown, "no broker runs to compare", "berth serve"},
		{"a client that says neither how nor where", func(s *sick) {
			must(s.t, os.WriteFile(filepath.Join(s.home, ".claude.json"), []byte(`{"mcpServers": {"berth": {"type": "stdio"}}}`), 0o600))
		}, "clients", severeWarning, "without a command", "berth install claude --write"},
		{"a client's file that is broken", func(s *sick) { must(s.t, os.WriteFile(filepath.Join(s.home, ".claude.json"), []byte("{"), 0o600)) }, "clients", severeUnknown, "could not be read", ""},
	}
	covered := map[string]bool{}
	for _, tt := range tests {
		covered[tt.check] = true
		t.Run(tt.name, func(t *testing.T) {
			s := newSick(t)
			s.freeConfig()
			tt.ill(s)
			report, code := s.diagnose()
			i := slices.IndexFunc(report.Findings, func(f finding) bool {
				return f.Check == tt.check && f.Severity == tt.severity && strings.Contains(f.Sentence, tt.says) && strings.Contains(f.Command, tt.command)
			})
			if i < 0 {
				t.Fatalf("not found among %+v", report.Findings)
			}
			result := report.Checks[slices.IndexFunc(report.Checks, func(c checkResult) bool { return c.Check == tt.check })].Result
			if result == "ok" || (tt.severity != severeUnknown && (result != "problem" || code != exitOutcome || report.Success)) {
				t.Errorf("the check is %q, exit code %d, success %v", result, code, report.Success)
			}
		})
	}
	for _, c := range doctorChecks {
		if !covered[c.name] {
			t.Errorf("no row shows a finding of %s", c.name)
		}
	}
}

func TestJournalFindingsTellRecordsFromOtherDamage(t *testing.T) {
	got := journalFindings([]journal.Problem{{Kind: "record", ID: "a"}, {Kind: "page", ID: "7", Detail: "torn"}, {Kind: "record", ID: "b"}}, "look")
	if len(got) != 2 || !strings.Contains(got[0].Sentence, "cannot be read: 2") || !strings.Contains(got[1].Sentence, "page 7: torn") {
		t.Fatalf("%+v", got)
	}
	if journalFindings(nil, "look") != nil {
		t.Fatal("a clean journal has findings")
	}
}

func TestDoctorTellsABackendThatRefusesCredentials(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer upstream.Close()
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{"up": map[string]any{"url": upstream.URL, "berth": map[string]any{"start": "eager"}}}})
	must(t, h.start())
	eventually(t, "the backend has refused", func() bool { return h.backendsOf()["up"].State == "refused" })
	code, text, _ := h.berth("doctor")
	if code != exitOutcome || !strings.Contains(text, "The backend up refuses Berth's credentials") || !strings.Contains(text, "berth reload") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}

// A whole broker with which nothing is wrong.
func TestDoctorOfAHealthyBrokerFindsNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{"a": h.fixtureEntry(nil)}, "berth": map[string]any{"listen": "127.0.0.1:0"}})
	must(t, h.start())
	if code, _, errOut := h.berth("call", "a__add", `{"a":1,"b":2}`); code != exitOK {
		t.Fatal(errOut)
	}
	cmd := exec.CommandContext(t.Context(), h.bin.berth, "doctor", "--json", "--state-dir", h.state, "--config", h.config)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TEST_WITNESS=x", "GORACE=atexit_sleep_ms=0")
	cmd.Dir = h.dir
	out, err := cmd.Output()
	var report doctorReport
	if json.Unmarshal(out, &report) != nil || err != nil || !report.Success {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range report.Checks {
		if want := map[string]string{"address": "none", "clients": "none"}[c.Check]; c.Result != want && (want != "" || c.Result != "ok") {
			t.Errorf("%s is %s", c.Check, c.Result)
		}
	}
	// An old job, and a backend that fails, as the running broker tells them.
	if code, _, errOut := h.berth("call", "a__work", `{"seconds":600}`, "--idempotency-key", "k"); code != exitOK {
		t.Fatal(errOut)
	}
	code, text, _ := h.berth("doctor", "--job-age", "1ns")
	if code != exitOutcome || !strings.Contains(text, "has not ended") || !strings.Contains(text, "berth jobs explain job_") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}

// TestDoctorReadsALargeJournalAsFarAsItComes: of a broker that does not run it
// leaves nothing out but for time.
func TestDoctorReadsALargeJournalAsFarAsItComes(t *testing.T) {
	s := newSick(t)
	s.journalWith(func(*journal.Journal) {})
	must(t, os.Truncate(filepath.Join(s.dir, journalFile), largeJournal+1))
	for name, tt := range map[string]struct {
		within time.Duration
		unseen bool
	}{"in time": {time.Minute, false}, "out of time": {0, true}} {
		p, err := (&app{stateDirFlag: s.dir, getenv: os.LookupEnv}).newPatient(doctorOptions{})
		must(t, err)
		p.lookWithin = tt.within
		found, applies := checkJournal(t.Context(), p)
		if !applies || (len(found) > 0) != tt.unseen {
			t.Fatalf("%s: %+v", name, found)
		}
		if tt.unseen && (found[0].Severity != severeUnknown || !strings.Contains(found[0].Sentence, "Not looked at: pages, jobs, ")) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// TestDoctorChecksTheConfigurationOfTheRunningBroker: the broker says which file
// it was started with.
func TestDoctorChecksTheConfigurationOfTheRunningBroker(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.env = []string{"ONLY_THE_BROKER_HAS=x"}
	h.configure(map[string]any{"mcpServers": map[string]any{"fx": map[string]any{"command": "${ONLY_THE_BROKER_HAS}"}}})
	must(t, h.start())
	diagnose := func() (result string, found []finding) {
		_, out, errOut := h.berth("doctor", "--json")
		var report doctorReport
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatalf("%v %s %s", err, out, errOut)
		}
		for _, c := range report.Checks {
			if c.Check == "configuration" {
				result = c.Result
			}
		}
		for _, f := range report.Findings {
			if f.Check == "configuration" {
				found = append(found, f)
			}
		}
		return result, found
	}
	if result, found := diagnose(); result != severeUnknown || !strings.Contains(found[0].Sentence, "not set here: ONLY_THE_BROKER_HAS.") {
		t.Errorf("a variable of the broker's: %s %+v", result, found)
	}
	h.configure(map[string]any{"mcpServers": map[string]any{}})
	if result, found := diagnose(); result != "ok" {
		t.Errorf("a good file: %s %+v", result, found)
	}
	h.configure(map[string]any{"berth": map[string]any{"max_streams": 0}})
	if result, found := diagnose(); result != "problem" || !strings.Contains(found[0].Sentence, "max_streams") || !strings.Contains(found[0].Command, "check-config --config ") {
		t.Errorf("a bad file: %s %+v", result, found)
	}
}
