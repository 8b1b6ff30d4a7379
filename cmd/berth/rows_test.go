package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/policy"
	"berth/transport/rest"
)

// TestWhoSeesAVerbMayCallIt walks the broker's own verbs, as they are built in,
// in each profile that has them: for each role what is listed is what may be
// called, and a documented name is judged and recorded as its verb.
func TestWhoSeesAVerbMayCallIt(t *testing.T) {
	snapshot, _ := builtIn(t)
	documented := 0
	for _, name := range []string{catalog.NativeName, catalog.Full, catalog.Armada} {
		profile, ok := snapshot.Profile(name)
		if !ok {
			t.Fatalf("there is no profile %s", name)
		}
		for _, role := range []broker.Role{broker.GlobalAdministrator, broker.TenantAdministrator, broker.User} {
			var listed []string
			for _, e := range profile.As(catalog.Class{Role: role, Transport: catalog.OverMCP}).Entries() {
				listed = append(listed, e.Name)
			}
			check := func(called string) (policy.Plan, *broker.Refusal) {
				return policy.Check(policy.Input{Profile: profile, Principal: broker.Principal{Tenant: "t", User: "u", Role: role}, Name: called,
					Arguments: json.RawMessage(`{}`)})
			}
			for _, e := range profile.Reach() {
				_, refusal := check(e.Name)
				callable := refusal == nil || refusal.Code != broker.CodeVerbUnknown
				if callable != slices.Contains(listed, e.Name) {
					t.Errorf("%s, %s: %s is listed: %v, may be called: %v", name, role, e.Name, !callable, callable)
				}
				for _, alias := range e.Verb.Aliases {
					if _, here := profile.Resolve(alias); !here && profile.Exact() {
						continue // an exact profile has its own names only
					}
					plan, other := check(alias)
					if (other == nil || other.Code != broker.CodeVerbUnknown) != callable {
						t.Errorf("%s, %s: %s may be called otherwise than %s", name, role, alias, e.Name)
					}
					if other == nil {
						documented++
						if plan.Verb.Name != e.Verb.Name || strings.HasPrefix(plan.Verb.Name, "armada_") {
							t.Errorf("%s: %s is recorded as %s", name, alias, plan.Verb.Name)
						}
					}
				}
			}
		}
	}
	if documented == 0 {
		t.Error("no documented name was called")
	}
}

// TestAJobThatAKillMetIsLostOnce: the start after a kill ends the job with one
// event, a second start changes nothing, and nobody who asks meanwhile hears that
// the job never existed.
func TestAJobThatAKillMetIsLostOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{"st": h.fixtureEntry(map[string]any{"long": []string{"hang"}})}})
	must(t, h.start())
	var handle rest.Job
	w := newWire(h, "kill")
	r, err := w.call(t.Context(), "st__hang", map[string]any{"seconds": 3000}, "")
	must(t, err)
	eventually(t, "the job runs", func() bool {
		must(t, h.api("/api/v1/jobs/"+r.JobID, nil, &handle))
		return handle.Status == "Running"
	})
	token, err := os.ReadFile(filepath.Join(h.state, "api-token"))
	must(t, err)
	// One who asks all the time, wherever a broker listens.
	over, asked := make(chan struct{}), sync.WaitGroup{}
	asked.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			port, err := os.ReadFile(filepath.Join(h.state, "berth.port"))
			if err != nil {
				continue
			}
			address, _, _ := strings.Cut(strings.TrimPrefix(string(port), "address "), "\n")
			req := httptest.NewRequest("POST", "http://"+address+"/mcp/full", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job_status","arguments":{"jobId":"`+r.JobID+`"}}}`))
			req.RequestURI = ""
			req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				continue // nobody listens
			}
			var body [4096]byte
			n, _ := resp.Body.Read(body[:])
			_ = resp.Body.Close()
			if strings.Contains(string(body[:n]), "job_not_found") {
				t.Errorf("while the broker starts: %s", body[:n])
				return
			}
		}
	})
	var first string
	for life := range 2 {
		must(t, h.start()) // kills the broker before it
		status, out, errOut := h.berth("jobs", "show", r.JobID, "--json")
		if status != 0 && !strings.Contains(out, `"Lost"`) {
			t.Fatalf("exit %d, %s %s", status, out, errOut)
		}
		if first == "" {
			first = out
		}
		if out != first || !strings.Contains(out, `"Status": "Lost"`) || !strings.Contains(out, `"Reason": "job_lost_on_restart"`) {
			t.Errorf("start %d: %s\nthe first: %s", life+1, out, first)
		}
		if n := h.events("job.lost"); n != 1 {
			t.Errorf("start %d: %d events", life+1, n)
		}
	}
	close(over)
	asked.Wait()
}

