package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// clientCounts are the loads of the proof.
var clientCounts = []int{1, 16, 64}

// client is what a turn drives: one call after the other, each checked.
type client interface {
	call() error
	limit(time.Duration)
}

// path is one way to the backend and its clients.
type path struct {
	name    string
	clients []client
	pids    []int
}

// turn is what one path did in one turn.
type turn struct {
	rate     float64 // calls a second
	p50, p99 time.Duration
	cpu      time.Duration // of the hop, a call; zero: not known
}

// errStoodStill is a turn that says nothing, because the machine had no time
// for anybody.
var errStoodStill = errors.New("the machine stood still")

// driveAgain is how often a turn is driven anew when the machine stood still.
const driveAgain = 3

// drive runs the clients side by side. The first fifth of the time warms up
// and is not counted.
func drive(p path, n int, length time.Duration) (turn, error) {
	clients := p.clients[:n]
	for _, c := range clients {
		c.limit(length + callLimit)
	}
	begin := time.Now()
	warm, end := begin.Add(length/5), begin.Add(length+length/5)
	times := make([][]time.Duration, n)
	slowest := make([]time.Duration, n) // of all calls, whenever they ended
	errs := make([]error, n)
	var failed atomic.Bool
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for sent := time.Now(); sent.Before(end) && !failed.Load(); {
				if errs[i] = c.call(); errs[i] != nil {
					failed.Store(true)
					return
				}
				now := time.Now()
				slowest[i] = max(slowest[i], now.Sub(sent))
				if now.After(warm) && now.Before(end) {
					times[i] = append(times[i], now.Sub(sent))
				}
				sent = now
			}
		})
	}
	var late time.Duration
	all.Go(func() { late = lateness(end) })
	used := cpuBetween(p.pids, warm, end)
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return turn{}, fmt.Errorf("%s with %d clients: %w", p.name, n, err)
	}
	sorted := slices.Concat(times...)
	if len(sorted) == 0 {
		// Every call was answered, or there were an error.
		err := fmt.Errorf("%s with %d clients: no call ended in the %s of the turn that count; the slowest took %s, and a timer of this process was late by %s",
			p.name, n, length, slices.Max(slowest).Round(time.Millisecond), late.Round(time.Millisecond))
		if late > length/2 {
			err = fmt.Errorf("%w (%w)", errStoodStill, err)
		}
		return turn{}, err
	}
	slices.Sort(sorted)
	t := turn{rate: float64(len(sorted)) / (length).Seconds(), p50: sorted[len(sorted)/2], p99: sorted[len(sorted)*99/100]}
	if used > 0 {
		t.cpu = used / time.Duration(len(sorted))
	}
	return t, nil
}

// lateness gives by how much a short timer of this process was late at most,
// until end.
func lateness(end time.Time) (worst time.Duration) {
	const pulse = 10 * time.Millisecond
	tick := time.NewTimer(pulse)
	defer tick.Stop()
	for began := time.Now(); began.Before(end); {
		<-tick.C
		now := time.Now()
		worst = max(worst, now.Sub(began)-pulse)
		began = now
		tick.Reset(pulse)
	}
	return worst
}

// compare drives all paths in turns, each round in another order: what ran just
// before leaves caches, clocks and disks in its state.
func compare(ctx context.Context, paths []path, n, rounds int, length time.Duration) (map[string][]turn, error) {
	got := map[string][]turn{}
	for range rounds {
		for _, i := range rand.Perm(len(paths)) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			p := paths[i]
			t, err := drive(p, n, length)
			for tries := 0; errors.Is(err, errStoodStill) && tries < driveAgain; tries++ {
				t, err = drive(p, n, length)
			}
			if err != nil {
				return nil, err
			}
			got[p.name] = append(got[p.name], t)
		}
	}
	return got, nil
}

// result is a path's medians at one number of clients.
type result struct {
	path    string
	clients int
	turn
	of map[string]spread // ratio of the rate to another path's, within a round
	// added is how much longer the median call takes than straight to the
	// backend, within a round.
	added spread
}

// spread is a median with its quartiles.
type spread struct{ low, median, high float64 }

func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return spread{}
	}
	return spread{low: v[len(v)/4], median: v[len(v)/2], high: v[len(v)-1-len(v)/4]}
}

// summarise turns the turns into medians and ratios.
func summarise(got map[string][]turn, paths []path, n int) []result {
	var out []result
	direct := got[nameDirect]
	for _, p := range paths {
		mine := got[p.name]
		r := result{path: p.name, clients: n, of: map[string]spread{}}
		r.rate = medianOf(mine, func(t turn) float64 { return t.rate })
		r.p50 = time.Duration(medianOf(mine, func(t turn) float64 { return float64(t.p50) }))
		r.p99 = time.Duration(medianOf(mine, func(t turn) float64 { return float64(t.p99) }))
		r.cpu = time.Duration(medianOf(mine, func(t turn) float64 { return float64(t.cpu) }))
		for name, others := range got {
			var ratios []float64
			for i := range mine {
				ratios = append(ratios, mine[i].rate/others[i].rate)
			}
			r.of[name] = spreadOf(ratios)
		}
		var added []float64
		for i := range mine {
			added = append(added, float64(mine[i].p50-direct[i].p50))
		}
		r.added = spreadOf(added)
		out = append(out, r)
	}
	return out
}

func medianOf(turns []turn, value func(turn) float64) float64 {
	var v []float64
	for _, t := range turns {
		v = append(v, value(t))
	}
	return spreadOf(v).median
}
