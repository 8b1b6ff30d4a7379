package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/broker"
	"berth/cmd/internal/brokerproc"
	"berth/journal"
	"berth/transport/rest"
)

// This file is what must hold in the life after the last crash.

// check starts the last broker and asks it about everything that was told.
func (r *round) check() {
	must(r.t, r.start())
	for _, problem := range r.told.problems {
		r.t.Error("before the last crash: ", problem)
	}
	if len(r.told.jobs) == 0 && r.n%len(crashSchedule) != 0 {
		r.t.Error("nothing was acknowledged: this round proves nothing")
	}
	if r.wire == nil {
		r.wire = newWire(r.house, "crash-client")
	}
	listed := r.list()
	r.checkJobs(listed)
	r.checkSession()
	r.checkKeys()
	r.checkPruned()
	if code, out, errOut := r.berth("journal", "check"); code != exitOK {
		r.t.Errorf("journal check: exit %d, %s%s", code, out, errOut)
	}
	must(r.t, r.broker.Stop())
	r.awaitNobody()
	if code, out, errOut := r.berth("journal", "check"); code != exitOK {
		r.t.Errorf("journal check of the file: exit %d, %s%s", code, out, errOut)
	}
	r.t.Logf("%d jobs acknowledged, %d listed, %d keys", len(r.told.jobs), len(listed), len(r.told.keys))
}

// list reads all pages of the job list: each job once.
func (r *round) list() map[string]string {
	status := map[string]string{}
	for page := 1; ; page++ {
		var list rest.JobPage
		must(r.t, r.api("/api/v1/jobs", url.Values{"pageNumber": {strconv.Itoa(page)}, "pageSize": {"200"}}, &list))
		for _, raw := range list.Objects {
			var j rest.Job
			must(r.t, json.Unmarshal(raw, &j))
			if _, twice := status[j.JobID]; twice {
				r.t.Errorf("job %s is listed twice", j.JobID)
			}
			status[j.JobID] = string(j.Status)
		}
		if list.UnreadableJournalRecords > 0 {
			r.t.Errorf("%d records cannot be read", list.UnreadableJournalRecords)
		}
		if len(list.Objects) == 0 || len(status) >= list.TotalRecords {
			return status
		}
	}
}

// checkJobs: every job is final; every acknowledged one is there, and is what
// it was said to be.
func (r *round) checkJobs(listed map[string]string) {
	for id, status := range listed {
		if !final(status) {
			r.t.Errorf("job %s is %s after a restart", id, status)
		}
	}
	for id, known := range r.told.jobs {
		if _, there := listed[id]; !there {
			r.t.Errorf("job %s was acknowledged and is not in the list", id)
		}
		now, err := r.wire.status(r.t.Context(), id, 0)
		if err != nil || now.JobID != id {
			r.t.Errorf("job_status of %s, which was acknowledged: %v, %s", id, err, now.Text)
			continue
		}
		if !final(now.Status) || now.Status != listed[id] {
			r.t.Errorf("job %s is %s by job_status and %s in the list", id, now.Status, listed[id])
		}
		if problem := known.contradicts(now); problem != "" {
			r.t.Errorf("job %s %s", id, problem)
		}
		if now.Status == string(broker.JobLost) && now.Reason != string(broker.CodeJobLostOnRestart) {
			r.t.Errorf("job %s is Lost for the reason %q", id, now.Reason)
		}
	}
}

// checkSession: the session of the first life is still a session, and whose it
// is is known without a new handshake.
func (r *round) checkSession() {
	got, err := r.wire.call(r.t.Context(), "st__add", map[string]any{"a": 1, "b": 2}, "")
	if err != nil || got.Text != "3" {
		r.t.Errorf("a call with the old session id: %v, %s", err, got.Text)
	}
	var list rest.Page[rest.Session]
	must(r.t, r.api("/api/v1/sessions", nil, &list))
	for _, s := range list.Objects {
		if s.ClientName != nil && *s.ClientName == "crash-client" {
			return
		}
	}
	r.t.Errorf("the old session is not among %d sessions", len(list.Objects))
}

// checkKeys repeats every keyed call: no effect happens twice, whatever its
// first caller heard.
func (r *round) checkKeys() {
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*brokerproc.Patience)
	defer cancel()
	for key, k := range r.told.keys {
		first, err := r.wire.call(ctx, k.tool, k.arguments, key)
		if err != nil || first.JobID == "" {
			r.t.Errorf("%s again: %v, %s", key, err, first.Text)
			continue
		}
		if strings.HasPrefix(k.line, "hold-") && !first.Replayed {
			// Its first try was never accepted; this one would not end.
			continue
		}
		end, err := r.wire.follow(ctx, first.JobID)
		if err != nil {
			r.t.Errorf("%s: %v", key, err)
			continue
		}
		n := countLines(r.file, k.line)
		if n > 1 || (end.Status == string(broker.JobSucceeded) && n != 1) {
			r.t.Errorf("%s had its effect %d times; its job is %s", key, n, end.Status)
		}
	}
	text, err := os.ReadFile(r.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Error(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) { // those of calls without a key too
		if seen[line] {
			r.t.Errorf("the effect %q happened twice", line)
		}
		seen[line] = true
	}
}

// checkPruned: old final jobs are gone, all of them.
func (r *round) checkPruned() {
	for _, id := range r.old {
		eventually(r.t, "the old job "+id+" is pruned", func() bool {
			now, err := r.wire.status(r.t.Context(), id, 0)
			must(r.t, err)
			return now.Code == string(broker.CodeJobNotFound)
		})
	}
}

// prepareOldJobs writes jobs that ended long ago into the journal, before any
// broker has seen it.
func (r *round) prepareOldJobs() []string {
	must(r.t, r.start()) // makes the state directory
	must(r.t, r.broker.Stop())
	j, err := journal.Open(filepath.Join(r.state, journalFile), journal.Options{})
	must(r.t, err)
	old := time.Now().Add(-2 * broker.Retention)
	ids := make([]string, 700) // more than one commit of retention
	var writers sync.WaitGroup
	for i := range ids {
		ids[i] = fmt.Sprintf("job_old00000_%011d", i)
		writers.Go(func() { r.prepareOldJob(j, ids[i], i, old) })
	}
	writers.Wait()
	must(r.t, j.Close())
	return ids
}

func (r *round) prepareOldJob(j *journal.Journal, id string, i int, old time.Time) {
	_, _, err := j.CreateJob(r.t.Context(), broker.Job{ID: id, Operation: "st__work", Status: broker.JobAccepted, SubmittedAt: old,
		Tenant: broker.LocalOperator.Tenant, User: broker.LocalOperator.User, Backend: "st", IdempotencyKey: id, Digest: "d"})
	change := broker.JobChange{To: broker.JobFailed, At: old, Message: "it failed long ago"}
	if i%2 == 0 && err == nil {
		_, err = j.ChangeJob(r.t.Context(), id, broker.JobChange{To: broker.JobRunning, At: old})
		change = broker.JobChange{To: broker.JobSucceeded, At: old, Result: json.RawMessage(`{"content":[]}`)}
	}
	if err == nil {
		_, err = j.ChangeJob(r.t.Context(), id, change)
	}
	if err != nil {
		r.t.Errorf("prepare %s: %v", id, err)
	}
}
