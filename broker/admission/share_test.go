package admission

import (
	"fmt"
	"maps"
	"math"
	"math/rand"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fluid is the oracle of the order: the ideal that no scheduler of whole
// tickets can reach. It knows nothing of passes and clocks. Whenever the queue
// starts seats, the fluid pours as much over what is left in it: over principals
// by weight, then over the sessions of each, max-min by progressive filling.
type fluid struct {
	weight map[string]float64            // of a principal
	left   map[string]map[string]float64 // principal, session: demand not served yet
	got    map[string]map[string]float64
}

func newFluid() *fluid {
	return &fluid{map[string]float64{}, map[string]map[string]float64{}, map[string]map[string]float64{}}
}

func (f *fluid) offer(t Ticket) {
	if f.left[t.Principal] == nil {
		f.left[t.Principal], f.got[t.Principal] = map[string]float64{}, map[string]float64{}
	}
	f.weight[t.Principal] = float64(t.Weight)
	f.left[t.Principal][t.Session] += float64(t.Cost)
}

func (f *fluid) pour(seats float64) {
	demand := map[string]float64{}
	for p, sessions := range f.left {
		for _, left := range sessions {
			demand[p] += left
		}
	}
	for p, share := range waterFill(seats, demand, f.weight) {
		for s, n := range waterFill(share, f.left[p], nil) {
			f.left[p][s] -= n
			f.got[p][s] += n
		}
	}
}

// waterFill raises one level under all flows until capacity is used up; a flow
// whose demand is met stops rising. A nil weight is 1 for each.
func waterFill(capacity float64, demand, weight map[string]float64) map[string]float64 {
	w := func(k string) float64 {
		if weight == nil {
			return 1
		}
		return weight[k]
	}
	share, rising := map[string]float64{}, map[string]bool{}
	for k, d := range demand {
		if d > 1e-12 {
			rising[k] = true
		}
	}
	for capacity > 1e-12 && len(rising) > 0 {
		sum, step := 0.0, math.Inf(1)
		for k := range rising {
			sum += w(k)
			step = min(step, (demand[k]-share[k])/w(k))
		}
		step = min(step, capacity/sum)
		for _, k := range slices.Sorted(maps.Keys(rising)) {
			share[k] += step * w(k)
			capacity -= step * w(k)
			if demand[k]-share[k] < 1e-9 {
				delete(rising, k)
			}
		}
	}
	return share
}

func TestTheOracleFillsLikeWater(t *testing.T) {
	for _, tt := range []struct {
		name           string
		capacity       float64
		demand, weight map[string]float64
		want           map[string]float64
	}{
		{"equal flows share equally", 9, map[string]float64{"a": 9, "b": 9, "c": 9}, nil, map[string]float64{"a": 3, "b": 3, "c": 3}},
		{"what one leaves the others get", 9, map[string]float64{"a": 1, "b": 9, "c": 9}, nil, map[string]float64{"a": 1, "b": 4, "c": 4}},
		{"weights", 8, map[string]float64{"a": 9, "b": 9}, map[string]float64{"a": 3, "b": 1}, map[string]float64{"a": 6, "b": 2}},
		{"capacity left over", 8, map[string]float64{"a": 1, "b": 2}, nil, map[string]float64{"a": 1, "b": 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := waterFill(tt.capacity, tt.demand, tt.weight)
			for k, want := range tt.want {
				if math.Abs(got[k]-want) > 1e-9 {
					t.Errorf("%s got %v, want %v", k, got[k], want)
				}
			}
		})
	}
}

// load is a queue under test with its oracle.
type load struct {
	q       *Queue
	fluid   *fluid
	got     map[string]map[string]float64
	running []string
	maxCost float64
	next    int
	now     time.Time
}

func newLoad(seats int) *load {
	many := 1 << 20
	return &load{q: New(Limits{Seats: seats, JobSeats: seats, MaxQueuedCalls: many, MaxQueuedJobs: many}),
		fluid: newFluid(), got: map[string]map[string]float64{}, now: time.Unix(0, 0)}
}

func (l *load) offer(t rapidOrTest, ticket Ticket) {
	l.next++
	ticket.ID = fmt.Sprint(l.next)
	if r := l.q.Offer(ticket, l.now); r != nil {
		t.Fatalf("refused: %v", r)
	}
	l.maxCost = max(l.maxCost, float64(ticket.Cost))
	l.fluid.offer(ticket)
}

// start runs what may run and calls check after each start.
func (l *load) start(check func()) {
	for {
		ticket, ok := l.q.Next(l.now)
		if !ok {
			return
		}
		l.running = append(l.running, ticket.ID)
		if l.got[ticket.Principal] == nil {
			l.got[ticket.Principal] = map[string]float64{}
		}
		l.got[ticket.Principal][ticket.Session] += float64(ticket.Cost)
		l.fluid.pour(float64(ticket.Cost))
		check()
	}
}

func (l *load) finishOne(t *rapid.T) {
	i := rapid.IntRange(0, len(l.running)-1).Draw(t, "finishes")
	l.q.Done(l.running[i], l.now)
	l.running = slices.Delete(l.running, i, i+1)
}

// deviations is the worst distance from the max-min share, in tickets of the
// largest cost, over principals and over sessions.
func (l *load) deviations() (principals, sessions float64) {
	for p, shares := range l.fluid.got {
		sum := 0.0
		for s, share := range shares {
			d := l.got[p][s] - share
			sum += d
			sessions = max(sessions, math.Abs(d))
		}
		principals = max(principals, math.Abs(sum))
	}
	return principals / l.maxCost, sessions / l.maxCost
}

// TestEveryFlowGetsItsMaxMinShare holds the queue against the oracle after each
// start. A principal whose tickets are all there has a fixed sequence of them,
// and a scheduler that follows the ideal's clock is then within one ticket of it
// (the theorem of worst-case fair queueing); a session adds one for its own
// level. Where flows empty and return there is one more at the principals'
// level: a flow that is behind when the ideal has already finished with it takes
// its late ticket into the new backlog.
func TestEveryFlowGetsItsMaxMinShare(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		backlog, more, maxMore int // tickets at the start, later ones in all and a step
		sessions, weight       int
		bound                  float64 // of a principal, in tickets of the largest cost
	}{
		{"all there from the start", 150, 0, 0, 5, 12, 1},
		{"a backlog with arrivals", 60, 150, 2, 8, 5, 2},
		{"sessions that come and go", 6, 200, 3, 12, 100, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				seats := rapid.IntRange(1, 5).Draw(t, "seats")
				cost := rapid.IntRange(1, rapid.IntRange(1, seats).Draw(t, "largest"))
				weights := rapid.SliceOfN(rapid.IntRange(1, tt.weight), 1, 8).Draw(t, "weights")
				l := newLoad(seats)
				offer := func() {
					p := rapid.IntRange(0, len(weights)-1).Draw(t, "principal")
					l.offer(t, Ticket{Principal: fmt.Sprint(p), Weight: weights[p], Cost: cost.Draw(t, "cost"),
						Session: fmt.Sprint(rapid.IntRange(1, tt.sessions).Draw(t, "session"))})
				}
				check := func() {
					principals, sessions := l.deviations()
					if principals > tt.bound+1e-6 || sessions > tt.bound+1+1e-6 {
						t.Fatalf("off by %v tickets for a principal, %v for a session: got %v, share %v", principals, sessions, l.got, l.fluid.got)
					}
				}
				for range rapid.IntRange(1, tt.backlog).Draw(t, "backlog") {
					offer()
				}
				more := tt.more
				l.start(check)
				for len(l.running) > 0 {
					l.finishOne(t)
					for range rapid.IntRange(0, min(more, tt.maxMore)).Draw(t, "more") {
						offer()
						more--
					}
					l.start(check)
				}
				if s := l.q.Stats(l.now); s.QueuedCalls != 0 {
					t.Fatalf("idle with %d waiting", s.QueuedCalls)
				}
			})
		})
	}
}

