package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"berth/transport/app/resmontest"
	"berth/transport/rest"
)

// brought is the header of a session that brings an instance.
func brought(key, surface string, env map[string]string) string {
	raw, _ := json.Marshal(map[string]any{"key": key, "surface": surface, "env": env})
	return base64.RawURLEncoding.EncodeToString(raw)
}

func TestSessionsThatBringTheirInstancesDoNotMeet(t *testing.T) {
	t.Parallel()
	configured := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, Stamp: "configured"})
	one := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, Stamp: "one", FirstID: 1_000, MaxRuns: 100})
	two := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, Stamp: "two", FirstID: 2_000, MaxRuns: 100})
	for _, tt := range []struct {
		name    string
		servers map[string]any
	}{{"beside a configured one", map[string]any{"resmon": appEntry(configured, nil)}}, {"without a configured one", nil}} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHall(t, tt.servers, nil)
			for _, profile := range []string{"resmon", ""} {
				prefix := map[string]string{"resmon": "", "": "resmon__"}[profile]
				for _, f := range []*resmontest.Fake{configured, one, two} {
					f.Forget()
				}
				a := stdio(t, h.state, one.Env(), stdioOptions{profile: profile})
				b := stdio(t, h.state, two.Env(), stdioOptions{profile: profile})
				a.open()
				b.open()
				for range 3 {
					for _, s := range []struct {
						line *line
						fake *resmontest.Fake
						mark string
					}{{a, one, "one"}, {b, two, "two"}} {
						got := s.line.call(prefix+"list_routines", map[string]any{}).ok()
						if !strings.Contains(got.text, s.mark) || *got.call.RuntimeID != s.fake.RuntimeID() {
							t.Errorf("%s is answered %.200s", s.mark, got.raw)
						}
						got = s.line.call(prefix+"run_sweep", map[string]any{"query": "q", "sources": []string{"arxiv"}}).ok()
						if id := got.id("execution_id"); id/1000 != s.fake.RoutineID(1)/1000 || got.job.RuntimeID != s.fake.RuntimeID() {
							t.Errorf("%s started %s", s.mark, got.raw)
						}
					}
				}
				if got := configured.Requests(); len(got) > 0 {
					t.Errorf("the configured one was asked: %+v", got)
				}
				must(t, a.close())
				must(t, b.close())
			}
			if tt.servers != nil {
				got := h.caller("resmon", handshake).call("list_routines", map[string]any{}).ok()
				if !strings.Contains(got.text, "configured") {
					t.Errorf("a session that brings nothing is answered %.200s", got.raw)
				}
				return
			}
			// Sessions that bring nothing see none.
			if names := toolNames(readTools(t, h.caller("", handshake).want("tools/list", nil))); slices.Contains(names, "resmon__health") {
				t.Errorf("listed for everybody: %v", names)
			}
		})
	}
}

func TestASameIdempotencyKeyNeverCrossesInstances(t *testing.T) {
	t.Parallel()
	one := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, FirstID: 1_000})
	two := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, FirstID: 2_000})
	h := newHall(t, nil, nil)
	arguments := map[string]any{"query": "q", "sources": []string{"arxiv"}}
	a := h.caller("resmon", stateless, "Berth-Instance", brought("aaaaaaaaaaaaaaaa", "resmon", one.Env()))
	b := h.caller("resmon", stateless, "Berth-Instance", brought("bbbbbbbbbbbbbbbb", "resmon", two.Env()))
	again := h.caller("resmon", stateless, "Berth-Instance", brought("cccccccccccccccc", "resmon", one.Env()))
	first := a.call("run_sweep", arguments, "berth/idempotencyKey", "k").ok()
	other := b.call("run_sweep", arguments, "berth/idempotencyKey", "k").ok()
	repeat := again.call("run_sweep", arguments, "berth/idempotencyKey", "k").ok()
	if first.id("execution_id")/1000 != 1 || other.id("execution_id")/1000 != 2 || first.job.ID == other.job.ID {
		t.Errorf("answered\n%s\n%s", first.raw, other.raw)
	}
	if repeat.text != first.text || repeat.job.ID != first.job.ID {
		t.Errorf("another session on the same instance is answered\n%s, want\n%s", repeat.raw, first.raw)
	}

	// Over a restart of the broker the answer stays, and its job says that
	// nobody follows the run any more: where the instance is went with it. The
	// configured one is not asked in its place.
	configured := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	h.stop()
	h.start(map[string]any{"resmon": appEntry(configured, nil)}, nil)
	t.Cleanup(func() { h.stop() })
	after := h.caller("resmon", stateless, "Berth-Instance", brought("dddddddddddddddd", "resmon", one.Env())).call("run_sweep", arguments, "berth/idempotencyKey", "k").ok()
	if after.text != first.text || after.job.ID != first.job.ID || posts(one, "/api/search/sweep") != 1 {
		t.Errorf("after a restart it is answered\n%s, want\n%s", after.raw, first.raw)
	}
	if _, message := h.ends(first.job.ID, "Lost", "job_lost_on_restart"); !strings.Contains(message, fmt.Sprintf("work %d in the process %s may go on", first.id("execution_id"), one.RuntimeID())) {
		t.Errorf("it says %q", message)
	}
	if asked := configured.Requests(); len(asked) > 0 {
		t.Errorf("another instance was asked: %+v", asked)
	}
}

