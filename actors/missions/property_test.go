package missions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/dispatch/runtime"
)

// scene is what a random run begins with, and script what happens in it.
type scene struct {
	vessels  []dispatch.Vessel
	captains int
	missions []dispatch.Mission
	voyages  int
	script   []act
}

type act struct {
	what string
	n    int
}

var acts = []string{"exits", "exits", "exits", "fails", "completes badly", "refuses", "verdict", "dies", "cancel", "cancel voyage", "stop captain", "stop all", "restart broker",
	"restart mission", "wake", "wait", "wait long", "landing breaks", "landing works", "journal fails", "journal fails late", "retry", "no commit", "ask concurrently"}

func drawScene(rt *rapid.T) scene {
	var s scene
	for i := range rapid.IntRange(1, 3).Draw(rt, "vessels") {
		s.vessels = append(s.vessels, dispatch.Vessel{ID: fmt.Sprint("v", i), Owner: acme, Name: fmt.Sprint("repo", i), DefaultBranch: "main",
			Concurrent: rapid.Bool().Draw(rt, "concurrent"), LandingMode: rapid.SampledFrom([]dispatch.LandingMode{dispatch.LandNone, dispatch.LandLocalMerge}).Draw(rt, "landing")})
	}
	s.captains, s.voyages = rapid.IntRange(1, 4).Draw(rt, "captains"), rapid.IntRange(1, 3).Draw(rt, "voyages")
	for i := range rapid.IntRange(1, 9).Draw(rt, "missions") {
		voyage := fmt.Sprint("vyg", rapid.IntRange(0, s.voyages-1).Draw(rt, "voyage"))
		vessel := s.vessels[int(voyage[3]-'0')%len(s.vessels)].ID
		m := dispatch.Mission{ID: fmt.Sprint("m", i), Owner: acme, Title: fmt.Sprint("m", i), VoyageID: &voyage, VesselID: vessel, Persona: "Worker", Priority: 100,
			Mode: rapid.SampledFrom([]dispatch.Mode{dispatch.Implementation, dispatch.Implementation, dispatch.Audit}).Draw(rt, "mode"), Status: dispatch.MissionPending}
		if on := rapid.IntRange(-2, i-1).Draw(rt, "depends on"); on >= 0 {
			m.DependsOn = &s.missions[on].ID
		}
		s.missions = append(s.missions, m)
	}
	for range rapid.IntRange(0, 25).Draw(rt, "steps") {
		s.script = append(s.script, act{rapid.SampledFrom(acts).Draw(rt, "what"), rapid.IntRange(0, 20).Draw(rt, "which")})
	}
	return s
}

// TestRandomVoyagesKeepWhatMustHold plays random voyages with random ends of
// agents, cancels, restarts and faults. The rig checks every step of the records;
// this checks that all of it comes to an end.
func TestRandomVoyagesKeepWhatMustHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScene(rt)
		var wrong []string
		synctest.Test(t, func(t *testing.T) { wrong = s.play(t) })
		if len(wrong) > 0 {
			rt.Fatalf("%s", strings.Join(wrong, "\n"))
		}
	})
}

// troupe is a scene while it is played.
type troupe struct {
	*world
	scene
	mu     sync.Mutex
	broken bool // landings fail
	bare   bool // the next agents commit nothing
	before int  // writes to fail before they are made
	after  int  // and after
	asks   sync.WaitGroup
}

func (s scene) play(t *testing.T) []string {
	p := &troupe{world: newWorld(t), scene: s}
	w := p.world
	for _, v := range s.vessels {
		put(w, v)
	}
	for i := range s.captains {
		w.captains(fmt.Sprint("c", i))
	}
	for i := range s.voyages {
		id := fmt.Sprint("vyg", i)
		put(w, dispatch.Voyage{ID: id, Owner: acme, Title: id, VesselID: s.vessels[i%len(s.vessels)].ID, Status: dispatch.VoyageOpen, Materialized: true})
	}
	for i, m := range s.missions {
		m.CreatedUTC = time.Now().Add(time.Duration(i))
		put(w, m)
	}
	w.store.fault = func([]broker.RecordChange) (error, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case p.before > 0:
			p.before--
			return errDisk, nil
		case p.after > 0:
			p.after--
			return nil, errDisk
		}
		return nil, nil
	}
	w.docks.land = func(context.Context, Work) (string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.broken {
			return "", &dispatch.Fault{Reason: dispatch.MergeConflict, Message: "Both changed a file."}
		}
		return "merged", nil
	}
	w.docks.collect = func(_ context.Context, k Work) (Collected, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		commit, produced := "c-"+k.Mission.ID, !p.bare
		return Collected{Commit: &commit, Produced: &produced}, nil
	}
	w.run()
	for _, a := range s.script {
		p.act(a)
	}
	p.asks.Wait()
	wrong := p.settle()
	_ = w.sys.Stop(context.Background())
	elapse(time.Second)
	if n := w.agents.live(); n > 0 {
		wrong = append(wrong, fmt.Sprint(n, " agents outlive the broker"))
	}
	return slices.Concat(wrong, w.store.wrong, w.docks.wrong, w.agents.wrong)
}

// running are the agents that run.
func (p *troupe) running() (out []*agent) {
	p.agents.mu.Lock()
	defer p.agents.mu.Unlock()
	for _, a := range p.agents.all {
		select {
		case <-a.done:
		default:
			out = append(out, a)
		}
	}
	return out
}

