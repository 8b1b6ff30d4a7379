package resmon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/transport/app"
	"berth/transport/app/resmontest"
)

func TestARestartIsSaidOnceAndThenFollowed(t *testing.T) {
	for _, c := range every {
		t.Run(c[0]+c[1], func(t *testing.T) {
			t.Parallel()
			var l lines
			fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
			r := reach(t, fake, app.Options{Env: fake.Env(), Dial: l.dial})
			first := r.fake.RuntimeID()
			if a := r.call("list_routines", `{}`); a.runtimeID != first {
				t.Fatalf("answered by %q", a.runtimeID)
			}
			if err := r.fake.Restart(); err != nil {
				t.Fatal(err)
			}
			l.gone()
			r.fake.Forget()
			got := r.refused(c[0], c[1])
			if got.Error != "backend_unavailable" || !strings.Contains(got.Message, "restarted") {
				t.Errorf("%+v", got)
			}
			got.detail(t, `{"reason":"token_refused","tried":["`+r.fake.Base()+`"]}`)
			if sent := r.sent(); len(sent) > 0 && c[0] != "health" {
				t.Errorf("sent on the old token: %q", sent)
			}
			if a := r.call(c[0], c[1]); a.isError || a.runtimeID != r.fake.RuntimeID() || a.runtimeID == first {
				t.Errorf("%q answered: %s", a.runtimeID, a.text)
			}
			seen := map[string]bool{}
			for _, q := range r.fake.Requests() {
				if q.Method != "GET" && seen[q.Method+q.Path] {
					t.Errorf("sent twice: %s %s", q.Method, q.Path)
				}
				seen[q.Method+q.Path] = true
			}
		})
	}
}

func TestALifeEndsWhenAnotherProcessAnswers(t *testing.T) {
	r := small(t)
	inc := r.conn.Incarnation()
	if inc.RuntimeID != "" || inc.Reported || !inc.PerCall || len(inc.Tools) != 25 {
		t.Errorf("before any call: %+v", inc)
	}
	r.good("health", `{}`)
	<-inc.Done // it is known now who answers
	next, err := r.backend.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { next.Close(context.Background()) })
	if inc := next.Incarnation(); inc.RuntimeID != r.fake.RuntimeID() || !inc.Reported {
		t.Errorf("after a call: %+v", inc)
	}
	if err := r.fake.Restart(); err != nil {
		t.Fatal(err)
	}
	r.refused("health", `{}`)
	<-next.Incarnation().Done
}

func TestACallNeverMixesTwoProcesses(t *testing.T) {
	tests := []struct {
		name, arguments string
		template        string // the request before which resmon restarts
		fails           bool
		without         []string
	}{
		{"get_routine", `{"routine_id":1}`, "/api/routines/{routine_id}/coverage", false, []string{"coverage", "delivery"}},
		{"list_sources", `{}`, "/api/credentials", false, nil},
		{"get_watch_profile", `{"profile_id":1}`, "/api/profiles/{profile_id}/matches", true, nil},
		{"update_settings", `{"group":"ai","settings":{"ai_model":"new"}}`, "/api/settings/ai", true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := small(t)
			first := r.fake.RuntimeID()
			r.good("health", `{}`)
			hold := r.fake.Inject(resmontest.Hold(), resmontest.Scope{Template: tt.template})
			done := make(chan answer)
			go func() {
				a, err := r.try(context.Background(), "", tt.name, tt.arguments)
				if err != nil {
					t.Error(err)
				}
				done <- a
			}()
			<-hold.Reached()
			if err := r.fake.Restart(); err != nil { // ends what waits
				t.Fatal(err)
			}
			a := <-done
			r.fake.Clear()
			if a.isError != tt.fails {
				t.Errorf("%s", a.text)
			}
			for _, q := range r.fake.Requests() {
				if q.Life != first && q.Status == 200 {
					t.Errorf("%s %s was answered by the second process", q.Method, q.Path)
				}
			}
			if !tt.fails {
				got := decode(t, a.text)
				for _, key := range tt.without {
					if _, there := got[key]; there {
						t.Errorf("%s is answered although it was not read", key)
					}
				}
			}
			if tt.name == "list_sources" {
				if !strings.Contains(a.text, "credentials_unavailable") {
					t.Errorf("%s", a.text)
				}
			}
		})
	}
}

