package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// soakReport is what a soak found, as lines that begin with PASS or FAIL.
type soakReport struct {
	lines  []string
	failed int
}

func (r *soakReport) check(holds bool, format string, args ...any) {
	word := "PASS"
	if !holds {
		word = "FAIL"
		r.failed++
	}
	r.lines = append(r.lines, word+"  "+fmt.Sprintf(format, args...))
}

func (r *soakReport) note(format string, args ...any) {
	r.lines = append(r.lines, "      "+fmt.Sprintf(format, args...))
}

// soakParts are the parts of a soak, in their order.
var soakParts = []string{"load", "memory", "start"}

// soak runs the parts that were asked for. It fails when an aim was missed.
func soak(ctx context.Context, o options, l *lab) (text string, err error) {
	m, began, r, told := readMachine(), time.Now(), &soakReport{}, 0
	for _, part := range soakParts {
		if !slices.Contains(strings.Split(o.only, ","), part) {
			continue
		}
		l.say("soak: %s", part)
		run := map[string]func(context.Context, *lab, *soakReport) error{"load": soakLoads, "memory": soakMemory, "start": soakStart}[part]
		if err := errors.Join(run(ctx, l, r), l.stopAll()); err != nil {
			return "", fmt.Errorf("%s: %w", part, err)
		}
		l.say("%s", strings.Join(r.lines[told:], "\n")) // a later part may not end
		told = len(r.lines)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d cores (%s), %s, %s. Load average before the run: %s. The run took %v; load and broker share the cores.\n\n```\n%s\n```\n",
		m.cores, m.processor, m.system, m.goVersion, m.load, time.Since(began).Round(time.Second), strings.Join(r.lines, "\n"))
	if r.failed > 0 {
		err = fmt.Errorf("%d aims were missed", r.failed)
	}
	return b.String(), err
}

// soakConfig has that many backends of one echo.
func soakConfig(echo string, backends int) ([]byte, error) {
	servers := map[string]any{}
	for i := range backends {
		servers[fmt.Sprintf("b%d", i)] = map[string]any{"url": fmt.Sprintf("http://%s/%d", echo, i),
			"berth": map[string]any{"max_in_flight": soakSeats, "max_queued": 1000, "start": "eager", "effects": []any{map[string]any{"verb": "*", "is": []string{"read"}}}}}
	}
	return json.Marshal(map[string]any{"mcpServers": servers, "berth": map[string]any{"log_level": "warn", "max_sessions": 1_000_000}})
}

// soakBroker starts one and waits until every backend is ready.
func (l *lab) soakBroker(ctx context.Context, name, tags, echo string, backends int) (*broker, error) {
	text, err := soakConfig(echo, backends)
	if err != nil {
		return nil, err
	}
	bin, err := l.build(ctx, tags)
	if err != nil {
		return nil, err
	}
	b, err := l.serveText(ctx, bin, name, tags, text)
	if err != nil {
		return nil, err
	}
	var more []string
	for i := 1; i < backends; i++ {
		more = append(more, fmt.Sprintf(`berth_backend_state{backend="b%d",state="ready"}`, i))
	}
	return b, b.await(ctx, `berth_backend_state{backend="b0",state="ready"}`, float64(backends), more...)
}

// soakLoads runs the load without and with a hostile principal.
func soakLoads(ctx context.Context, l *lab, r *soakReport) error {
	echo, err := l.start(ctx, l.self, "-role", "echo-http", "-service", soakService.String())
	if err != nil {
		return err
	}
	b, err := l.soakBroker(ctx, "load", "", echo.line, soakBackends)
	if err != nil {
		return err
	}
	// Once with everything, so that what is made for the first is there: pools
	// of connections, buffers, threads.
	if _, err := soakOnce(ctx, b, l.opts.soak/10, true); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	before, err := b.calm(ctx, nil)
	if err != nil {
		return err
	}
	quiet, err := soakOnce(ctx, b, l.opts.soak, false)
	if err != nil {
		return fmt.Errorf("without a hostile principal: %w", err)
	}
	hostile, err := soakOnce(ctx, b, l.opts.soak, true)
	if err != nil {
		return fmt.Errorf("with a hostile principal: %w", err)
	}
	after, err := b.calm(ctx, before)
	if err != nil {
		return err
	}
	p99, base := percentile(hostile.waits, .99), percentile(quiet.waits, .99)
	limit := max(2*base, soakService)
	r.note("%d sessions of %d principals over %d backends of %d seats and %v of service, %v a run", soakSessions, soakPrincipals, soakBackends, soakSeats, soakService, l.opts.soak)
	r.note("the bench's own timers were late by p99 %s in the first run and %s in the second: no time below says more than that", ms(percentile(quiet.late, .99)), ms(percentile(hostile.late, .99)))
	r.note("without: %d calls, wait for a seat p50 %s, p99 %s; all that their callers saw beyond the backend's own time p50 %s, p99 %s", quiet.calls,
		ms(percentile(quiet.waits, .5)), ms(base), ms(percentile(quiet.over, .5)), ms(percentile(quiet.over, .99)))
	r.note("with %d calls at once of one principal: %d calls of the others, wait for a seat p50 %s, p99 %s; in all p50 %s, p99 %s; %d calls of its own", hostileCalls*soakSessions/soakPrincipals, hostile.calls,
		ms(percentile(hostile.waits, .5)), ms(p99), ms(percentile(hostile.over, .5)), ms(percentile(hostile.over, .99)), hostile.hostile)
	r.check(p99 <= limit, "p99 wait of the others %s, at most %s (the larger of twice %s and one service time)", ms(p99), ms(limit), ms(base))
	for _, what := range []string{"job_status", "/api/v1/status", "/api/v1/backends", dashboardPage} {
		got := hostile.looks[what]
		r.check(percentile(got, .99) < soakAnswer, "%s meanwhile: p50 %s, p99 %s of %d, under %v (without the hostile principal p99 %s)",
			named(what), ms(percentile(got, .5)), ms(percentile(got, .99)), len(got), soakAnswer, ms(percentile(quiet.looks[what], .99)))
	}
	r.note("/metrics meanwhile: p50 %s, p99 %s", ms(percentile(hostile.looks["/metrics"], .5)), ms(percentile(hostile.looks["/metrics"], .99)))
	for _, what := range []string{"go_goroutines", "process_open_fds", "berth_sessions"} {
		r.check(after[what] <= before[what], "%s after: %g, before: %g", what, after[what], before[what])
	}
	return nil
}

