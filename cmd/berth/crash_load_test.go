package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"

	"berth/transport/rest"
	"berth/transport/statedir"
)

// This file is what the clients of the crash suite do, and what they remember.

// told is everything that the broker told its clients.
type told struct {
	mu       sync.Mutex
	jobs     map[string]*sighting
	keys     map[string]keyed // every key that was sent, acknowledged or not
	problems []string
	acks     int
	more     chan struct{} // closed and replaced when acks grows
}

// sighting is what is known of a job.
type sighting struct {
	status string // the last one that was seen
	final  *reply // once it was seen to be final
}

// keyed is a call with an idempotency key.
type keyed struct {
	tool, line string
	arguments  map[string]any
}

func newTold() *told {
	return &told{jobs: map[string]*sighting{}, keys: map[string]keyed{}, more: make(chan struct{})}
}

// saw takes an answer that shows a job, and whether it fits what was seen
// before.
func (s *told) saw(r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.jobs[r.JobID]
	if known == nil {
		known = &sighting{}
		s.jobs[r.JobID] = known
		s.acks++
		close(s.more)
		s.more = make(chan struct{})
	}
	if problem := known.contradicts(r); problem != "" {
		s.problems = append(s.problems, r.JobID+": "+problem)
	}
	known.status = r.Status
	if final(r.Status) && known.final == nil {
		known.final = &r
	}
}

func final(status string) bool {
	return status == "Succeeded" || status == "Failed" || status == "Lost"
}

// contradicts compares a view of a job with what was seen before. A handle that
// says Accepted is the state at the time of its writing and contradicts nothing
// but an end.
func (k *sighting) contradicts(r reply) string {
	if k.final == nil {
		return ""
	}
	switch {
	case r.Status != k.final.Status:
		return fmt.Sprintf("was %s and is %s", k.final.Status, r.Status)
	case r.Reason != k.final.Reason || r.FailureMessage != k.final.FailureMessage:
		return fmt.Sprintf("failed with %q %q and now with %q %q", k.final.Reason, k.final.FailureMessage, r.Reason, r.FailureMessage)
	case !sameJSON(r.Result, k.final.Result):
		was, is := k.final.Result, r.Result
		at := 0
		for at < min(len(was), len(is)) && was[at] == is[at] {
			at++
		}
		return fmt.Sprintf("had a result of %d bytes and has one of %d; from byte %d on it was %.200s and is %.200s", len(was), len(is), at, was[at:], is[at:])
	}
	return ""
}

// sameJSON takes null and nothing for the same: the full record writes one, the
// shape of job_status the other.
func sameJSON(a, b json.RawMessage) bool {
	norm := func(raw json.RawMessage) string {
		if string(raw) == "null" {
			return ""
		}
		return string(raw)
	}
	return norm(a) == norm(b)
}

func (s *told) remember(key string, k keyed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[key] = k
}

// load is the clients of one life.
type load struct {
	r      *round
	number int
	ctx    context.Context
	all    sync.WaitGroup
	opened chan struct{} // closed when the opening calls are over
	api    *rest.Client
}

// loops of each client are bounded, so that a fail point that is never passed
// shows as such.
const maxLoops = 400

// startLoad opens the life with two long jobs and sets the clients to work. They
// go on until the broker is gone.
func startLoad(ctx context.Context, r *round, number int) *load {
	l := &load{r: r, number: number, ctx: ctx, opened: make(chan struct{})}
	addr, token, err := statedir.Discover(r.state)
	if err != nil { // it may be gone already
		close(l.opened)
		return l
	}
	l.api = rest.NewClient("http://"+addr, token)
	l.all.Go(func() {
		l.open()
		close(l.opened)
		for _, client := range []func(i int) error{l.keyedStdio, l.keyedHTTP, l.short, l.promoted, l.dropped, l.plain, l.large, l.failing} {
			l.all.Go(func() {
				for i := range maxLoops {
					if client(i) != nil || l.ctx.Err() != nil {
						return // the broker is gone; what a client saw before that counts
					}
				}
			})
		}
	})
	return l
}

// wait waits until all clients have noticed that the broker is gone.
func (l *load) wait() {
	l.all.Wait()
	if l.api != nil {
		l.api.Close()
	}
	l.r.wire.http.CloseIdleConnections()
}

// open submits one job to each backend that does not end by itself, and leaves
// a daemon behind.
func (l *load) open() {
	for _, backend := range []string{"st", "web"} {
		if l.accepted(backend+"__work", map[string]any{"seconds": 600}, "") != nil {
			return
		}
	}
	if runtime.GOOS == "linux" { // elsewhere the guard cannot see it
		if r, err := l.r.wire.call(l.ctx, "st__spawn", map[string]any{"pipes": l.number%2 == 0}, ""); err != nil {
			return
		} else if r.IsError {
			_ = l.oddity("st__spawn", r)
		}
	}
	l.hold()
}

// hold is a keyed call whose effect is there and whose answer never comes.
func (l *load) hold() {
	line := fmt.Sprintf("hold-%d", l.number)
	_ = l.append("st", line, 600)
}

// accepted makes a call that must come back as a job.
func (l *load) accepted(tool string, arguments map[string]any, key string) error {
	r, err := l.r.wire.call(l.ctx, tool, arguments, key)
	if err != nil {
		return err
	}
	if r.JobID == "" {
		return l.oddity(tool, r)
	}
	l.r.told.saw(r)
	return nil
}