// TestSharesDoNotDriftInLongRuns is the same with fixed seeds, more flows, more
// tickets and steeper weights than rapid draws in its time.
func TestSharesDoNotDriftInLongRuns(t *testing.T) {
	for seed := range int64(240) {
		r := rand.New(rand.NewSource(seed))
		seats := 1 + r.Intn(6)
		largest := 1 + r.Intn(seats)
		weights := make([]int, 1+r.Intn(20))
		steepest := []int{1, 3, 100}[r.Intn(3)]
		for i := range weights {
			weights[i] = 1 + r.Intn(steepest)
		}
		sessions, backlog := 1+r.Intn(20), 1+r.Intn([]int{150, 10}[seed%2])
		l := newLoad(seats)
		offer := func() {
			p := r.Intn(len(weights))
			l.offer(t, Ticket{Principal: fmt.Sprint(p), Weight: weights[p], Session: fmt.Sprint(r.Intn(sessions)), Cost: 1 + r.Intn(largest)})
		}
		check := func() {
			if principals, sessions := l.deviations(); principals > 2+1e-6 || sessions > 3+1e-6 {
				t.Fatalf("seed %d: off by %v tickets for a principal, %v for a session", seed, principals, sessions)
			}
		}
		for range backlog {
			offer()
		}
		l.start(check)
		for len(l.running) > 0 {
			i := r.Intn(len(l.running))
			l.q.Done(l.running[i], l.now)
			l.running = slices.Delete(l.running, i, i+1)
			for range r.Intn(3) {
				if l.next < 300 {
					offer()
				}
			}
			l.start(check)
		}
	}
}

