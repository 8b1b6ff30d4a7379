//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/cmd/internal/brokerproc"
)

// start brings up the web server and the broker.
func (d *demo) start() {
	d.step("Start the HTTP server, then the broker with both servers in its configuration")
	var err error
	d.web, err = brokerproc.Start(d.ctx, exec.Command(filepath.Join(d.dir, "berth-fixture"), "http"))
	d.must(err, "start the HTTP server")
	d.must(d.newWitness("family-1"), "make the witness")
	d.must(d.writeConfig(), "write the configuration")
	began := time.Now()
	d.must(d.serve("127.0.0.1:0"), "start the broker")
	d.show("berth serve --config mcp.json", "berth listens on http://"+d.broker.Addr())
	d.check(true, "the broker listens after %s; no backend was waited for", ms(time.Since(began)))
	info, err := os.Stat(filepath.Join(d.state, "api-token"))
	d.must(err, "look at the token")
	d.check(info.Mode().Perm() == 0o600, "its token is a file of mode 0600")
}

func (d *demo) token() string {
	token, err := os.ReadFile(filepath.Join(d.state, "api-token"))
	d.must(err, "read the token")
	return strings.TrimSpace(string(token))
}

// connect opens the three sessions.
func (d *demo) connect() {
	d.step("Three sessions at once: ann and bob over HTTP, cleo over `berth stdio`")
	url, token := "http://"+d.broker.Addr()+"/mcp/full", d.token()
	var err error
	d.ann, err = dial(d.ctx, "ann", url, token)
	d.must(err, "connect")
	d.bob, err = dial(d.ctx, "bob", url, token)
	d.must(err, "connect")
	d.cleo, err = pipe(d.ctx, "cleo", d.berth, d.state)
	d.must(err, "connect")
	d.sessionIDs = map[string]string{"ann": d.ann.session.ID(), "bob": d.bob.session.ID()}
	_, err = dial(d.ctx, "mallory", url, "not-the-token")
	d.check(err != nil, "a fourth with a wrong token is refused")

	var names []string
	both := false
	for range 4 { // a list waits 5 s at most for a backend that was never seen
		names, err = d.ann.tools(d.ctx)
		d.must(err, "list the tools")
		both = slices.Contains(names, "files__append") && slices.Contains(names, "web__append") && slices.Contains(names, "job_status")
		if both {
			break
		}
	}
	d.check(both, "ann sees %d tools: files__..., web__... and job_status", len(names))
	over, err := d.cleo.tools(d.ctx)
	d.must(err, "list the tools")
	d.check(slices.Equal(names, over), "cleo sees the same ones through the bridge")
	d.command(0, "sessions")
}

// answers calls both servers from all sessions.
func (d *demo) answers() {
	d.step("Each session calls both servers")
	for _, c := range []*client{d.ann, d.bob, d.cleo} {
		var took []string
		for _, tool := range []string{"files__add", "web__add"} {
			a, err := c.call(d.ctx, tool, map[string]any{"a": 40, "b": 2}, "")
			d.must(err, "call")
			if a.Text != "42" {
				panic(failure(fmt.Sprintf("%s got %q from %s, which must be 42", c.name, a.Text, tool)))
			}
			took = append(took, fmt.Sprintf("%s in %.1f ms", tool, float64(a.Took.Microseconds())/1000))
		}
		d.check(true, "%s got 42 from %s", c.name, strings.Join(took, " and from "))
	}
}

const (
	floodCalls   = 200
	floodSeconds = 0.2
)

// flood has one session flood a server and another one call it once.
func (d *demo) flood() {
	d.step("ann floods: %d calls of %g s at once on `files`, which has 4 seats; bob makes one call", floodCalls, floodSeconds)
	type outcome struct {
		answer
		err error
	}
	results := make(chan outcome, floodCalls)
	var calls sync.WaitGroup
	for range floodCalls {
		calls.Go(func() {
			a, err := d.ann.call(d.ctx, "files__slow", map[string]any{"seconds": floodSeconds}, "")
			results <- outcome{a, err}
		})
	}
	var outcomes []outcome
	for range floodCalls { // until the flood is at its height: one of its calls was shed
		o := <-results
		outcomes = append(outcomes, o)
		if o.IsError {
			break
		}
	}
	began := time.Now()
	single, err := d.bob.call(d.ctx, "files__add", map[string]any{"a": 1, "b": 1}, "")
	bobTook := time.Since(began)
	still := floodCalls - len(outcomes) - len(results)
	calls.Wait()
	d.must(err, "bob's call")
	close(results)
	for o := range results {
		outcomes = append(outcomes, o)
	}

	var waits []int64
	shed, example := 0, answer{}
	for _, o := range outcomes {
		d.must(o.err, "a call of the flood")
		switch {
		case o.IsError && o.Code == "overloaded":
			shed++
			example = o.answer
		case o.IsError:
			panic(failure("a call of the flood answers " + o.Text))
		case o.QueueMS != nil:
			waits = append(waits, *o.QueueMS)
		}
	}
	slices.Sort(waits)
	if len(waits) == 0 || single.QueueMS == nil {
		panic(failure("no wait was measured"))
	}
	median, longest := waits[len(waits)/2], waits[len(waits)-1]
	d.say("queue wait     ann: median %d ms, longest %d ms      bob: %d ms", median, longest, *single.QueueMS)
	d.check(single.Text == "2" && still > 0, "bob was answered in %s while %d of ann's calls still waited", ms(bobTook), still)
	d.check(*single.QueueMS < median, "bob waited for one seat, not for ann's queue")
	d.check(shed+len(waits) == floodCalls, "every call of the flood was answered: %d with a result, %d shed", len(waits), shed)
	d.check(shed > 0 && example.RetryAfterMS > 0, "a shed call says so, and when to come back:")
	d.say("   isError, %s", example.Text)
}

