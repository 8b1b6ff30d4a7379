package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/journal"
	"berth/transport/install"
	"berth/transport/rest"
	"berth/transport/statedir"
)

// This file looks at the running broker, and where none runs at its journal.

func checkBroker(ctx context.Context, p *patient) ([]finding, bool) {
	switch err := p.discover; {
	case errors.Is(err, statedir.ErrStale):
		return one(severeWarning, sentence(err), p.serveCommand())
	case errors.Is(err, statedir.ErrNotRunning):
		return one(severeWarning, "No broker runs on "+p.dir+".", p.serveCommand())
	case errors.Is(err, statedir.ErrDamaged), errors.Is(err, statedir.ErrUnsafe):
		return one(severeError, sentence(err), "ls -l "+quoteWord(p.dir))
	case err != nil:
		return unknownBecause(err, "")
	}
	if _, err := p.app.get(ctx, "/api/v1/status", nil); err != nil {
		return one(severeError, "A broker should listen on "+p.addr+", and does not answer as one: "+asFailure(err).message, p.berthCommand("backends"))
	}
	return nil, true
}

// answer reads an answer of the running broker.
func answer[T any](ctx context.Context, p *patient, path string, query url.Values) (v T, err error) {
	raw, err := p.app.get(ctx, path, query)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	return v, err
}

func checkVersion(ctx context.Context, p *patient) ([]finding, bool) {
	if !p.runs() {
		return nil, false
	}
	status, err := answer[rest.Status](ctx, p, "/api/v1/status", nil)
	if err != nil {
		return unknownBecause(err, "")
	}
	if own := buildVersion(); status.Version != own {
		return one(severeWarning, fmt.Sprintf("The broker that runs is of version %s, this program of %s.", status.Version, own), p.serveCommand()+"   # after the one that runs was stopped")
	}
	return nil, true
}

func checkBackends(ctx context.Context, p *patient) (found []finding, applies bool) {
	if !p.runs() {
		return nil, false
	}
	list, err := answer[rest.Page[rest.Backend]](ctx, p, "/api/v1/backends", nil)
	if err != nil {
		return unknownBecause(err, p.berthCommand("backends"))
	}
	for _, b := range list.Objects {
		cause := "the cause is not known"
		if b.LastError != nil && *b.LastError != "" {
			cause = *b.LastError
		}
		switch {
		case b.State == actors.StateBackoff:
			found = append(found, finding{Severity: severeError, Sentence: "The backend " + b.Name + " is down: " + cause, Command: p.berthCommand("backends")})
		case b.State == actors.StateRefused:
			found = append(found, finding{Severity: severeError, Sentence: "The backend " + b.Name + " refuses Berth's credentials: " + cause, Command: p.berthCommand("reload") + "   # after its env or headers were corrected"})
		case b.FailedStarts > 0:
			found = append(found, finding{Severity: severeError, Sentence: "The backend " + b.Name + " could not be started when it was last needed: " + cause, Command: p.berthCommand("backends")})
		}
	}
	return found, true
}

// readJournal gives what the file says when no broker runs.
func readJournal[T any](p *patient, read func(*journal.Journal) (T, error)) (v T, err error) {
	j, err := journal.OpenReadOnly(filepath.Join(p.dir, journalFile))
	if err != nil {
		return v, err
	}
	v, err = read(j)
	return v, errors.Join(err, j.Close())
}