func TestWhatABrokenConnectionIsSaidToBe(t *testing.T) {
	tests := []struct {
		name   string
		fault  resmontest.Fault
		reason string
	}{
		{"closed before it was read", resmontest.DropBefore(), "closed"},
		{"cut in the body", resmontest.CutBody(), "truncated"},
		{"no answer in time", resmontest.Hold(), "timeout"},
	}
	for _, tt := range tests {
		calls, limits := every, app.Limits{}
		if tt.reason == "timeout" {
			calls, limits = [][2]string{reads[1], reads[4]}, brief // each takes its time
		}
		for _, c := range calls {
			t.Run(tt.name+" "+c[0]+c[1], func(t *testing.T) {
				t.Parallel()
				fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
				r := reach(t, fake, app.Options{Env: fake.Env(), Limits: limits})
				r.good("list_watch_profiles", `{}`)
				fake.Forget()
				fake.Inject(tt.fault, resmontest.Scope{Times: 1})
				defer fake.Clear()
				got := r.refused(c[0], c[1])
				if got.Error != "backend_unavailable" || !slices.Equal(got.Tried, []string{fake.Base()}) {
					t.Errorf("%+v", got)
				}
				tool, _ := Surface().Tool(c[0])
				want := `{"reason":"` + tt.reason + `","tried":["` + fake.Base() + `"]}`
				// The first request of a change of settings reads.
				if tool.Confirm && c[0] != "update_settings" {
					want = `{"outcome_unknown":true,` + want[1:]
					if !strings.Contains(got.Message, tool.Tells) {
						t.Errorf("it does not say what tells: %s", got.Message)
					}
				}
				got.detail(t, want)
				if n := len(r.fake.Requests()); n != 1 {
					t.Errorf("%d requests", n)
				}
			})
		}
	}
}

func TestAWriteWhoseEndIsNotKnownIsSentOnce(t *testing.T) {
	tests := []struct{ name, arguments, method, template string }{
		{"run_sweep", `{"query":"x","sources":["arxiv"]}`, "POST", "/api/search/sweep"},
		{"create_routine", `{"name":"n","keywords":["a"],"sources":["arxiv"],"schedule":"0 8 * * *"}`, "POST", "/api/routines"},
		{"create_watch_profile", `{"name":"Jane"}`, "POST", "/api/profiles"},
		{"run_routine", `{"routine_id":3}`, "POST", "/api/routines/{routine_id}/run"},
		{"activate_routine", `{"routine_id":2}`, "POST", "/api/routines/{routine_id}/activate"},
		{"deactivate_routine", `{"routine_id":1}`, "POST", "/api/routines/{routine_id}/deactivate"},
		{"update_settings", `{"group":"ai","settings":{"ai_model":"new"}}`, "PUT", "/api/settings/ai"},
	}
	faults := []struct {
		name   string
		fault  resmontest.Fault
		code   string
		reason string
		status bool
	}{
		{"dropped after it took effect", resmontest.DropAfterWrite(), "backend_unavailable", "closed", false},
		{"an answer that is cut", resmontest.CutBody(), "backend_unavailable", "truncated", false},
		{"an internal error", resmontest.Status(500), "upstream_error", "", true},
		{"an answer that is no JSON", resmontest.NotJSON(), "upstream_error", "not_json", false},
		{"an answer of another type", resmontest.WrongType(), "upstream_error", "wrong_type", false},
	}
	for _, f := range faults {
		for _, tt := range tests {
			if tt.name == "update_settings" && (f.reason == "not_json" || f.reason == "wrong_type") {
				continue // its answer is never read
			}
			t.Run(f.name+" "+tt.name, func(t *testing.T) {
				r := small(t)
				r.good("list_watch_profiles", `{}`)
				r.fake.Forget()
				r.fake.Inject(f.fault, resmontest.Scope{Method: tt.method, Template: tt.template})
				got := r.refused(tt.name, tt.arguments)
				if got.Error != f.code || got.Detail["outcome_unknown"] != true || got.Detail["reason"] != nil && got.Detail["reason"] != f.reason || f.status != (got.Detail["status"] != nil) {
					t.Errorf("%+v", got)
				}
				if !strings.Contains(got.Message, "may have taken effect") {
					t.Errorf("%s", got.Message)
				}
				writes, applied := 0, 0
				for _, q := range r.fake.Requests() {
					if q.Method != "GET" {
						writes++
						if q.Applied {
							applied++
						}
					}
				}
				if writes != 1 || f.reason == "closed" && applied != 1 {
					t.Errorf("%d requests wrote, %d of them took effect", writes, applied)
				}
			})
		}
	}
}

