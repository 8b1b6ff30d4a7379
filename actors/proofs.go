package actors

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/condition"
	"berth/broker/policy/proof"
	"berth/broker/shape"
)

// ProofGate holds writes back until their callers have seen what they change
// (contracts/catalog.md section 6). It keeps the rules as they are for the
// catalog that is served, and the marks of each backend, which are taken and used
// up in the run of a call.
//
// Policy looks at it from the goroutines of requests; it is safe for concurrent use.
type ProofGate struct {
	config   proof.Config
	snapshot func() *catalog.Snapshot
	now      func() time.Time
	log      *slog.Logger

	rules atomic.Pointer[judgedRules]
	marks sync.Map // backend -> *proof.Marks

	mu    sync.Mutex
	ended map[string]*Shown // by job: what its result will grant
	order []string          // of ended, the oldest first
}

// maxEnded bounds the jobs of which it is remembered what their results grant.
// What is forgotten has to be read again.
const maxEnded = 1000

// judgedRules are the rules for one snapshot, and what is wrong with them there.
type judgedRules struct {
	of     *catalog.Snapshot
	rules  *proof.Rules
	faults []proof.Fault
}

// CheckProofs lists what is wrong with rules in a catalog; the error says why a
// broker must not start with them. What only a later list makes wrong closes what
// it guards.
func CheckProofs(c proof.Config, in *catalog.Snapshot) ([]proof.Fault, error) {
	_, faults := judgeProofs(c, in)
	for _, f := range faults {
		if f.Refuses() {
			return nil, fmt.Errorf("%w: %s", ErrCatalog, f)
		}
	}
	return faults, nil
}

// judgeProofs judges rules by a catalog. A rule for a backend that has not listed
// anything yet is not at fault.
func judgeProofs(c proof.Config, in *catalog.Snapshot) (*proof.Rules, []proof.Fault) {
	rules, faults := proof.Compile(c, in.Verbs())
	return rules, slices.DeleteFunc(faults, func(f proof.Fault) bool { return f.Noted && mayCome(in, f.Pattern) })
}

func newProofGate(c proof.Config, sys *System) *ProofGate {
	return &ProofGate{config: c, snapshot: sys.Catalog, now: sys.now, log: sys.log}
}

// Proofs is the gate; nil when it is off.
func (s *System) Proofs() *ProofGate { return s.gate }

// Rules gives the rules for the catalog that is served. What is at fault in them
// is closed, and logged when it was not so in the catalog before.
func (g *ProofGate) Rules() *proof.Rules {
	snapshot := g.snapshot()
	if have := g.rules.Load(); have != nil && have.of == snapshot {
		return have.rules
	}
	rules, faults := judgeProofs(g.config, snapshot)
	had := g.rules.Swap(&judgedRules{snapshot, rules, faults})
	for _, f := range faults {
		about := []any{slog.String("rule", f.Where), slog.String("verb", f.Verb), slog.String("code", f.Code), slog.String("cause", f.Reason)}
		switch {
		case had != nil && slices.Contains(had.faults, f):
		case f.Noted:
			g.log.Warn("a rule for proofs selects no verb", about...)
		default:
			g.log.Warn("a rule for proofs is at fault and closes what it guards", about...)
		}
	}
	return rules
}

// mayCome reports whether a pattern may come to select verbs of a backend that
// has not listed anything yet.
func mayCome(snapshot *catalog.Snapshot, pattern string) bool {
	backend, _, named := strings.Cut(pattern, "__")
	full, ok := snapshot.Profile(catalog.Full)
	return ok && slices.ContainsFunc(full.Pending(), func(name string) bool {
		fits, _ := path.Match(backend, strings.ReplaceAll(name, ".", "_")) // as it stands in a listed name
		return !named || fits
	})
}

func (g *ProofGate) marksOf(backend string) *proof.Marks {
	if m, ok := g.marks.Load(backend); ok {
		return m.(*proof.Marks)
	}
	m, _ := g.marks.LoadOrStore(backend, proof.NewMarks(g.config.Kinds))
	return m.(*proof.Marks)
}

// Look says what of a demand is unproven.
func (g *ProofGate) Look(backend string, who proof.Caller, d proof.Demand) []proof.Unproven {
	return g.marksOf(backend).Look(g.now(), who, d)
}