func (p *troupe) act(a act) {
	p.mu.Lock()
	switch a.what {
	case "landing breaks":
		p.broken = true
	case "landing works":
		p.broken = false
	case "journal fails":
		p.before += 1 + a.n%3
	case "journal fails late":
		p.after += 1 + a.n%3
	case "no commit":
		p.bare = !p.bare
	}
	p.mu.Unlock()
	ctx, id := context.Background(), fmt.Sprint("m", a.n%len(p.scene.missions))
	switch a.what {
	case "cancel":
		_, _ = p.sys.CancelMission(ctx, operator, id)
	case "cancel voyage":
		_, _, _ = p.sys.CancelVoyage(ctx, operator, fmt.Sprint("vyg", a.n%p.scene.voyages), dispatch.Cancelled)
	case "stop captain":
		_ = p.sys.StopCaptain(ctx, operator, fmt.Sprint("c", a.n%p.scene.captains))
	case "stop all":
		p.sys.StopAll(ctx, operator)
	case "retry":
		_, _ = p.sys.RetryLanding(ctx, operator, id)
	case "restart mission":
		p.restart(id)
	case "wake":
		p.sys.Wake()
	case "wait":
		elapse(time.Duration(a.n) * 100 * time.Millisecond)
	case "wait long":
		elapse(11 * time.Minute) // until a captain is stalled
	case "restart broker":
		p.asks.Wait()
		_ = p.sys.Stop(ctx)
		p.mu.Lock()
		p.before, p.after = 0, 0 // a start that cannot write is refused
		p.mu.Unlock()
		p.run()
	case "ask concurrently":
		sys := p.sys
		for i := range 3 {
			p.asks.Go(func() {
				switch i {
				case 0:
					_, _ = sys.CancelMission(ctx, operator, id)
				case 1:
					_ = sys.StopCaptain(ctx, operator, fmt.Sprint("c", a.n%p.scene.captains))
				default:
					_, _, _ = sys.CancelVoyage(ctx, operator, fmt.Sprint("vyg", a.n%p.scene.voyages), dispatch.Cancelled)
				}
			})
		}
	default:
		p.ends(a)
	}
}

// ends has one of the agents that run end.
func (p *troupe) ends(a act) {
	all := p.running()
	if len(all) == 0 {
		return
	}
	agent := all[a.n%len(all)]
	switch a.what {
	case "exits":
		agent.exits(0)
	case "fails":
		agent.exits(1)
	case "completes badly":
		agent.saying(1, runtime.ResultComplete, "")
	case "refuses":
		agent.saying(0, runtime.ResultRefused, "")
	case "verdict":
		agent.saying(0, "", runtime.VerdictFail)
	case "dies":
		agent.finish(End{Words: "was ended by signal 11"}, false)
	}
}

// restart makes a mission pending again, as the verb does.
func (p *troupe) restart(id string) {
	m, err := dispatch.Read[dispatch.Mission](p.store, id)
	if err != nil {
		return
	}
	v, err := dispatch.Read[dispatch.Voyage](p.store, *m.Value.VoyageID)
	if err != nil {
		return
	}
	next, err := m.Value.Restarted(time.Now())
	if err != nil || v.Value.Status == dispatch.VoyageCancelled || v.Value.Status == dispatch.VoyageComplete {
		return
	}
	if v.Value.Status == dispatch.VoyageFailed {
		if v.Value, err = v.Value.Step(dispatch.VoyageInProgress, time.Now()); err != nil {
			return
		}
	}
	mission, err := dispatch.Write(next, m.Revision)
	if err != nil {
		return
	}
	voyage, err := dispatch.Write(v.Value, v.Revision)
	if err != nil {
		return
	}
	_, _ = p.store.PutAll(context.Background(), mission, voyage)
	p.sys.Wake()
}

// settle lets everything come to its end, and says what does not.
func (p *troupe) settle() (wrong []string) {
	p.mu.Lock()
	p.broken, p.bare, p.before, p.after = false, false, 0, 0
	p.mu.Unlock()
	for range 100 {
		synctest.Wait()
		for _, a := range p.running() {
			a.exits(0)
		}
		for _, m := range p.scene.missions {
			if now, err := dispatch.Read[dispatch.Mission](p.store, m.ID); err == nil && now.Value.Status == dispatch.MissionLandingFailed {
				_, _ = p.sys.RetryLanding(context.Background(), operator, m.ID)
			}
		}
		elapse(10 * time.Second)
		synctest.Wait()
		if wrong = p.left(); len(wrong) == 0 {
			return nil
		}
	}
	return wrong
}

// left says what has not come to its end.
func (p *troupe) left() (left []string) {
	for _, r := range p.store.snapshot() {
		switch r.Kind {
		case dispatch.KindVoyage:
			if v := value[dispatch.Voyage](r); !v.Status.Over() {
				left = append(left, v.ID+" is "+string(v.Status))
			}
		case dispatch.KindMission:
			if m := value[dispatch.Mission](r); m.Status.Open() {
				left = append(left, fmt.Sprintf("%s is %s, %s", m.ID, m.Status, m.Assignment))
			}
		case dispatch.KindCaptain:
			if c := value[dispatch.Captain](r); c.State != dispatch.CaptainIdle {
				left = append(left, c.ID+" is "+string(c.State))
			}
		case dispatch.KindDock:
			if d := value[dispatch.Dock](r); d.State != dispatch.DockAvailable && d.State != dispatch.DockFailed {
				left = append(left, d.ID+" is "+string(d.State))
			}
		}
	}
	p.tokens.mu.Lock()
	defer p.tokens.mu.Unlock()
	for id := range p.tokens.out {
		left = append(left, "the token of "+id)
	}
	return left
}