func (p *patient) hasJournal() bool {
	_, err := os.Stat(filepath.Join(p.dir, journalFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// shownJobs bounds how many old jobs are named.
const shownJobs = 5

type unfinished struct {
	id, verb string
	since    time.Time
}

func (p *patient) unfinishedJobs(ctx context.Context) (jobs []unfinished, err error) {
	if !p.runs() {
		page, err := readJournal(p, func(j *journal.Journal) (broker.JobPage, error) { return j.Jobs(broker.JobFilter{Unfinished: true}) })
		for _, j := range page.Jobs {
			jobs = append(jobs, unfinished{j.ID, j.Operation, j.SubmittedAt})
		}
		return jobs, err
	}
	for _, status := range []broker.JobStatus{broker.JobAccepted, broker.JobRunning} {
		page, err := answer[rest.Page[rest.Job]](ctx, p, "/api/v1/jobs", url.Values{"status": {string(status)}, "pageSize": {"500"}})
		if err != nil {
			return nil, err
		}
		for _, j := range page.Objects {
			since, err := time.Parse(time.RFC3339, j.SubmittedAtUTC)
			if err != nil {
				return nil, fmt.Errorf("the time of %s: %w", j.JobID, err)
			}
			jobs = append(jobs, unfinished{j.JobID, j.Operation, since})
		}
	}
	return jobs, nil
}

func checkJobs(ctx context.Context, p *patient) (found []finding, applies bool) {
	if !p.hasJournal() {
		return nil, false
	}
	jobs, err := p.unfinishedJobs(ctx)
	if err != nil {
		return unknownBecause(err, p.berthCommand("jobs", "list"))
	}
	slices.SortFunc(jobs, func(a, b unfinished) int { return a.since.Compare(b.since) })
	old := 0
	for _, j := range jobs {
		since := p.now.Sub(j.since)
		if since < p.o.jobAge {
			break
		}
		if old++; old <= shownJobs {
			found = append(found, finding{Severity: severeWarning, Sentence: fmt.Sprintf("The job %s (%s) was submitted %s ago and has not ended.", j.id, j.verb, age(since)),
				Command: p.berthCommand("jobs", "explain", j.id)})
		}
	}
	if old > shownJobs {
		found = append(found, finding{Severity: severeWarning, Sentence: fmt.Sprintf("%d more jobs are as old.", old-shownJobs), Command: p.berthCommand("jobs", "list", "--status", "Running")})
	}
	return found, true
}

// A journal over largeJournal is looked at for lookWithin, and of a running broker
// not at its pages, for which writes would wait.
const (
	largeJournal = 64 << 20
	lookWithin   = 10 * time.Second
)

func checkJournal(ctx context.Context, p *patient) ([]finding, bool) {
	if !p.hasJournal() {
		return nil, false
	}
	command := p.berthCommand("journal", "check")
	info, err := os.Stat(filepath.Join(p.dir, journalFile))
	if err != nil {
		return unknownBecause(err, command)
	}
	look, within, query := journalFacts.Check, ctx, url.Values(nil)
	if info.Size() > largeJournal {
		limited, cancel := context.WithTimeout(ctx, p.lookWithin)
		defer cancel()
		look, within, query = journalFacts.LookAt, limited, url.Values{"withinSeconds": {strconv.Itoa(max(1, int(p.lookWithin/time.Second)))}}
	}
	var report journalCheckReport
	if p.runs() {
		report, err = answer[journalCheckReport](ctx, p, "/api/v1/journal/check", query)
	} else {
		report, err = readJournal(p, func(j *journal.Journal) (journalCheckReport, error) {
			v, err := look(journalFacts{j}, within)
			report, _ := v.(journalCheckReport)
			return report, err
		})
	}
	switch {
	case errors.Is(err, journal.ErrDamaged):
		return one(severeError, "The journal cannot be opened: "+sentence(err), p.berthCommand("restore", "FILE")+"   # after journal.db and results were moved away")
	case err != nil:
		return unknownBecause(err, command)
	}
	found := journalFindings(report.Problems, command)
	if len(report.Unseen) > 0 {
		found = append(found, finding{Severity: severeUnknown, Sentence: fmt.Sprintf("The journal has %d MiB, and not all of it is read in passing. Not looked at: %s.",
			info.Size()>>20, strings.Join(report.Unseen, ", ")), Command: command})
	}
	return found, true
}

// journalFindings tells unreadable records from other damage.
func journalFindings(problems []journal.Problem, command string) (found []finding) {
	unreadable, other := 0, []journal.Problem{}
	for _, problem := range problems {
		if problem.Kind == "record" {
			unreadable++
		} else {
			other = append(other, problem)
		}
	}
	if unreadable > 0 {
		found = append(found, finding{Severity: severeError, Sentence: fmt.Sprintf("Records of the journal that cannot be read: %d.", unreadable), Command: command})
	}
	if len(other) > 0 {
		found = append(found, finding{Severity: severeError, Sentence: fmt.Sprintf("The journal has %d other problems, the first: %s", len(other), other[0]), Command: command})
	}
	return found
}

// checkClients looks at the registrations of this user and of this directory.
func checkClients(_ context.Context, p *patient) (found []finding, applies bool) {
	options, err := p.app.installOptions(installOptions{via: install.ViaStdio, scope: install.ScopeUser})
	if err != nil {
		return unknownBecause(err, "")
	}
	for _, scope := range []string{install.ScopeUser, install.ScopeProject} {
		options.Scope = scope
		for _, client := range install.Clients() {
			again := p.berthCommand("install", client, "--write")
			if scope == install.ScopeProject {
				again += " --scope project"
			}
			e, err := install.Find(client, options)
			switch {
			case err != nil:
				found = append(found, finding{Severity: severeUnknown, Sentence: "The registration in " + client + " could not be read: " + sentence(err), Command: ""})
			case e != nil:
				applies = true
				if e.URL != "" && !p.runs() {
					found = append(found, finding{Severity: severeUnknown, Sentence: client + " is registered in " + e.File + " with an address, and no broker runs to compare it with.", Command: p.serveCommand()})
				} else if wrong := p.wrongEntry(*e); wrong != "" {
					if e.URL != "" {
						again += " --via http"
					}
					found = append(found, finding{Severity: severeWarning, Sentence: client + " is registered in " + e.File + " " + wrong, Command: again})
				}
			}
		}
	}
	return found, applies || len(found) > 0
}

// wrongEntry says what is wrong with a registration, or "".
func (p *patient) wrongEntry(e install.Entry) string {
	if e.URL != "" {
		u, err := url.Parse(e.URL)
		switch {
		case err != nil || u.Host == "":
			return "with an address that is none."
		case p.runs() && u.Host != reachable(p.addr):
			return fmt.Sprintf("for the address %s, and the broker listens on %s.", u.Host, reachable(p.addr))
		}
		return ""
	}
	if len(e.Command) == 0 {
		return "without a command and without an address."
	}
	program, err := exec.LookPath(e.Command[0])
	if err != nil {
		return "with the program " + e.Command[0] + ", which cannot be started."
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	theirs, err1 := os.Stat(program)
	ours, err2 := os.Stat(self)
	if err1 == nil && err2 == nil && !os.SameFile(theirs, ours) {
		return fmt.Sprintf("with another program (%s) than this one (%s).", program, self)
	}
	i := slices.Index(e.Command, "--state-dir")
	named := ""
	if i >= 0 && i+1 < len(e.Command) {
		named = e.Command[i+1]
	}
	if named != "" && filepath.Clean(named) != filepath.Clean(p.dir) {
		return fmt.Sprintf("for the state directory %s, not for %s.", named, p.dir)
	}
	return ""
}
