package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/journal"
	"berth/transport/dashboard"
	"berth/transport/guard"
	"berth/transport/httpguard"
	"berth/transport/rest"
)

// browser is what a running broker has for browsers.
type browser struct {
	pages   *dashboard.Dashboard
	sampler *dashboard.Sampler
	start   dashboard.Start
	pruned  atomic.Int64
}

// found keeps what a start did to the journal and to processes that were left.
func (b *running) found(r journal.Recovery, at time.Time) {
	s := &b.browser.start
	s.Version, s.RuntimeID, s.At = buildVersion(), b.runtimeID, at
	s.Lost, s.Tracked, s.Unreadable, s.OrphanFiles = r.Lost, r.Tracked, r.Unreadable, r.OrphanFiles
	s.Pruned = b.browser.pruned.Load
}

// swept keeps what a start did to processes that were left.
func (b *running) swept(s guard.Swept) {
	b.browser.start.Killed, b.browser.start.Left = len(s.Killed), len(s.Left)
}

// CountJobs counts jobs by status.
func (b *running) CountJobs() (map[broker.JobStatus]int, error) {
	stats, err := b.journal.Stats()
	return stats.Jobs, err
}

// Backends shows the backends, once there are any.
func (b *running) Backends(ctx context.Context) []actors.BackendView { return b.system.Backends(ctx) }

// observe takes note of a call that ended.
func (b *running) observe(req *actors.Request, reply *actors.Reply) {
	b.metrics.Observe(req, reply)
	b.browser.sampler.Observe(req, reply)
}

// openDashboard makes the pages; api is the operator API.
func (b *running) openDashboard(checks *httpguard.Guard, api http.Handler) error {
	var err error
	b.browser.pages, err = dashboard.New(dashboard.Options{Guard: checks, API: api, Routes: rest.Routes(), Jobs: b.journal, Sampler: b.browser.sampler, Start: b.browser.start, Log: b.log})
	if err != nil {
		return fmt.Errorf("build the dashboard: %w", err)
	}
	return nil
}

// refusedPage answers a browser that was refused with a page.
func (b *running) refusedPage(w http.ResponseWriter, r *http.Request, status int, refusal *broker.Refusal) bool {
	return b.browser.pages != nil && b.browser.pages.Refused(w, r, status, refusal)
}

// sample keeps the last hour for the plots; stop waits for the end of that.
func (b *running) sample() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { b.browser.sampler.Run(ctx) })
	return func() {
		cancel()
		done.Wait()
	}
}
