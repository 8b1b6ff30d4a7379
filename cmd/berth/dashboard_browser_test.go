//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/transport/dashboard/browsertest"
)

// A whole broker with real backends in a real browser: an operator logs in with
// the token of the state directory, sees a job begin without loading the page
// again, cancels it, and reads after a restart what was lost.
func TestAnOperatorAtTheDashboardInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{
		"works": h.fixtureEntry(map[string]any{"long": []string{"work"}}),
		"gone":  map[string]any{"command": filepath.Join(h.dir, "no-such-program")},
	}})
	must(t, h.start())
	base := "http://" + h.broker.Addr()
	p := b.Page(t, base, browsertest.Options{})
	logIn := func() {
		t.Helper()
		token, err := os.ReadFile(filepath.Join(h.state, "api-token"))
		must(t, err)
		p.Go(base + "/")
		p.Type("#token", strings.TrimSpace(string(token)))
		p.Click("button.primary")
		if got := p.Text("h1"); got != "Overview" {
			t.Fatalf("after the login the page is %q", got)
		}
	}
	logIn()
	p.Await(`document.getElementById("pulse").textContent === "Live"`)

	p.Go(base + "/jobs?status=Running")
	p.Await(`document.getElementById("pulse").textContent === "Live"`)
	id := h.submit("one", "works__work", `{"seconds":3000}`).JobID
	p.Await(`document.querySelector('a[href="/jobs/` + id + `"]') !== null`)
	p.Shot("real-jobs")
	p.Go(base + "/jobs/" + id)
	p.Type("#reason", "a wrong branch")
	p.Click("button.danger")
	if got := p.Text("main"); !strings.Contains(got, "The job was cancelled.") || !strings.Contains(got, "a wrong branch") {
		t.Errorf("after the cancel: %s", got)
	}
	p.Shot("real-job")

	left := h.submit("two", "works__work", `{"seconds":3000}`).JobID
	for _, path := range []string{"/", "/catalog", "/credentials"} {
		if status := p.Go(base + path); status != 200 {
			t.Errorf("%s: status %d", path, status)
		}
		p.Shot("real-" + strings.Trim("overview"+strings.ReplaceAll(path, "/", "-"), "-"))
	}
	p.Clean()

	must(t, h.start())
	base = "http://" + h.broker.Addr()
	p = b.Page(t, base, browsertest.Options{})
	logIn()
	p.Go(base + "/restart")
	if got := p.Text("main"); !strings.Contains(got, left) || !strings.Contains(got, "job_lost_on_restart") {
		t.Errorf("the report of the restart: %s", got)
	}
	p.Shot("real-restart")
	p.Clean()
}
