package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/config"
	"berth/broker/native"
	"berth/transport/rest"
)

// This file puts a changed configuration in force while the broker runs: for
// POST /api/v1/reload and for SIGHUP.

// eventReloaded is the event of a configuration that was put in force.
const eventReloaded = "configuration.reloaded"

// reloadLimit is how long the actors may take to take a configuration.
const reloadLimit = 30 * time.Second

// reloading is what a reload needs besides the running broker.
type reloading struct {
	app  *app
	o    serveOptions
	file string // absolute; empty: there is none

	hangups chan os.Signal // nil: none is taken

	mu       sync.Mutex // held by a reload from its first to its last step
	stopping bool
}

// Reload implements rest.Reloader. Of two at once the second is refused.
func (b *running) Reload(ctx context.Context, by string) (rest.Reloaded, error) {
	if !b.reload.mu.TryLock() {
		return rest.Reloaded{}, broker.Refuse(broker.CodeReloadInProgress, "Another reload is under way; nothing was done.", nil).Retry(time.Second)
	}
	defer b.reload.mu.Unlock()
	return b.putInForce(ctx, by)
}

// reloader is who reloads; nil for a broker inside another program.
func (b *running) reloader() rest.Reloader {
	if b.reload.app == nil {
		return nil
	}
	return b
}

// takeHangups keeps a SIGHUP from ending the process. One that comes while the
// broker starts is answered when it is up.
func (r *reloading) takeHangups() (stop func()) {
	r.hangups = make(chan os.Signal, 1)
	signal.Notify(r.hangups, syscall.SIGHUP)
	return func() { signal.Stop(r.hangups) }
}

// onHangup reloads at each SIGHUP until it is stopped. Signals that come during
// a reload are one more reload after it, so that the newest file is read.
func (b *running) onHangup(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-b.reload.hangups:
			}
			b.reload.mu.Lock()
			_, err := b.putInForce(ctx, "SIGHUP")
			b.reload.mu.Unlock()
			if err != nil {
				b.log.Error("the configuration was not reloaded", slog.String("cause", reloadCause(err)))
			}
		}
	})
	return func() {
		cancel()
		work.Wait()
	}
}

func reloadCause(err error) string {
	var refusal *broker.Refusal
	if !errors.As(err, &refusal) {
		return err.Error()
	}
	problems, _ := refusal.Detail["Problems"].([]string)
	return strings.Join(append([]string{refusal.Message}, problems...), " ")
}

// putInForce reads the file again and applies what it says. The caller holds the
// lock of reloads.
func (b *running) putInForce(ctx context.Context, by string) (rest.Reloaded, error) {
	out := rest.Reloaded{Success: true, Applied: []rest.AppliedChange{}, Unchanged: []string{}, NeedsRestart: []string{}, Problems: []string{}}
	if b.reload.stopping {
		return out, broker.Refuse(broker.CodeShuttingDown, "The broker is stopping; its configuration stays as it is.", nil)
	}
	next, err := b.readAgain()
	if err != nil {
		return out, err
	}
	effective, changes := config.Reload(b.cfg, next)
	if err := b.reconfigure(ctx, effective, changes); err != nil {
		return out, err
	}
	b.take(effective)
	b.report(&out, changes)
	if err := b.noteReload(ctx, by, out); err != nil {
		b.log.Error("the event of a reload could not be written", slog.String("cause", err.Error()))
		out.Problems = append(out.Problems, "The configuration is in force, but the event could not be written to the journal.")
	}
	b.log.Info("configuration reloaded", slog.String("by", by), slog.Int("applied", len(out.Applied)),
		slog.Int("unchanged", len(out.Unchanged)), slog.Any("needs_restart", out.NeedsRestart))
	return out, nil
}

// readAgain reads the file as a start would. A pipe or a device is refused: a
// read of it may never end, and with it no reload ever would.
func (b *running) readAgain() (*config.Config, error) {
	if info, err := os.Stat(b.reload.file); err == nil && !info.Mode().IsRegular() {
		return nil, refusedReload(b.reload.file + " is no regular file; a reload reads nothing else.")
	}
	next, _, err := b.reload.app.loadConfig(b.reload.file)
	var f *failure
	if errors.As(err, &f) {
		problems := f.more
		if len(problems) == 0 {
			problems = []string{f.message}
		}
		return nil, refusedReload(problems...)
	}
	if err != nil {
		return nil, err
	}
	if b.reload.o.listen != "" {
		next.Broker.Listen = b.reload.o.listen
	}
	return next, nil
}