// TestTicketsThatLeaveDistortNobodysShare has one principal that offers and
// abandons without end between others that always have something waiting: those
// keep step with each other, and it keeps step with them when it stays.
func TestTicketsThatLeaveDistortNobodysShare(t *testing.T) {
	for seed := range int64(40) {
		r := rand.New(rand.NewSource(seed))
		q := New(Limits{Seats: 1, MaxQueuedCalls: 5000})
		weights := map[string]int{"a": 1, "b": 1 + r.Intn(9), "fickle": 1 + r.Intn(9)}
		next, served := 0, map[string]float64{}
		offer := func(principal string) string {
			next++
			id := fmt.Sprint(next)
			if refusal := q.Offer(Ticket{ID: id, Principal: principal, Weight: weights[principal], Session: fmt.Sprint(r.Intn(3))}, start); refusal != nil {
				t.Fatal(refusal)
			}
			return id
		}
		for range 600 {
			offer("a")
			offer("b")
		}
		run := func() {
			got, ok := q.Next(start)
			if !ok {
				t.Fatal("nothing runs")
			}
			q.Done(got.ID, start)
			served[got.Principal] += 1 / float64(weights[got.Principal])
		}
		inStep := func(a, b string) {
			if d := math.Abs(served[a] - served[b]); d > 2/float64(weights[a])+2/float64(weights[b]) {
				t.Fatalf("seed %d: weights %v, served for its weight %v", seed, weights, served)
			}
		}
		for range 60 {
			var ids []string
			for range r.Intn(30) {
				ids = append(ids, offer("fickle"))
			}
			for range r.Intn(4) {
				run()
				inStep("a", "b")
			}
			r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			for _, id := range ids {
				q.Abandon(id, start)
			}
		}
		for range 600 {
			offer("fickle")
		}
		clear(served)
		for range 300 {
			run()
			inStep("a", "b")
			inStep("a", "fickle")
			inStep("b", "fickle")
		}
	}
}