func TestAnInstanceIsReapedWithItsSession(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	h := newHall(t, nil, nil)
	backends := func() (names []string) {
		var list rest.Page[rest.Backend]
		must(t, h.api("/api/v1/backends", &list))
		for _, b := range list.Objects {
			if strings.HasPrefix(b.Name, "resmon") {
				names = append(names, b.Name)
			}
		}
		return names
	}
	l := stdio(t, h.state, f.Env(), stdioOptions{profile: "resmon"})
	l.open()
	l.call("health", map[string]any{}).ok()
	if got := backends(); len(got) != 1 || !strings.HasPrefix(got[0], "resmon (") {
		t.Errorf("shown are %v", got)
	}
	must(t, l.close())
	eventually(t, "the instance is gone", func() bool { return len(backends()) == 0 })

	// One that follows work is kept until the work has ended.
	l = stdio(t, h.state, f.Env(), stdioOptions{profile: "resmon"})
	l.open()
	job := l.call("run_sweep", map[string]any{"query": "q", "sources": []string{"arxiv"}}).ok()
	must(t, l.close())
	must(t, f.Finish(job.id("execution_id"), "completed"))
	h.ends(job.job.ID, "Succeeded", "")
}

func TestInstancesAreBounded(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	h := newHall(t, nil, nil)
	held := f.Inject(resmontest.Hold(), resmontest.Scope{Template: "/api/routines"})
	var calls sync.WaitGroup
	const most = 64
	for i := range most {
		c := h.caller("resmon", stateless, "Berth-Instance", brought(fmt.Sprintf("session-%016d", i), "resmon", f.Env()))
		calls.Go(func() {
			if s, err := c.try("list_routines", map[string]any{}); err != nil || s.isError {
				t.Errorf("%v %s", err, s.raw)
			}
		})
	}
	eventually(t, "all are busy", func() bool {
		n := 0
		for _, r := range f.Requests() {
			if r.Path == "/api/routines" {
				n++
			}
		}
		return n == most
	})
	one := h.caller("resmon", stateless, "Berth-Instance", brought("one-more-session-1", "resmon", f.Env()))
	detail := one.call("list_routines", map[string]any{}).refused("conflict")
	if of, _ := detail["berth"].(map[string]any); of["code"] != "overloaded" || of["retry_after_ms"] == nil {
		t.Errorf("%v", detail)
	}
	held.Release()
	calls.Wait()
	one.call("list_routines", map[string]any{}).ok() // an idle one made room
}

func TestWhatASessionMayBring(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	h := newHall(t, nil, nil)
	key := "0123456789abcdef"
	for _, tt := range []struct {
		name, header, code string
	}{
		{"not base64", "%%%", "invalid_arguments"},
		{"not JSON", base64.RawURLEncoding.EncodeToString([]byte("x")), "invalid_arguments"},
		{"a short key", brought("abc", "resmon", f.Env()), "invalid_arguments"},
		{"another app", brought(key, "other", f.Env()), "invalid_arguments"},
		{"another variable", brought(key, "resmon", map[string]string{"PATH": "/bin"}), "invalid_arguments"},
		{"a line break", brought(key, "resmon", map[string]string{"RESMON_PORT": "1\n2"}), "invalid_arguments"},
		{"a long value", brought(key, "resmon", map[string]string{"RESMON_DB_PATH": strings.Repeat("x", 5000)}), "invalid_arguments"},
		{"a long header", strings.Repeat("A", 17<<10), "invalid_arguments"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &caller{h: h.on(t), path: "/mcp/resmon", era: stateless, header: http.Header{"Berth-Instance": {tt.header}}, client: http.DefaultClient}
			raw, status, err := c.ask("tools/list", nil)
			if err != nil || status != http.StatusBadRequest || !strings.Contains(string(raw), tt.code) || strings.Contains(string(raw), "xxxx") {
				t.Errorf("answered %v %d %s", err, status, raw)
			}
		})
	}
	if got := f.Requests(); len(got) > 0 {
		t.Errorf("something was sent: %+v", got)
	}

	// Without a token file nothing is sent, and the refusal is the surface's.
	must(t, f.SetTokenFile(resmontest.FileMissing))
	l := stdio(t, h.state, f.Env(), stdioOptions{profile: "resmon"})
	l.open()
	detail := l.call("health", map[string]any{}).refused("backend_unavailable")
	if detail["no_token"] == nil || len(f.Requests()) > 0 {
		t.Errorf("%v, and sent %+v", detail, f.Requests())
	}
}