func TestAWriteThatWasNotHandedOverIsNotDoubted(t *testing.T) {
	var l lines
	fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	r := reach(t, fake, app.Options{Env: fake.Env(), Dial: l.dial})
	r.good("health", `{}`)
	if err := r.fake.Stop(); err != nil {
		t.Fatal(err)
	}
	l.gone()
	for range 2 {
		got := r.refused("run_sweep", `{"query":"x","sources":["arxiv"]}`)
		if got.Error != "backend_unavailable" || got.Detail["outcome_unknown"] != nil {
			t.Errorf("%+v", got)
		}
	}
}

func TestACallerWhoGoesEndsAReadAndIsOutlivedByAWrite(t *testing.T) {
	r := small(t)
	r.good("health", `{}`)
	hold := r.fake.Inject(resmontest.Hold(), resmontest.Scope{Template: "/api/routines"})
	gone := func(name, arguments string, then func()) error {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() {
			_, err := r.try(ctx, "", name, arguments)
			done <- err
		}()
		<-hold.Reached()
		cancel()
		then()
		return <-done
	}
	if f := isFailure(gone("list_routines", `{}`, func() {})); f == nil || f.Dispatched || f.Abandoned {
		t.Errorf("a read: %+v", f)
	}
	if err := gone("create_routine", `{"name":"late","keywords":["a"],"sources":["arxiv"],"schedule":"0 8 * * *"}`, hold.Release); err != nil {
		if f := isFailure(err); f == nil {
			t.Errorf("a write: %v", err)
		}
	}
	r.fake.Clear()
	if !strings.Contains(r.call("list_routines", `{}`).text, `"late"`) {
		t.Error("the write was given up although it was under way")
	}
	write, ctx := r.fake.Inject(resmontest.Hold(), resmontest.Scope{Template: "/api/search/sweep"}), context.Background()
	impatient := reach(t, r.fake, app.Options{Env: r.fake.Env(), CancelGrace: 20 * time.Millisecond})
	ctx, cancel := context.WithCancel(ctx)
	go func() { <-write.Reached(); cancel() }()
	_, err := impatient.try(ctx, "", "run_sweep", `{"query":"x","sources":["arxiv"]}`)
	if f := isFailure(err); f == nil || !f.Dispatched || !f.Abandoned {
		t.Errorf("a write that does not end: %v", err)
	}
	r.fake.Clear()
}

// Eight instances, 64 sessions and faults: each answer is stamped by the
// instance that gave it.
func TestNoAnswerCrossesFromOneInstanceToAnother(t *testing.T) {
	const instances, sessions, calls = 8, 64, 6
	var rigs []*rig
	conns := make([]lines, instances)
	for i := range instances {
		fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, Stamp: fmt.Sprintf("stamp-%d-", i), FirstID: int64(1000 * (i + 1))})
		rigs = append(rigs, reach(t, fake, app.Options{Env: fake.Env(), MaxInFlight: 4, Dial: conns[i].dial}))
		fake.Inject(resmontest.DropBefore(), resmontest.Scope{Template: "/api/profiles", Skip: 3, Times: 5})
		fake.Inject(resmontest.Status(503), resmontest.Scope{Template: "/api/watchdog", Skip: 2, Times: 5})
	}
	names := [][2]string{{"list_routines", `{}`}, {"list_watch_profiles", `{}`}, {"get_watchdog_findings", `{}`}, {"search_corpus", `{"query":"a"}`}, {"health", `{}`}}
	var wg sync.WaitGroup
	for s := range sessions {
		wg.Go(func() {
			for n := range calls {
				i := (s + n) % instances
				c := names[(s*7+n)%len(names)]
				a, err := rigs[i].try(context.Background(), "", c[0], c[1])
				if err != nil {
					t.Error(err)
					continue
				}
				if a.runtimeID != "" && a.runtimeID != rigs[i].fake.RuntimeID() {
					t.Errorf("answered by %q", a.runtimeID)
				}
				for j := range instances {
					if j != i && strings.Contains(a.text, fmt.Sprintf("stamp-%d-", j)) {
						t.Errorf("instance %d gave an answer of %d", i, j)
					}
				}
			}
		})
	}
	wg.Wait()
	for i, r := range rigs {
		// 4 seats and 4 for control, and as many of pools that were dropped and are still used.
		conns[i].mu.Lock()
		if conns[i].peak > 16 {
			t.Errorf("instance %d had %d connections at once", i, conns[i].peak)
		}
		conns[i].mu.Unlock()
		for _, q := range r.fake.Requests() {
			if q.Token != resmontest.TokenCurrent || q.Exposed {
				t.Errorf("instance %d: %+v", i, q)
			}
		}
	}
}