func refusedReload(problems ...string) *broker.Refusal {
	return broker.Refuse(broker.CodeConfigurationRefused, "The configuration is refused; nothing was changed.", map[string]any{
		"Problems": problems, "Applied": []rest.AppliedChange{}, "Unchanged": []string{}, "NeedsRestart": []string{}})
}

// reconfigure has the actors take the backends and the catalog, or nothing.
func (b *running) reconfigure(ctx context.Context, next *config.Config, changes config.Changes) error {
	stored, err := b.journal.Catalogs()
	if err != nil {
		b.log.Warn("a stored catalog could not be read", slog.String("cause", err.Error()))
	}
	b.catalogs = byBackend(stored)
	r := actors.Reconfiguration{Renew: map[string]bool{}, Adapt: map[string]bool{}, Catalog: catalogSettings(next, b.costs), Drain: next.Broker.DrainTimeout}
	for _, c := range changes.Backends {
		r.Renew[c.Name] = c.How == config.Renewed
		r.Adapt[c.Name] = c.How == config.Adapted
	}
	var opts actors.Options
	b.addConfigured(&opts, next)
	r.Backends, r.Sources, r.Disabled = opts.Backends, opts.Sources, opts.Disabled
	r.Native = b.native.For(native.Access(next.Broker.Access)).Source().Facts
	// Half of it must not happen because who asked has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reloadLimit)
	defer cancel()
	if err := b.system.Reconfigure(ctx, r); errors.Is(err, actors.ErrCatalog) {
		return refusedReload(sentence(err))
	} else if err != nil {
		return fmt.Errorf("reconfigure the actors: %w", err)
	}
	return nil
}

// take puts the rest in force: what the fronts and the log go by.
func (b *running) take(next *config.Config) {
	b.cfg = next
	b.team.Store(native.Access(next.Broker.Access) == native.Team)
	b.level.Set(logLevel(next.Broker.LogLevel))
	for _, note := range next.Notes {
		b.log.Warn("a part of the configuration was passed over", slog.String("place", note.Pointer), slog.Int("line", note.Line), slog.String("note", note.Message))
	}
	b.front.Retable(b.clients(), b.readOnly())
	if err := b.keeper.copySettings(next); err != nil {
		b.log.Warn("the settings could not be copied for backups", slog.String("cause", err.Error()))
	}
	b.system.Publish(actors.Notice{Method: actors.CatalogChanged}) // who is served what goes by the tables, too
}

// report says what was done.
func (b *running) report(out *rest.Reloaded, changes config.Changes) {
	if b.reload.file != "" {
		out.File = &b.reload.file
	}
	for _, key := range changes.Broker {
		out.Applied = append(out.Applied, rest.AppliedChange{Setting: "berth." + key, How: "applied", Keys: []string{}})
	}
	for _, c := range changes.Backends {
		out.Applied = append(out.Applied, rest.AppliedChange{Setting: "mcpServers." + c.Name, How: string(c.How), Keys: append([]string{}, c.Keys...)})
	}
	out.Unchanged = append(out.Unchanged, changes.Unchanged...)
	for _, key := range changes.NeedsRestart {
		out.NeedsRestart = append(out.NeedsRestart, "berth."+key)
	}
}

func (b *running) noteReload(ctx context.Context, by string, out rest.Reloaded) error {
	payload, err := json.Marshal(map[string]any{"By": by, "Applied": out.Applied, "Unchanged": out.Unchanged, "NeedsRestart": out.NeedsRestart})
	if err != nil {
		return fmt.Errorf("the event of a reload: %w", err)
	}
	return b.journal.AppendEvent(context.WithoutCancel(ctx), broker.Event{EventType: eventReloaded, EntityType: "configuration",
		TenantID: broker.LocalOperator.Tenant, Message: "The configuration was reloaded by " + by + ".", Payload: payload})
}
