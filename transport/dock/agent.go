//go:build unix

package dock

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth/actors/missions"
	"berth/broker/dispatch"
	"berth/broker/dispatch/runtime"
	"berth/transport/guard"
)

const (
	// maxRaw is how much of an event is logged that says nothing to a person, in
	// bytes.
	maxRaw = 2 << 10
	// drainWait is how long an output is read after its program and all its
	// descendants are gone: somebody may have been given its end.
	drainWait = 2 * time.Second
)

// agent is a program that runs.
type agent struct {
	// Fixed once made.
	mission string
	last    string // the file with its last message; empty: its stream has it
	hide    redactor
	log     *logFile
	heard   func(missions.Beat)
	stdout  *splitter // has one user
	stderr  *splitter // has one user
	done    chan struct{}

	// Fixed once started.
	process *guard.Process
	started time.Time
	fed     chan struct{} // closed when nothing more goes to its standard input
	read    chan struct{} // closed when nothing more comes of its standard output

	// Shared.
	mu     sync.Mutex
	stream runtime.Stream
	end    missions.End
}

func newAgent(w missions.Work, plan runtime.Plan, hide redactor, log *logFile, heard func(missions.Beat)) *agent {
	a := &agent{mission: w.Mission.ID, last: plan.LastMessage, hide: hide, log: log, heard: heard, done: make(chan struct{}),
		fed: make(chan struct{}), read: make(chan struct{}), stream: runtime.Stream{Runtime: w.Captain.Runtime}}
	a.stdout = &splitter{events: w.Captain.Runtime != dispatch.Custom, redactor: hide, each: a.said}
	a.stderr = &splitter{redactor: hide, each: func(l line) {
		log.write(ofStderr, continued(l))
		if !l.more {
			heard(missions.Beat{})
		}
	}}
	return a
}

// continued is a line as the log has it.
func continued(l line) string {
	if l.on {
		return "... " + l.text
	}
	return l.text
}

// said reads a line of standard output.
func (a *agent) said(l line) {
	if l.long {
		_ = a.log.note(fmt.Sprintf("An event of more than %d bytes was passed over.", maxEvent))
	}
	if l.long || l.passed {
		a.heard(missions.Beat{})
		return
	}
	text := continued(l) // a piece in the middle is no line of its own, so no marker
	a.mu.Lock()
	progress, status := a.stream.Progress, a.stream.Status
	shown := a.stream.Line(text)
	beat := a.news(progress, status)
	a.mu.Unlock()
	if shown == "" {
		if shown = text; len(shown) > maxRaw {
			shown = strings.ToValidUTF8(shown[:maxRaw-a.hide.straddles([]byte(shown[:maxRaw]))], "") + "..."
		}
	}
	a.log.write("", shown)
	if !l.more || beat != (missions.Beat{}) {
		a.heard(beat)
	}
}

// news is what the stream says now that it did not say before. The caller holds
// the lock.
func (a *agent) news(progress *int, status string) (beat missions.Beat) {
	if a.stream.Progress != progress {
		beat.Progress = a.stream.Progress
	}
	if a.stream.Status != status {
		beat.Status = a.hide.clean(a.stream.Status)
	}
	return beat
}

// message is the agent's last message so far.
func (a *agent) message() string {
	a.mu.Lock()
	text := a.stream.Message()
	a.mu.Unlock()
	return a.hide.clean(text)
}

// began is called once the program runs.
func (a *agent) began(p *guard.Process, at time.Time, input string) {
	a.process, a.started = p, at
	go func() { // it may read nothing; the end of the process ends this
		defer close(a.fed)
		_, _ = io.WriteString(p.Stdin, input)
		_ = p.Stdin.Close()
	}()
	go func() {
		defer close(a.read)
		_, _ = io.Copy(writerOnly{a.stdout}, readerOnly{p.Stdout})
		_ = p.Stdout.Close()
	}()
}

// writerOnly and readerOnly keep io.Copy to a plain loop.
type (
	writerOnly struct{ io.Writer }
	readerOnly struct{ io.Reader }
)

// ended is a context that is over.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// follow sees the program to its end and keeps what it said at last.
func (a *agent) follow(papers *Papers) {
	p := a.process
	<-p.Done()
	left := p.Stop(ended())
	if out, ok := p.Stdout.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = out.SetReadDeadline(time.Now().Add(drainWait)) // closed: it was read to its end
	}
	<-a.read
	<-p.Drained()
	<-a.fed
	a.stdout.end()
	a.stderr.end()
	a.mu.Lock()
	progress, status := a.stream.Progress, a.stream.Status
	a.stream.End()
	beat := a.news(progress, status)
	result, verdict := a.stream.Result, a.stream.Verdict
	a.mu.Unlock()
	if beat != (missions.Beat{}) {
		a.heard(beat)
	}
	message := a.message()
	if text, ok := a.lastMessage(); ok {
		message = a.hide.clean(text)
	}
	if err := papers.save(a.mission, outputName, func(w io.Writer) error { _, err := io.WriteString(w, message); return err }); err != nil {
		_ = a.log.note("The agent's last message could not be saved: " + err.Error())
		papers.opts.Log.Warn("a mission's output could not be saved", slog.String("mission", a.mission), slog.String("cause", err.Error()))
	}
	words := p.ExitReason()
	if left != nil {
		papers.opts.Log.Error("a descendant of an agent is left", slog.String("mission", a.mission), slog.String("cause", left.Error()))
		words += "; a descendant of it is left"
	}
	end := missions.End{Words: words, Result: result, Verdict: verdict, Stderr: a.hide.clean(p.StderrTail())}
	note := "The agent has no exit status: " + words + "."
	if code, ok := p.ExitCode(); ok {
		end.Code, note = &code, "The agent "+words+"."
	}
	_ = a.log.note(note)
	a.mu.Lock()
	a.end = end
	a.mu.Unlock()
}

// told is called once everything of the program is over.
func (a *agent) told() { close(a.done) }

// lastMessage reads the file in which the program left its last message.
func (a *agent) lastMessage() (string, bool) {
	if a.last == "" {
		return "", false
	}
	f, err := os.OpenFile(filepath.Clean(a.last), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", false // it left none
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, maxMessage))
	return strings.ToValidUTF8(string(raw), ""), err == nil && len(raw) > 0
}

// PID is the program's process id.
func (a *agent) PID() int { return a.process.PID }

// Started is when the program was started.
func (a *agent) Started() time.Time { return a.started }

// Done is closed when the program has ended, its descendants are gone and what
// they said is kept.
func (a *agent) Done() <-chan struct{} { return a.done }

// End is how the program ended.
func (a *agent) End() missions.End {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.end
}

// Stop kills the program with every descendant and returns when none is left and
// what they said is kept.
func (a *agent) Stop(ctx context.Context) error {
	if err := a.process.Stop(ended()); err != nil {
		return err
	}
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for an agent's end: %w", context.Cause(ctx))
	}
}