// promote lets a call outlast its limit.
func (d *demo) promote() {
	d.step("A slow call becomes a job: bob calls web__work for 2.5 s, where promote_after is 1 s")
	a, err := d.bob.call(d.ctx, "web__work", map[string]any{"seconds": 2.5}, "")
	d.must(err, "call")
	d.check(a.JobID != "" && a.Status == "Running" && !a.IsError, "after %s bob has a handle: %s, %s", ms(a.Took), a.JobID, a.Status)
	d.promoted = a.JobID
	began := time.Now()
	end, polls, err := d.bob.follow(d.ctx, a.JobID)
	d.must(err, "follow the job")
	d.check(end.Status == "Succeeded" && end.resultText() == "waited 2.5 s",
		"job_status with waitSeconds gave its result %s later, in %d request(s): %q", ms(time.Since(began)), polls, end.resultText())
}

// keyed repeats a call with an idempotency key.
func (d *demo) keyed() {
	d.step("A call with an idempotency key runs once: cleo appends a line twice with one key")
	args := map[string]any{"file": d.notes, "line": "written by cleo"}
	first, err := d.cleo.call(d.ctx, "files__append", args, "cleo-1")
	d.must(err, "call")
	end, _, err := d.cleo.follow(d.ctx, first.JobID)
	d.must(err, "follow the job")
	d.check(end.Status == "Succeeded", "the first call is job %s, %s", first.JobID, end.Status)
	again, err := d.cleo.call(d.ctx, "files__append", args, "cleo-1")
	d.must(err, "call")
	d.check(again.Replayed && again.JobID == first.JobID, "the second call is the same job, Replayed")
	d.check(d.lines("written by cleo") == 1, "the file has the line once")
	other, err := d.cleo.call(d.ctx, "files__append", map[string]any{"file": d.notes, "line": "something else"}, "cleo-1")
	d.must(err, "call")
	d.check(other.Code == "idempotency_conflict" && d.lines("something else") == 0, "the key with other arguments is refused: %s", other.Code)
	d.keyedJob = first.JobID
}

// operator shows what an operator sees.
func (d *demo) operator() {
	d.step("What the operator sees")
	d.command(0, "backends")
	d.command(0, "jobs", "list")
	d.command(0, "journal", "stats")
}

// beforeTheKill starts what will be running.
func (d *demo) beforeTheKill() {
	d.step("Two long jobs run, one on each server, and the stdio server leaves a daemon behind")
	a, err := d.ann.call(d.ctx, "files__append", map[string]any{"file": d.notes, "line": "written by ann", "seconds": 600}, "ann-1")
	d.must(err, "call")
	d.running = a.JobID
	w, err := d.bob.call(d.ctx, "web__work", map[string]any{"seconds": 600}, "bob-1")
	d.must(err, "call")
	d.webJob = w.JobID
	for _, job := range []string{d.running, d.webJob} {
		d.awaitRunning(job)
	}
	for limit := time.Now().Add(20 * time.Second); d.lines("written by ann") == 0 && time.Now().Before(limit); {
		<-time.After(20 * time.Millisecond)
	}
	d.check(d.lines("written by ann") == 1, "ann's job is at work: its line is in the file, its answer is 10 minutes away")
	if runtime.GOOS == "linux" {
		s, err := d.bob.call(d.ctx, "files__spawn", map[string]any{}, "")
		d.must(err, "call")
		d.check(!s.IsError, "the stdio server double-forked, did setsid and %s", s.Text)
	}
}

// awaitRunning waits until a job is past Accepted.
func (d *demo) awaitRunning(job string) {
	for _, wait := range []int{0, 20} { // the wait ends with the first change
		a, err := d.bob.call(d.ctx, "job_status", map[string]any{"jobId": job, "waitSeconds": wait}, "")
		d.must(err, "ask for the job")
		if a.Status != "Accepted" {
			d.check(a.Status == "Running", "job %s is %s", job, a.Status)
			return
		}
	}
	panic(failure("job " + job + " does not start"))
}
