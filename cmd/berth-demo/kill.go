//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"time"
)

// kill ends the broker with SIGKILL.
func (d *demo) kill() {
	d.step("kill -9 %d: the broker, in the middle of it", d.broker.PID())
	began := time.Now()
	d.broker.Kill()
	d.check(d.broker.Killed(), "the broker is gone")
	err := d.witness.AwaitNobody(20 * time.Second)
	d.must(err, "wait for the broker's descendants")
	d.check(true, "and so is every process below it, guard, server and daemon, %s after the kill", ms(time.Since(began)))
	d.command(3, "jobs", "list")
	a, err := d.cleo.call(d.ctx, "files__add", map[string]any{"a": 1, "b": 1}, "")
	d.check(err != nil && strings.Contains(err.Error(), "No broker is running"), "cleo's bridge says it plainly: %v", orText(err, a.Text))
}

func orText(err error, text string) string {
	if err != nil {
		return err.Error()
	}
	return text
}

// restart starts it again where it was.
func (d *demo) restart() {
	d.step("Start it again on the same state directory and address")
	d.must(d.newWitness("family-2"), "make the witness")
	d.must(d.writeConfig(), "write the configuration")
	began := time.Now()
	d.must(d.serve(d.broker.Addr()), "start the broker")
	d.check(true, "the dead broker's lock and port file were no hindrance; it listens after %s", ms(time.Since(began)))
	out := d.command(0, "jobs", "list")
	d.check(strings.Contains(out, "Lost") && !strings.Contains(out, "Running") && !strings.Contains(out, "Accepted"), "no job is Running for ever")
}

// goOn shows that sessions and jobs outlived the broker.
func (d *demo) goOn() {
	d.step("The sessions go on where they were")
	for _, c := range []*client{d.ann, d.bob, d.cleo} {
		a, err := c.call(d.ctx, "files__add", map[string]any{"a": 40, "b": 2}, "")
		d.must(err, "call")
		d.check(a.Text == "42", "%s calls and is answered", c.name)
	}
	for _, c := range []*client{d.ann, d.bob} {
		d.check(c.session.ID() == d.sessionIDs[c.name] && c.handshakes.Load() == 1, "%s has its old session id and made no new handshake", c.name)
	}
	out, _ := d.berthSays("sessions", "--json")
	var list struct{ Objects []struct{ ClientName string } }
	d.must(json.Unmarshal([]byte(out), &list), "read the sessions")
	names := map[string]bool{}
	for _, s := range list.Objects {
		names[s.ClientName] = true
	}
	d.check(names["ann"] && names["bob"], "the broker knows from the ids whose they are")

	for _, job := range []string{d.running, d.webJob} {
		lost, _, err := d.ann.follow(d.ctx, job)
		d.must(err, "ask for the job")
		d.check(lost.Status == "Lost" && lost.Reason == "job_lost_on_restart", "%s is %s, %s", job, lost.Status, lost.Reason)
		if job == d.running {
			d.say("   %q", lost.FailureMessage)
		}
	}
	for _, job := range []struct{ id, want string }{{d.promoted, "waited 2.5 s"}, {d.keyedJob, "appended written by cleo"}} {
		kept, _, err := d.bob.follow(d.ctx, job.id)
		d.must(err, "ask for the job")
		d.check(kept.Status == "Succeeded" && kept.resultText() == job.want, "%s is still %s: %q", job.id, kept.Status, kept.resultText())
	}
	again, err := d.ann.call(d.ctx, "files__append", map[string]any{"file": d.notes, "line": "written by ann", "seconds": 600}, "ann-1")
	d.must(err, "call")
	d.check(again.Replayed && again.JobID == d.running && again.Status == "Lost", "ann's key still names the lost job; nothing runs again by itself")
	d.check(d.lines("written by ann") == 1, "the file has ann's line once")
}

// stop checks the journal and ends in order.
func (d *demo) stop() {
	d.step("Check the journal and stop in order")
	out := d.command(0, "journal", "check")
	d.check(strings.Contains(out, "clean"), "the journal is clean")
	began := time.Now()
	d.must(d.broker.Stop(), "stop the broker")
	d.must(d.witness.AwaitNobody(20*time.Second), "wait for the broker's descendants")
	d.check(true, "SIGTERM: exit code 0 after %s, and no process is left", ms(time.Since(began)))
	out, code := d.berthSays("journal", "check")
	d.check(code == 0 && strings.Contains(out, "clean"), "the journal, read from the file: %s", strings.TrimSpace(out))
}