// TestAnIndexUpdateGoesOnUnderAHold: the hold stops dispatches, and nothing that
// an operator may want before he lets them go on.
func TestAnIndexUpdateGoesOnUnderAHold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{}})
	must(t, h.start())
	p := project{t, filepath.Join(t.TempDir(), "project")}
	must(t, os.Mkdir(p.dir, 0o755))
	p.git("init", "--quiet", "--initial-branch=main")
	p.commit("a.go", "package p\n")
	w := newWire(h, "held")
	var vessel struct{ ID string }
	w.tool("add_vessel", map[string]any{"name": "p", "repoUrl": p.dir}, &vessel)
	if code, _, errOut := h.berth("hold", "engage", "--reason", "upgrade", "--by", "ops-1"); code != 0 {
		t.Fatal(errOut)
	}
	r, err := w.call(t.Context(), "index_update", map[string]any{"vesselId": vessel.ID}, "")
	must(t, err)
	w.want(r.JobID, "Succeeded", "")
	if jobs := h.unfinished(); len(jobs) != 0 {
		t.Errorf("unfinished: %s", jobs)
	}
}

// TestASecondBackupRestoresIntoAnEmptyBroker: what one broker backed up twice
// another one begins with, with equal counts.
func TestASecondBackupRestoresIntoAnEmptyBroker(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{"st": h.fixtureEntry(nil)}})
	must(t, h.start())
	w := newWire(h, "backup")
	type backedUp struct {
		Path     string
		Manifest struct{ RecordCounts map[string]int }
	}
	var backups [2]backedUp
	for i := range backups {
		r, err := w.call(t.Context(), "st__echo", map[string]any{"n": i}, string(rune('a'+i)))
		must(t, err)
		w.want(r.JobID, "Succeeded", "")
		w.tool("coordination_post", map[string]any{"content": "x", "authorName": "a"}, nil)
		w.tool("backup", map[string]any{"outputPath": filepath.Join(h.dir, string(rune('a'+i))+".zip")}, &backups[i])
		if backups[i].Manifest.RecordCounts["jobs"] != i+1 {
			t.Errorf("backup %d: %+v", i+1, backups[i])
		}
	}
	counts := func() (n [2]int) {
		for i, path := range []string{"/api/v1/jobs", "/api/v1/board"} {
			var list struct {
				TotalRecords int
				Messages     []json.RawMessage
			}
			must(t, h.api(path, nil, &list))
			n[i] = max(list.TotalRecords, len(list.Messages))
		}
		return n
	}
	before := counts()
	h.state = filepath.Join(h.dir, "elsewhere")
	must(t, h.start())
	w = newWire(h, "restore")
	var restored struct {
		Status       string
		RecordCounts map[string]int
	}
	w.tool("restore", map[string]any{"filePath": backups[1].Path}, &restored)
	if after := counts(); after != before || before[0] != 2 || before[1] != 2 {
		t.Errorf("before %v, after %v", before, after)
	}
	for kind, n := range backups[1].Manifest.RecordCounts {
		if restored.RecordCounts[kind] != n {
			t.Errorf("%s: %d, and %d were backed up", kind, restored.RecordCounts[kind], n)
		}
	}
}
