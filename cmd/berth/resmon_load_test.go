package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"berth/transport/app/resmontest"
)

// Eight instances, of which half are configured and half are brought by their
// sessions; 64 sessions of both eras; instances that restart, drop, cut, fail
// and refuse meanwhile. Every answer shows by its stamp, its ids and its
// runtime id whose it is.
func TestUnderLoadNoAnswerCrosses(t *testing.T) {
	t.Parallel()
	const instances, sessions, rounds = 8, 64, 10
	var fakes []*resmontest.Fake
	servers := map[string]any{}
	for i := range instances {
		f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, Stamp: fmt.Sprintf("stamp%d", i), FirstID: int64(10_000 * (i + 1)), MaxRuns: 1000})
		fakes = append(fakes, f)
		if i < instances/2 {
			servers[fmt.Sprintf("r%d", i)] = appEntry(f, nil)
		}
	}
	h := newHall(t, servers, map[string]any{"log_level": "warn"})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var trouble sync.WaitGroup
	for _, f := range fakes {
		trouble.Go(func() { makeTrouble(ctx, t, f) })
	}
	var clients sync.WaitGroup
	var mu sync.Mutex
	answered, refused := 0, map[string]int{}
	for s := range sessions {
		i := s % instances
		own := h.on(t)
		profile, header := fmt.Sprintf("r%d", i), []string(nil)
		if i >= instances/2 {
			profile, header = "resmon", []string{"Berth-Instance", brought(fmt.Sprintf("session-%016d", s), "resmon", fakes[i].Env())}
		}
		c := own.caller(profile, era(s/instances%2 == 0), header...)
		clients.Go(func() {
			for n := range rounds {
				verb, arguments := loadCalls[(s+n)%len(loadCalls)], map[string]any{}
				switch verb {
				case "run_sweep":
					arguments = sweep
				case "search_corpus":
					arguments["query"] = "a"
				case "get_routine", "run_routine":
					arguments["routine_id"] = fakes[i].RoutineID(1)
				}
				got, err := c.try(verb, arguments)
				if err != nil {
					t.Errorf("session %d: %v", s, err)
					return
				}
				crossed(t, i, fakes, verb, got)
				mu.Lock()
				if answered++; got.isError {
					refused[fmt.Sprint(got.document["error"])]++
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	stop()
	trouble.Wait()
	t.Logf("%d answers, refused %v", answered, refused)
	if answered != sessions*rounds || refused["backend_unavailable"]+refused["upstream_error"] == 0 || answered-refused["backend_unavailable"] < answered/4 {
		t.Errorf("%d answers, refused %v: the load or the trouble did not happen", answered, refused)
	}
	for code := range refused {
		if !slices.Contains([]string{"backend_unavailable", "upstream_error", "conflict", "not_found"}, code) {
			t.Errorf("refused with %s", code)
		}
	}
	for i, f := range fakes {
		f.Clear()
		for _, r := range f.Requests() {
			if r.Exposed || (r.Token != resmontest.TokenCurrent && r.Token != resmontest.TokenEarlier) {
				t.Errorf("instance %d got %+v", i, r)
			}
		}
	}
	// Afterwards everybody is served again, on the first call or the one after
	// it, which meets the new process.
	for i := range instances / 2 {
		c := h.caller(fmt.Sprintf("r%d", i), handshake)
		if c.call("health", map[string]any{}).isError {
			c.call("health", map[string]any{}).ok()
		}
	}
}

var loadCalls = []string{"health", "list_routines", "run_sweep", "search_corpus", "list_executions", "get_routine", "list_watch_profiles", "run_routine"}

// makeTrouble makes an instance restart and fail, a step after every few
// requests, until ctx ends.
func makeTrouble(ctx context.Context, t *testing.T, f *resmontest.Fake) {
	steps := []func() error{
		f.Restart,
		func() error { f.Inject(resmontest.DropBefore(), resmontest.Scope{Times: 2}); return nil },
		f.RotateToken,
		func() error {
			f.Inject(resmontest.CutBody(), resmontest.Scope{Template: "/api/routines", Times: 1})
			return nil
		},
		func() error {
			f.Inject(resmontest.Status(503), resmontest.Scope{Template: "/api/explorer/search", Times: 2})
			return nil
		},
		func() error {
			f.Inject(resmontest.DropAfterWrite(), resmontest.Scope{Template: "/api/search/sweep", Times: 1})
			return nil
		},
	}
	for n := 0; ; n++ {
		fault := f.Inject(resmontest.Hold(), resmontest.Scope{Skip: 12, Times: 1}) // says when so many have come
		select {
		case <-fault.Reached():
			fault.Release()
		case <-ctx.Done():
			fault.Release()
			fault.Off()
			return
		}
		if err := steps[n%len(steps)](); err != nil {
			t.Error(err)
		}
	}
}

// crossed fails the test when an answer shows another instance than i.
func crossed(t *testing.T, i int, fakes []*resmontest.Fake, verb string, got said) {
	for j := range fakes {
		if j != i && strings.Contains(got.raw, fmt.Sprintf("stamp%d", j)) {
			t.Errorf("%s of instance %d is answered by %d: %.300s", verb, i, j, got.raw)
		}
		if j != i && strings.Contains(got.raw, fakes[j].Base()) {
			t.Errorf("%s of instance %d speaks of %d: %.300s", verb, i, j, got.raw)
		}
	}
	if got.isError {
		return
	}
	if verb == "list_routines" && !strings.Contains(got.text, fmt.Sprintf("stamp%d", i)) {
		t.Errorf("%s has no stamp: %.300s", verb, got.raw)
	}
	if id, ok := got.document["execution_id"].(float64); ok && int(id)/10_000 != i+1 {
		t.Errorf("%s of instance %d started %v", verb, i, id)
	}
}

// What is secret is planted wherever resmon could let it slip, and nothing of it
// is found in what leaves Berth, its log, its journal or its metrics.
func TestNoSecretLeaves(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Standard, MaxRuns: 100})
	const echoed = "echoed-by-a-422-list"
	h := newHall(t, map[string]any{"resmon": appEntry(f, nil)}, nil)
	var left strings.Builder
	say := func(s said) said { left.WriteString(s.raw); return s }
	c, merged := h.caller("resmon", handshake), h.caller("", stateless)
	all := func() {
		for verb := range contractTools {
			arguments := secretArguments(f, verb)
			say(c.call(verb, arguments))
			s, err := merged.try("resmon__"+verb, arguments)
			must(t, err)
			say(s)
		}
	}
	all()
	for _, fault := range []resmontest.Fault{resmontest.Echo(400), resmontest.Echo(404), resmontest.Echo(409), resmontest.Echo(500), resmontest.Echo(403),
		resmontest.List422(echoed), resmontest.CutBody(), resmontest.NotJSON()} {
		in := f.Inject(fault, resmontest.Scope{})
		all()
		in.Off()
	}
	// Where only the calls after the probe meet it.
	for _, template := range []string{"/api/routines", "/api/search/sweep", "/api/executions/{exec_id}", "/api/settings/ai"} {
		in := f.Inject(resmontest.Echo(500), resmontest.Scope{Template: template})
		all()
		in.Off()
	}
	f.SetSetting("ai", "ai_api_token", resmontest.Planted)
	say(c.call("update_settings", map[string]any{"group": "ai", "settings": map[string]any{"ai_model": "m"}}))
	say(c.call("update_settings", map[string]any{"group": "ai", "settings": map[string]any{"api_key": resmontest.Planted}}).refuse(t))
	job := say(c.call("run_sweep", sweep, "berth/idempotencyKey", "k").ok())
	must(t, f.Finish(job.id("execution_id"), "failed"))
	h.ends(job.job.ID, "Failed", "upstream_error")
	must(t, f.Restart())
	all()
	must(t, f.RotateToken())
	all()
	must(t, f.Crash())
	all()

	secrets := append(f.Secrets(), echoed)
	look := func(where string, text []byte) {
		for _, secret := range secrets {
			if at := strings.Index(string(text), secret); at >= 0 {
				t.Errorf("%s holds a secret: ...%.200s", where, text[max(0, at-100):])
			}
		}
	}
	look("an answer", []byte(left.String()))
	look("the log", []byte(h.log.String()))
	for _, path := range []string{"/metrics", "/api/v1/backends", "/api/v1/jobs", "/api/v1/sessions", "/api/v1/status"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.base+path, nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+h.token)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		_ = resp.Body.Close()
		if len(body) == 0 {
			t.Errorf("%s is empty", path)
		}
		look(path, body)
	}
	h.stop()
	files := 0
	must(t, filepath.WalkDir(h.state, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		look(path, text)
		return err
	}))
	if files < 3 || left.Len() < 100_000 {
		t.Errorf("only %d files and %d bytes of answers were looked at", files, left.Len())
	}
	for _, r := range f.Requests() {
		if r.Exposed {
			t.Errorf("a token was sent elsewhere than in its header: %+v", r)
		}
	}
}

