package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	core "berth/broker"
	"berth/journal"
)

// acceptCallers are the loads of the proof.
var acceptCallers = []int{1, 16, 128}

// acceptResult compares accepted jobs with writes to the bare log.
type acceptResult struct {
	callers   int
	accepts   spread // a second
	log       spread // records a second
	ratio     spread // within a round
	meanGroup float64
}

// sample is a record of about a kilobyte, as a call to a backend leaves one.
func sample(n int64, now time.Time) core.Job {
	return core.Job{
		ID:        fmt.Sprintf("job_%08x_%011d", now.UnixMilli()&0xffffffff, n),
		Operation: "backend__long_running_verb", Status: core.JobAccepted, SubmittedAt: now,
		Tenant: "default", User: "operator", Session: "0123456789abcdef0123456789abcdef", CallID: "call_0123456789",
		Backend: "backend", Refusal: json.RawMessage(`{"pad":"` + strings.Repeat("abcdefgh", 80) + `"}`),
	}
}

// measureAccepts compares the journal with an append+fdatasync loop. Both make
// the same record and encode it.
func measureAccepts(ctx context.Context, l *lab, r *report) error {
	for _, n := range acceptCallers {
		a, err := acceptsOf(ctx, l, n)
		if err != nil {
			return err
		}
		r.accepts = append(r.accepts, a)
	}
	return nil
}

func acceptsOf(ctx context.Context, l *lab, callers int) (a acceptResult, err error) {
	j, err := journal.Open(filepath.Join(l.dir, fmt.Sprintf("journal-%d.db", callers)), journal.Options{})
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	base, err := openLog(filepath.Join(l.dir, fmt.Sprintf("log-%d", callers)))
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, base.close()) }()
	var number atomic.Int64
	accept := func() error {
		_, _, err := j.CreateJob(ctx, sample(number.Add(1), time.Now()))
		return err
	}
	write := func() error { return base.write(number.Add(1)) }
	var accepts, writes, ratios []float64
	// A disk that others use changes faster than processors do: shorter turns,
	// and more of them.
	length := l.opts.turn / 2
	for round := range 2*l.opts.rounds + 1 {
		inJournal, err := rateOf(callers, length, func(int) error { return accept() })
		if err != nil {
			return a, err
		}
		inLog, err := rateOf(callers, length, func(int) error { return write() })
		if err != nil {
			return a, err
		}
		if round == 0 {
			continue // it warms up
		}
		accepts, writes, ratios = append(accepts, inJournal), append(writes, inLog), append(ratios, inJournal/inLog)
	}
	a = acceptResult{callers: callers, accepts: spreadOf(accepts), log: spreadOf(writes), ratio: spreadOf(ratios)}
	if s, err := j.Stats(); err == nil {
		a.meanGroup = s.MeanGroup
	}
	return a, nil
}

// rateOf gives how often a second fn was done by so many callers.
func rateOf(callers int, length time.Duration, fn func(caller int) error) (float64, error) {
	begin := time.Now()
	end := begin.Add(length)
	errs := make([]error, callers)
	var done atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for time.Now().Before(end) {
				if errs[i] = fn(i); errs[i] != nil {
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds(), errors.Join(errs...)
}

// measureJobs is the same over HTTP: each call of a long verb is accepted by a
// whole broker, which runs it too and writes twice more for it.
func measureJobs(ctx context.Context, l *lab, r *report) error {
	echo, err := l.echo(ctx)
	if err != nil {
		return err
	}
	b, err := l.berth(ctx, "jobs", config{httpBackend: echo.line, long: true})
	if err != nil {
		return err
	}
	for _, n := range acceptCallers {
		a, err := jobsOf(ctx, l, b, n)
		if err != nil {
			return err
		}
		r.jobs = append(r.jobs, a)
	}
	return l.stopAll()
}

func jobsOf(ctx context.Context, l *lab, b *broker, callers int) (a acceptResult, err error) {
	clients, err := dialAll(ctx, b.target(nameBerth, "/mcp", "echo__echo"), callers)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, closeAll(clients)) }()
	for _, c := range clients {
		c.check = c.checkHandle
	}
	base, err := openLog(filepath.Join(l.dir, fmt.Sprintf("jobs-log-%d", callers)))
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, base.close()) }()
	var number atomic.Int64
	var accepts, writes, ratios []float64
	for range l.opts.rounds/2 | 1 {
		for _, c := range clients {
			c.limit(l.opts.turn + callLimit)
		}
		accepted, err := rateOf(callers, l.opts.turn, func(i int) error { return clients[i].call() })
		if err != nil {
			return a, err
		}
		// What was accepted runs on; the log must not share the disk with it.
		if err := b.await(ctx, `berth_backend_in_flight{backend="echo"}`, 0, `berth_backend_queued{backend="echo",lane="jobs"}`); err != nil {
			return a, err
		}
		inLog, err := rateOf(callers, l.opts.turn, func(int) error { return base.write(number.Add(1)) })
		if err != nil {
			return a, err
		}
		accepts, writes, ratios = append(accepts, accepted), append(writes, inLog), append(ratios, accepted/inLog)
	}
	return acceptResult{callers: callers, accepts: spreadOf(accepts), log: spreadOf(writes), ratio: spreadOf(ratios)}, nil
}

// checkHandle makes sure that a call was accepted.
func (c *httpClient) checkHandle(body []byte) error {
	text := string(body)
	if !strings.Contains(text, string(c.script.wantID)) || !strings.Contains(text, `"JobId":"job_`) || !strings.Contains(text, `"Status":"Accepted"`) {
		return fmt.Errorf("no handle for %s: %.300s", c.script.wantID, text)
	}
	return nil
}