// The broker reads what its user may read, root's files too; a session's token
// must be of a file of its own user's.
func TestATokenFileOfAnotherUserIsNotTaken(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	h := newHall(t, nil, nil)
	if os.Geteuid() == 0 {
		must(t, os.Chown(f.TokenFile(), 65534, -1))
	} else { // a link to what everybody may read, and root owns
		must(t, os.Remove(f.TokenFile()))
		must(t, os.Symlink("/etc/passwd", f.TokenFile()))
	}
	l := stdio(t, h.state, f.Env(), stdioOptions{profile: "resmon"})
	l.open()
	for _, call := range []struct {
		name      string
		arguments map[string]any
	}{{"health", nil}, {"run_sweep", sweep}} {
		if detail := l.call(call.name, call.arguments).refused("backend_unavailable"); detail["reason"] != "other_user" || detail["no_token"] == nil {
			t.Errorf("%s: %v", call.name, detail)
		}
	}
	if sent := f.Requests(); len(sent) > 0 {
		t.Errorf("sent %+v", sent)
	}
	if os.Geteuid() == 0 {
		must(t, os.Chown(f.TokenFile(), 0, -1))
		l.call("health", nil).ok()
	}
}

func TestNamesThatAreNotForTheProfileAreSaidToBePassedOver(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, Stamp: "lab"})
	h := newHall(t, map[string]any{"lab": appEntry(f, nil)}, nil)
	l := stdio(t, h.state, map[string]string{"RESMON_PORT": "1", "RESMON_STATE_DIR": "/nowhere"}, stdioOptions{profile: "lab"})
	l.open()
	if got := l.call("list_routines", map[string]any{}).ok(); !strings.Contains(got.text, "lab") {
		t.Errorf("answered %.200s", got.raw)
	}
	if said := l.errs.String(); !strings.Contains(said, "RESMON_PORT, RESMON_STATE_DIR are passed over") {
		t.Errorf("it said %q", said)
	}
}

func TestACallWithoutABrokerIsRefusedAsTheSurfaceDoes(t *testing.T) {
	t.Parallel()
	l := stdio(t, t.TempDir(), nil, stdioOptions{profile: "resmon"})
	l.call("health", map[string]any{}).refused("backend_unavailable")
	must(t, l.close())
	if said := l.errs.String(); strings.Count(said, "start one with") != 1 {
		t.Errorf("it said %q", said)
	}
}

func TestRelativeNamesAreTheSessions(t *testing.T) {
	t.Parallel()
	b, _ := broughtInstance("resmon", func(name string) (string, bool) {
		value, ok := map[string]string{"RESMON_DB_PATH": "data/resmon.db", "HOME": "/home/x", "RESMON_MCP_READ_ONLY": "1"}[name]
		return value, ok
	})
	if b == nil || !strings.HasPrefix(b.Env["RESMON_DB_PATH"], "/") || !strings.HasSuffix(b.Env["RESMON_DB_PATH"], "/data/resmon.db") ||
		!strings.Contains(b.Env["RESMON_STATE_DIR"], "resmon") || b.Env["RESMON_MCP_READ_ONLY"] != "1" {
		t.Errorf("%+v", b)
	}
	if b, unused := broughtInstance("", func(name string) (string, bool) { return "1", name == "RESMON_MCP_READ_ONLY" }); b != nil || unused != nil {
		t.Errorf("a session that only limits itself brings %+v %v", b, unused)
	}
	if keys := slices.Sorted(maps.Keys(surfaces)); len(keys) != 1 || keys[0] != "resmon" {
		t.Errorf("apps are %v", keys)
	}
}
