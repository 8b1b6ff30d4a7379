package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/dispatch"
	"berth/journal"
	"berth/transport/mcpserver"
	"berth/transport/metrics"
	"berth/transport/tracing"
)

// countedJobs counts what becomes durable of jobs.
type countedJobs struct {
	*journal.Journal
	metrics *metrics.Metrics
	pruned  *atomic.Int64 // since the start, for the restart report
}

var _ actors.Journal = countedJobs{}

// CreateJob counts a record that is new.
func (c countedJobs) CreateJob(ctx context.Context, job broker.Job) (broker.Job, bool, error) {
	stored, created, err := c.Journal.CreateJob(ctx, job)
	if err == nil && created {
		c.metrics.JobAccepted()
	}
	return stored, created, err
}

// Prune counts what it removed.
func (c countedJobs) Prune(ctx context.Context, now time.Time, limit int) (int, error) {
	n, err := c.Journal.Prune(ctx, now, limit)
	c.pruned.Add(int64(n))
	return n, err
}

// ChangeJob counts an end.
func (c countedJobs) ChangeJob(ctx context.Context, id string, change broker.JobChange) (broker.Job, error) {
	stored, err := c.Journal.ChangeJob(ctx, id, change)
	if err == nil && stored.Status.Final() {
		c.metrics.JobsEnded(1, stored.Status, stored.Reason)
	}
	return stored, err
}

// sources are who is asked at a scrape.
func (b *running) sources() metrics.Sources {
	s := metrics.Sources{
		Actors: b.system,
		Journal: func() (metrics.Journal, error) {
			f, err := b.journal.Figures()
			return metrics.Journal{FileBytes: f.FileBytes, Commits: f.Commits, Writes: f.Writes, Waiting: f.Waiting}, err
		},
		Unfinished: func(status broker.JobStatus) (int, error) {
			page, err := b.journal.Jobs(broker.JobFilter{Status: status, Limit: 1})
			return page.Total, err
		},
		Missions: func(s dispatch.MissionStatus) (int, error) {
			return b.journal.CountRecords(broker.RecordQuery{Kind: dispatch.KindMission, Key: dispatch.InState(string(s))})
		},
		Captains: func(s dispatch.CaptainState) (int, error) {
			return b.journal.CountRecords(broker.RecordQuery{Kind: dispatch.KindCaptain, Key: dispatch.InState(string(s))})
		},
	}
	if b.tracer != nil {
		s.Spans = func() (uint64, uint64, uint64) {
			got := b.tracer.Stats()
			return got.Exported, got.Dropped, got.Failed
		}
	}
	return s
}

// lastSpans is how long a stop waits for a collector.
const lastSpans = 2 * time.Second

// startTracing begins to record what becomes of calls, if there is somebody to
// send it to.
func (b *running) startTracing() error {
	c := b.cfg.Broker.Tracing
	if c.Endpoint.Empty() {
		return nil
	}
	var err error
	b.tracer, err = tracing.New(tracing.Options{Endpoint: c.Endpoint.Reveal(), Headers: c.Headers.Reveal(), Sample: c.Sample,
		Version: buildVersion(), RuntimeID: b.runtimeID, Logger: b.log})
	if err != nil {
		return fmt.Errorf("start tracing: %w", err)
	}
	return nil
}

// traces is who records calls; nil is not a nil *tracing.Tracer.
func (b *running) traces() mcpserver.Tracer {
	if b.tracer == nil {
		return nil
	}
	return b.tracer
}