// refuse fails the test unless the call was refused.
func (s said) refuse(t *testing.T) said {
	t.Helper()
	s.refused("invalid_argument")
	return s
}

// secretArguments are good arguments of a verb.
func secretArguments(f *resmontest.Fake, verb string) map[string]any {
	switch verb {
	case "search_corpus":
		return map[string]any{"query": "a"}
	case "find_similar", "explain_match", "get_paper_lifecycle":
		return map[string]any{"doc_id": 1}
	case "get_routine", "run_routine", "activate_routine", "deactivate_routine":
		return map[string]any{"routine_id": f.RoutineID(1)}
	case "get_execution", "get_execution_results", "get_search_record", "export_references":
		return map[string]any{"exec_id": f.ExecutionID(1)}
	case "get_analytics":
		return map[string]any{"view": "overview"}
	case "get_watch_profile", "get_profile_matches":
		return map[string]any{"profile_id": f.ProfileID(1)}
	case "run_sweep":
		return sweep
	case "create_routine":
		return map[string]any{"name": "n", "keywords": []string{"a"}, "sources": []string{"arxiv"}, "schedule": "0 8 * * *"}
	case "create_watch_profile":
		return map[string]any{"name": "n"}
	case "update_settings":
		return map[string]any{"group": "ai", "settings": map[string]any{"ai_model": "m"}}
	}
	return map[string]any{}
}
