package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/journal"
)

// execute runs one command line in this process.
func execute(ctx context.Context, a *app, args ...string) (code int, out, errOut string) {
	var stdout, stderr bytes.Buffer
	a.out, a.err = &stdout, &stderr
	if a.getenv == nil {
		a.getenv = os.LookupEnv
	}
	code = a.execute(ctx, args)
	return code, stdout.String(), stderr.String()
}

func TestJournalCommandsReadTheFileWhenNoBrokerRuns(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, journalFile)
	j, err := journal.Open(path, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := j.CreateJob(t.Context(), broker.Job{ID: "job_mpkd6cu0_Uuql5kDlrM4", Operation: "a__b", Status: broker.JobAccepted,
		SubmittedAt: time.Now(), Tenant: "default", User: "operator", Backend: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := execute(t.Context(), &app{}, "journal", "stats", "--json", "--state-dir", dir)
	var stats journal.Stats
	if err := json.Unmarshal([]byte(out), &stats); err != nil || code != exitOK || stats.Jobs[broker.JobAccepted] != 1 || stats.FreePages != nil {
		t.Fatalf("exit %d, %v, %s%s", code, err, out, errOut)
	}
	if code, out, errOut = execute(t.Context(), &app{}, "journal", "check", "--state-dir", dir); code != exitOK || out != "The journal is clean.\n" {
		t.Fatalf("exit %d, %s%s", code, out, errOut)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut = execute(t.Context(), &app{}, "journal", "check", "--state-dir", dir); code != exitJournal || !strings.Contains(errOut, codeJournal) {
		t.Fatalf("a cut file: exit %d, %s%s", code, out, errOut)
	}
}

// ailing is a journal with a problem.
type ailing struct{}

func (ailing) Stats() (journal.Stats, error) { return journal.Stats{}, nil }
func (ailing) Check(context.Context) ([]journal.Problem, error) {
	return []journal.Problem{{Kind: "record", ID: "job_1", Detail: "checksum"}}, nil
}

func (ailing) LookAt(context.Context) ([]journal.Problem, []string, error) {
	return []journal.Problem{{Kind: "record", ID: "job_1", Detail: "checksum"}}, []string{"pages"}, nil
}

func TestJournalProblemsAreAnExitCode(t *testing.T) {
	dir, stop, err := startFakeBroker(t.TempDir(), journalFacts{ailing{}})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	code, out, errOut := execute(t.Context(), &app{}, "journal", "check", "--state-dir", dir)
	if code != exitJournal || !strings.Contains(out, "record  job_1  checksum") || !strings.Contains(errOut, "Problems in the journal: 1.") {
		t.Fatalf("exit %d, %s%s", code, out, errOut)
	}
	code, out, _ = execute(t.Context(), &app{}, "journal", "check", "--json", "--state-dir", dir)
	var report journalCheckReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitJournal || report.Clean || len(report.Problems) != 1 {
		t.Fatalf("exit %d, %v, %s", code, err, out)
	}
}

func TestAnInterruptedWaitSaysThatTheJobGoesOn(t *testing.T) {
	dir, stop, err := startFakeBroker(t.TempDir(), journalFacts{ailing{}})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	onStuck = cancel
	defer func() { onStuck = func() {} }()
	code, _, errOut := execute(ctx, &app{}, "call", "demo__stuck", "--wait", "--state-dir", dir)
	if code != exitInterrupted || !strings.Contains(errOut, "job_1 goes on") {
		t.Fatalf("exit %d, %s", code, errOut)
	}
}

func TestProgressIsForTerminalsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, terminal := range []bool{true, false} {
			var out bytes.Buffer
			a := &app{err: &out, errTerminal: terminal}
			p := a.waitingFor("Waiting for a\x1b[2J thing")
			<-time.After(2500 * time.Millisecond)
			p.now("Still waiting")
			<-time.After(time.Second)
			p.end()
			p.end()
			want := "\r\x1b[KWaiting for a[2J thing, 1s\r\x1b[KWaiting for a[2J thing, 2s\r\x1b[KStill waiting, 3s\r\x1b[K"
			if !terminal {
				want = ""
			}
			if out.String() != want {
				t.Errorf("terminal %v: %q", terminal, out.String())
			}
		}
	})
}

func TestAnAddressThatListensEverywhereIsReachedOnLoopback(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:7420": "127.0.0.1:7420", "0.0.0.0:1": "127.0.0.1:1", "[::]:1": "127.0.0.1:1", ":1": "127.0.0.1:1", "[::1]:1": "[::1]:1", "host:1": "host:1",
	} {
		if got := reachable(addr); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

func TestTextForAPersonCannotDriveTheTerminal(t *testing.T) {
	for in, want := range map[string]string{"a\x1b[31mb\x07\u009bc": "a[31mbc", "line\nline\ttab": "line line tab", "ünï": "ünï"} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q", in, got)
		}
	}
	var out bytes.Buffer
	a := &app{out: &out, outTerminal: true}
	if err := a.printResult(json.RawMessage(`{"content":[{"type":"text","text":"x\u001b[2Jy\nz"},{"type":"image","mimeType":"image/png","data":"AAAA"}]}`)); err != nil {
		t.Fatal(err)
	}
	if want := "x[2Jy\nz\n[image image/png, 4 bytes in base64; see --json]\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}