// oddity keeps an answer that no healthy broker gives here. A broker that is
// being killed gives none at all.
func (l *load) oddity(tool string, r reply) error {
	l.r.told.mu.Lock()
	defer l.r.told.mu.Unlock()
	l.r.told.problems = append(l.r.told.problems, fmt.Sprintf("%s answered %.300s", tool, r.Text))
	return fmt.Errorf("%s answered oddly", tool)
}

// append makes a keyed call with a visible effect.
func (l *load) append(backend, line string, seconds float64) error {
	arguments := map[string]any{"file": l.r.file, "line": line, "seconds": seconds}
	key := "key-" + line
	l.r.told.remember(key, keyed{tool: backend + "__append", line: line, arguments: arguments})
	return l.accepted(backend+"__append", arguments, key)
}

func (l *load) keyedStdio(i int) error { return l.keyedCall("st", i) }
func (l *load) keyedHTTP(i int) error  { return l.keyedCall("web", i) }

// keyedCall appends, and for every third line sends the same call again, and
// follows every second to its end.
func (l *load) keyedCall(backend string, i int) error {
	line := fmt.Sprintf("%s-%d-%d", backend, l.number, i)
	times := 1
	if i%3 == 0 {
		times = 2
	}
	for range times {
		if err := l.append(backend, line, 0.004); err != nil {
			return err
		}
	}
	if i%2 == 0 {
		return nil
	}
	return l.look(line)
}

// look asks for the job of a line until it has ended.
func (l *load) look(line string) error {
	k := "key-" + line
	l.r.told.mu.Lock()
	call := l.r.told.keys[k]
	l.r.told.mu.Unlock()
	r, err := l.r.wire.call(l.ctx, call.tool, call.arguments, k) // a replay shows it
	if err != nil {
		return err
	}
	l.r.told.saw(r)
	if r, err = l.r.wire.follow(l.ctx, r.JobID); err != nil {
		return err
	}
	l.r.told.saw(r)
	return nil
}

// short is a job that is accepted at once and soon done.
func (l *load) short(i int) error {
	return l.accepted([]string{"st", "web"}[i%2]+"__work", map[string]any{"seconds": 0.003}, "")
}

// promoted is a call that becomes a job because it outlasts its limit.
func (l *load) promoted(i int) error {
	after := 0.005
	raw, err := l.api.Post(l.ctx, "/api/v1/calls", rest.CallRequest{Name: []string{"st", "web"}[i%2] + "__slow",
		Arguments: json.RawMessage(`{"seconds":0.03}`), PromoteAfterSeconds: &after})
	if err != nil {
		return err
	}
	var a rest.CallAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		return err
	}
	if a.Job == nil {
		return nil // its answer was faster
	}
	var r reply
	if err := json.Unmarshal(a.Job, &r); err != nil {
		return err
	}
	l.r.told.saw(r)
	return nil
}

// dropped is a call whose client goes away while it runs: it is recorded as a
// job of which nobody was told.
func (l *load) dropped(i int) error {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	line := fmt.Sprintf("dropped-%d-%d", l.number, i)
	done := make(chan error, 1)
	go func() {
		_, err := l.r.wire.call(ctx, "st__append", map[string]any{"file": l.r.file, "line": line, "seconds": 0.02}, "")
		done <- err
	}()
	// Another answer in between, so that the call has left.
	err := l.plain(i)
	cancel()
	<-done
	return err
}

// plain is a call like any other.
func (l *load) plain(i int) error {
	r, err := l.r.wire.call(l.ctx, "web__add", map[string]any{"a": i, "b": 1}, "")
	if err == nil && r.Text != fmt.Sprint(i+1) {
		return l.oddity("web__add", r)
	}
	return err
}

// large is a job whose result is kept in a file of its own.
func (l *load) large(i int) error {
	r, err := l.r.wire.call(l.ctx, "st__big", map[string]any{"bytes": 1<<20 + 512}, fmt.Sprintf("big-%d-%d", l.number, i))
	if err != nil {
		return err
	}
	if r.JobID == "" {
		return l.oddity("st__big", r)
	}
	l.r.told.saw(r)
	if r, err = l.r.wire.follow(l.ctx, r.JobID); err != nil {
		return err
	}
	l.r.told.saw(r)
	return nil
}

// failing is a job that ends Failed, with its event.
func (l *load) failing(i int) error {
	return l.accepted("web__fail", map[string]any{}, fmt.Sprintf("fail-%d-%d", l.number, i))
}

// awaitAcknowledged waits until n more jobs were acknowledged, or until the
// clients stop.
func (l *load) awaitAcknowledged(n int) {
	l.r.told.mu.Lock()
	goal := l.r.told.acks + n
	l.r.told.mu.Unlock()
	for {
		l.r.told.mu.Lock()
		reached, more := l.r.told.acks >= goal, l.r.told.more
		l.r.told.mu.Unlock()
		if reached {
			return
		}
		select {
		case <-more:
		case <-l.r.broker.Ended():
			l.r.t.Fatalf("the broker ended by itself: %s", l.r.broker.Log())
		}
	}
}

// awaitBusy waits until the effect of a call is there whose answer is not.
func (l *load) awaitBusy() {
	<-l.opened
	eventually(l.r.t, "a call is at work", func() bool { return countLines(l.r.file, fmt.Sprintf("hold-%d", l.number)) > 0 })
}

// countLines counts how often a line stands in a file; a line that is cut off
// counts as well.
func countLines(path, line string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n := 0
	for l := range strings.Lines(string(text)) {
		if strings.TrimSuffix(l, "\n") == line {
			n++
		}
	}
	return n
}