func soakOnce(ctx context.Context, b *broker, length time.Duration, hostility bool) (soakResult, error) {
	s, err := openSoak(ctx, b)
	if err != nil {
		return soakResult{}, err
	}
	got, err := s.run(ctx, length, hostility)
	return got, errors.Join(err, s.close())
}

// calm waits until a broker holds no more than before, or, without a before,
// until what a load left has had its time, and gives its metrics then.
func (b *broker) calm(ctx context.Context, before map[string]float64) (map[string]float64, error) {
	for until := time.Now().Add(soakSettle); ; {
		got, err := b.scrape(ctx)
		if err != nil {
			return nil, err
		}
		below := before != nil
		for _, what := range []string{"go_goroutines", "process_open_fds", "berth_sessions"} {
			below = below && got[what] <= before[what]
		}
		if below || time.Now().After(until) {
			return got, nil
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// soakMemory compares a broker with one backend and no session with one with a
// hundred backends and ten thousand idle sessions.
func soakMemory(ctx context.Context, l *lab, r *soakReport) error {
	const backends = 100
	sessions := 10_000
	if l.opts.quick {
		sessions = 1000
	}
	echo, err := l.echo(ctx)
	if err != nil {
		return err
	}
	var values []map[string]float64
	for i, n := range []int{1, backends} {
		b, err := l.soakBroker(ctx, fmt.Sprintf("memory-%d", n), "profile", echo.line, n)
		if err != nil {
			return err
		}
		if i == 1 {
			if err := b.openIdle(ctx, sessions, "b%d__echo", backends); err != nil {
				return err
			}
		}
		got, err := b.settled(ctx, 1)
		if err != nil {
			return err
		}
		values = append(values, got)
	}
	const mib = 1 << 20
	heap := func(v map[string]float64) float64 {
		return (v["go_memstats_heap_alloc_bytes"] + v["go_memstats_stack_inuse_bytes"]) / mib
	}
	small, large := values[0], values[1]
	r.note("1 backend, no session: %.1f MiB resident, %.1f MiB heap and stacks", small["process_resident_memory_bytes"]/mib, heap(small))
	r.note("%d backends, %d idle sessions: %.1f MiB resident, %.1f MiB heap and stacks", backends, sessions, large["process_resident_memory_bytes"]/mib, heap(large))
	r.check(int(large["berth_sessions"]) == sessions, "%g sessions are known", large["berth_sessions"])
	// The aims of an idle session (4 KiB) and of a backend with its connection.
	limit := heap(small) + float64(sessions)*4/1024 + backends*0.25
	r.check(heap(large) <= limit, "heap and stacks %.1f MiB, at most %.1f (4 KiB a session, 256 KiB a backend)", heap(large), limit)
	return nil
}

// soakStart measures the start of a broker over a million records.
func soakStart(ctx context.Context, l *lab, r *soakReport) error {
	records, aim := 1_000_000, time.Second
	if l.opts.quick {
		records = 100_000
	}
	state := filepath.Join(l.dir, "start-full")
	if err := os.Mkdir(state, 0o700); err != nil {
		return err
	}
	path := filepath.Join(state, "journal.db")
	began := time.Now()
	if err := fillJournal(ctx, path, records); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	r.note("%d records written in %v, %d MiB", records, time.Since(began).Round(time.Second), info.Size()>>20)
	bin, err := l.build(ctx, "")
	if err != nil {
		return err
	}
	text, err := soakConfig("127.0.0.1:1", 0)
	if err != nil {
		return err
	}
	var medians [2]time.Duration
	for i, name := range []string{"start-empty", "start-full"} {
		var times []time.Duration
		for range 5 {
			began := time.Now()
			if _, err := l.serveText(ctx, bin, name, "", text); err != nil {
				return err
			}
			times = append(times, time.Since(began))
			if err := l.stopAll(); err != nil {
				return err
			}
		}
		medians[i] = percentile(times, .5)
	}
	r.note("an empty journal: it listens after %s", ms(medians[0]))
	r.check(medians[1] <= aim, "%d records, warm cache: it listens after %s (median of 5), aim %v", records, ms(medians[1]), aim)
	return nil
}

// named is a look as the report calls it.
func named(look string) string {
	if look == dashboardPage {
		return "the dashboard's overview"
	}
	return look
}