// Shown is what an answer grants when it is released whole: once, however often
// that happens, because what it shows grows no younger.
type Shown struct {
	granted   *atomic.Bool
	gate      *ProofGate
	who       proof.Caller
	runtimeID string
	asked     time.Time
	targets   []proof.Target
	rules     *proof.Rules
}

// Grant gives the marks.
func (s *Shown) Grant() {
	if s == nil || s.granted.Swap(true) {
		return
	}
	now, byHome := s.gate.now(), map[string][]proof.Target{}
	for _, t := range s.targets {
		if home := s.rules.Home(t.Kind); home != "" {
			byHome[home] = append(byHome[home], t)
		}
	}
	for home, targets := range byHome {
		s.gate.marksOf(home).Grant(now, s.asked, s.who, s.runtimeID, targets)
	}
}

// Shows finds what the answer to a call shows its caller; nil is nothing.
func (g *ProofGate) Shows(call *broker.Call, reply Reply) *Shown {
	if g == nil || reply.Answer == nil || len(reply.Answer.Result) == 0 || reply.Timing.Started.IsZero() {
		return nil
	}
	if id := reply.Answer.Releases; id != "" {
		return g.Released(callerOf(call), id)
	}
	return g.shows(call, reply.Answer, reply.Timing.Started)
}

func (g *ProofGate) shows(call *broker.Call, answer *broker.Answer, asked time.Time) *Shown {
	rules := g.Rules()
	targets := rules.Grants(call.Verb, condition.Call{Arguments: argumentsOf(call), Result: answer.Result}, answer.ToolError())
	if len(targets) == 0 {
		return nil
	}
	return &Shown{granted: new(atomic.Bool), gate: g, who: callerOf(call), runtimeID: answer.RuntimeID, asked: asked, targets: targets, rules: rules}
}

// remember keeps what the result of a job grants until it is released.
func (g *ProofGate) remember(job string, shown *Shown) {
	if shown == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil {
		g.ended = map[string]*Shown{}
	}
	if g.ended[job] == nil {
		g.order = append(g.order, job)
	}
	g.ended[job] = shown
	for len(g.order) > maxEnded {
		delete(g.ended, g.order[0])
		g.order = g.order[1:]
	}
}

// Released finds what the result of a job grants to whom it is released now;
// nil is nothing: it is another's, shows nothing, or is an earlier broker's.
func (g *ProofGate) Released(to proof.Caller, job string) *Shown {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	kept := g.ended[job]
	if kept == nil || !to.Principal.Owns(kept.who.Principal.Tenant, kept.who.Principal.User) {
		return nil
	}
	shown := *kept
	shown.who = to // a mark that is bound to a session is that of whoever reads it
	return &shown
}

func callerOf(call *broker.Call) proof.Caller {
	return proof.Caller{Principal: call.Principal, Session: call.Session}
}

func argumentsOf(call *broker.Call) (arguments json.RawMessage) {
	members, err := shape.Members(call.Params)
	if err != nil {
		return nil
	}
	for _, m := range members {
		if m.Name == "arguments" {
			arguments = m.Value
		}
	}
	return arguments
}

// heldMarks is what a call has reserved of the marks of its backend.
type heldMarks struct {
	marks       *proof.Marks
	reservation *proof.Reservation
	proving     *proof.Proving
}

// reserve looks again, in the message that admits the call, and takes the marks.
func (b *backend) reserve(o *offer) *broker.Refusal {
	proving, ok := o.call.Proof.(*proof.Proving)
	if !ok || b.sys.gate == nil || proving.Demand.Empty() || o.held != nil {
		return nil
	}
	marks := b.sys.gate.marksOf(b.cfg.Name)
	reservation, unproven := marks.Reserve(b.sys.now(), callerOf(o.call), proving.Demand)
	if len(unproven) > 0 {
		return proving.Refuse(unproven)
	}
	o.held = &heldMarks{marks: marks, reservation: reservation, proving: proving}
	return nil
}

// spend uses the marks up just before the call is sent; a refusal means that it
// must not be.
func (h *heldMarks) spend(now time.Time) *broker.Refusal {
	if h == nil {
		return nil
	}
	if unproven := h.marks.Spend(now, h.reservation); len(unproven) > 0 {
		return h.proving.Refuse(unproven)
	}
	return nil
}

// giveBack returns the marks of a call that was not sent.
func (h *heldMarks) giveBack() {
	if h != nil {
		h.marks.Return(h.reservation)
	}
}
