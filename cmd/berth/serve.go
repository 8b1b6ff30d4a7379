package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/actors"
	"berth/broker/catalog"
	"berth/broker/config"
	"berth/broker/drain"
	"berth/broker/policy/proof"
	"berth/broker/shape"
	"berth/broker/shape/o200k"
	"berth/transport/dashboard"
	"berth/transport/mcpserver"
	"berth/transport/rest"
)

type serveOptions struct {
	config   string
	listen   string
	readOnly bool
}

func newServeCommand(a *app) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the broker",
		Long: "Run the broker until it is told to stop (SIGINT or SIGTERM).\n\n" +
			"Without --config it has no backend and answers its own verbs. The address is\n" +
			"printed in one line and written to berth.port in the state directory once the\n" +
			"socket listens. One state directory has one broker.",
		Args: exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error { return a.runServe(cmd.Context(), o) }),
	}
	cmd.Flags().StringVar(&o.config, "config", "", "configuration in the mcpServers convention, JSON or YAML")
	cmd.Flags().StringVar(&o.listen, "listen", "", "address to listen on (default: the configuration's, else 127.0.0.1:7420); port 0 picks one")
	cmd.Flags().BoolVar(&o.readOnly, "read-only", false, "list and run only tools that read, for every session (also: BERTH_READ_ONLY)")
	return cmd
}

// runServe brings the parts up in the order in which they need each other and
// takes them down in the other one.
func (a *app) runServe(ctx context.Context, o serveOptions) error {
	cfg, configDir, err := a.loadConfig(o.config)
	if err != nil {
		return err
	}
	if o.listen != "" {
		cfg.Broker.Listen = o.listen
	}
	if o.listen != "" {
		if err := config.CheckAddress(o.listen); err != nil {
			return usage("--listen: " + sentence(err))
		}
	}
	level := &slog.LevelVar{}
	level.Set(logLevel(cfg.Broker.LogLevel))
	log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
	path, err := a.stateDir()
	if err != nil {
		return err
	}
	b := newRunning(cfg, a.getenv, log)
	b.configDir, b.level, b.tier, b.reload = configDir, level, readTier(a.getenv), reloading{app: a, o: o}
	b.readOnlyProcess = o.readOnly || switchedOn(a.getenv, readOnlyVariable)
	if o.config != "" {
		b.reload.file = filepath.Join(configDir, filepath.Base(o.config))
	}
	defer b.reload.takeHangups()()
	defer b.close()
	for _, note := range cfg.Notes {
		log.Warn("a part of the configuration was passed over", slog.String("place", note.Pointer), slog.Int("line", note.Line), slog.String("note", note.Message))
	}
	b.tier.say(log)
	a.tuneMemory()
	stop, err := profile()
	if err != nil {
		return err
	}
	defer stop()
	if err := b.openState(ctx, path); err != nil {
		return err
	}
	if err := b.openJournal(ctx); err != nil {
		return err
	}
	if err := b.startTracing(); err != nil {
		return err
	}
	if err := b.openAccess(); err != nil {
		return err
	}
	if err := b.startActors(); err != nil {
		return err
	}
	b.access.say(b)
	defer b.noteUses()()
	defer b.sample()()
	if err := b.listen(a); err != nil {
		return err
	}
	return b.serve(ctx)
}

// countCosts makes the costs of the catalog's texts, of which an earlier broker may
// have counted some. Nothing is counted before it is asked for.
func (b *running) countCosts() *shape.Costs {
	if b.counter == nil {
		b.counter = o200k.Counter{}
	}
	b.costs = shape.NewCosts(b.counter, b.catalogs[catalog.NativeName].Costs)
	return b.costs
}

func (b *running) startActors() error {
	b.browser.sampler = dashboard.NewSampler(b, b, nil, b.log)
	opts := actors.Options{
		Journal: countedJobs{b.journal, b.metrics, &b.browser.pruned}, Records: b.journal, Tracked: b.tracked,
		MaxSessions: b.cfg.Broker.MaxSessions, MaxCallsPerSession: b.cfg.Broker.MaxCallsPerSession,
		MaxBytesInFlight: int64(b.cfg.Broker.MaxBytesInFlight),
		Observe:          b.observe, Proofs: b.proofs(), Live: b.live.Publish, Hold: b.hold.Refuse, Drained: b.drained,
		Admit: b.vessels.admit, Cancelled: b.vessels.cancelled,
		Fatal: func(reason string) {
			select {
			case b.fatal <- reason:
			default:
			}
		},
		Logger: b.log, Now: time.Now, Random: rand.Reader,
		Catalog: catalogSettings(b.cfg, b.countCosts()),
	}
	inspect, err := b.inspector()
	if err != nil {
		return err
	}
	b.keeper = newKeeper(b, inspect)
	if err := b.addSources(&opts); err != nil {
		return err
	}
	b.system, err = actors.Start(opts)
	switch {
	case errors.Is(err, actors.ErrCatalog):
		return usage("The configuration is refused: " + sentence(err))
	case err != nil:
		return fmt.Errorf("start the actors: %w", err)
	}
	b.agentWake = actors.StartAgentWake(b.board, b.launchWake, time.Now, b.log)
	weigh(b.system.Catalog(), b.log)
	if err := b.metrics.Watch(b.sources()); err != nil {
		return fmt.Errorf("register the metrics: %w", err)
	}
	return nil
}

// addSources gives every backend its actor's configuration and its part of the
// catalog. Nothing is started.
func (b *running) addSources(opts *actors.Options) error {
	if err := b.addNative(opts); err != nil {
		return err
	}
	b.addBindable(opts)
	b.addConfigured(opts, b.cfg)
	return nil
}

// addConfigured does so with the backends of a configuration.
func (b *running) addConfigured(opts *actors.Options, cfg *config.Config) {
	for _, backend := range cfg.Backends {
		if backend.Settings.Disabled {
			opts.Disabled = append(opts.Disabled, actors.BackendView{Name: backend.Name, Kind: string(backend.Kind), State: actors.StateDisabled,
				Since: b.started, EnvNames: names(backend.Env), HeaderNames: names(backend.Headers)})
			continue
		}
		b.addBackend(opts, backend)
	}
}

// listen opens the socket and tells where it is.
func (b *running) listen(a *app) error {
	handler, err := b.handler()
	if err != nil {
		return err
	}
	b.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(b.log.Handler(), slog.LevelDebug)}
	b.server.RegisterOnShutdown(func() { close(b.streamsEnd) })
	if b.listener, err = net.Listen("tcp", b.cfg.Broker.Listen); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	addr := b.listener.Addr().String()
	if err := b.vessels.missions.Start(); err != nil { // agents call back, so not before it listens
		return err
	}
	if err := b.dir.WritePort(addr); err != nil {
		return fmt.Errorf("write where the broker listens: %w", err)
	}
	_, err = fmt.Fprintf(a.out, "berth %s listens on http://%s (state in %s)\n", buildVersion(), addr, b.dir.Root())
	return err
}

// serve answers until ctx ends or the supervisor fails, then goes down.
func (b *running) serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- b.server.Serve(b.listener) }()
	defer b.onHangup(ctx)()
	var failed error
	select {
	case <-ctx.Done():
		b.log.Info("stopping")
	case <-b.stopAsked:
		b.log.Info("stopping")
	case reason := <-b.fatal:
		failed = errors.New(reason)
	case err := <-served:
		served <- err
		failed = fmt.Errorf("serve: %w", err)
	}
	failed = errors.Join(failed, b.goDown())
	<-served
	return failed
}

// goDown stops in order: no new work, time for what runs, the truth for the
// rest.
func (b *running) goDown() error {
	b.reload.mu.Lock()
	b.reload.stopping = true
	limit := b.cfg.Broker.DrainTimeout
	b.reload.mu.Unlock()
	drain, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if open := b.front.Drain(drain); open > 0 {
		b.log.Warn("calls were still running at the end of the drain", slog.Int("calls", open))
	}
	if err := b.vessels.stop(drain); err != nil {
		b.log.Warn("an agent may have been left; the next start ends it", slog.String("cause", err.Error()))
	}
	b.system.Stop(drain)
	b.agentWake.Stop()
	b.browser.pages.Close()
	last, done := context.WithTimeout(context.Background(), lastAnswers)
	defer done()
	if err := b.server.Shutdown(last); err != nil {
		b.log.Warn("connections were cut", slog.String("cause", err.Error()))
		return b.server.Close()
	}
	return nil
}

// lastAnswers is how long clients may take to receive what they are told at a stop.
const lastAnswers = 5 * time.Second

// close gives back what was taken, last first. It is called however far the
// start came.
func (b *running) close() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.vessels.stop(ended); err != nil {
		b.log.Warn("an agent may have been left; the next start ends it", slog.String("cause", err.Error()))
	}
	if b.system != nil {
		b.system.Stop(ended)
	}
	if b.agentWake != nil {
		b.agentWake.Stop()
	}
	b.vessels.close()
	var problems []error
	if b.listener != nil {
		problems = append(problems, b.dir.RemovePort())
	}
	if b.tracer != nil {
		last, cancel := context.WithTimeout(context.Background(), lastSpans)
		defer cancel()
		problems = append(problems, b.tracer.Shutdown(last))
	}
	if b.journal != nil {
		problems = append(problems, b.journal.Close())
	}
	if b.lock != nil {
		problems = append(problems, b.lock.Release())
	}
	if err := errors.Join(problems...); err != nil {
		b.log.Warn("the broker did not go down cleanly", slog.String("cause", err.Error()))
	}
}

// handler joins the two fronts.
func (b *running) handler() (http.Handler, error) {
	var err error
	checks := b.guard(b.access.authenticate)
	traces := b.traces()
	b.front, err = mcpserver.New(mcpserver.Options{
		Broker: b.system, Tier: b.tier.Name, SessionKey: b.sessionKey, RuntimeID: b.runtimeID, Version: buildVersion(), Logger: b.log,
		Shaping:  mcpserver.Shaping{Counter: b.counter, Store: b.kept, NoEnvelope: !envelopeOn(b.getenv)},
		Surfaces: b.served, Proofs: b.gate(), ReadOnlyProcess: b.readOnlyProcess, Wakes: b.board, Tracer: traces, Refused: b.metrics.Refused,
		Guard: b.guard(b.access.authenticateMCP), Bindings: bindings{b.system}, ReadOnly: b.readOnly(), Limits: mcpserver.Limits{MaxStreams: b.cfg.Broker.MaxStreams}, Clients: b.clients(),
	})
	if err != nil {
		return nil, fmt.Errorf("build the MCP front: %w", err)
	}
	operator := rest.New(rest.Options{
		Guard: checks, Calls: b.system, Views: b.system, Jobs: b.system, Journal: journalFacts{b.journal}, Inspect: b.keeper, Uploads: b.keeper, Token: b.dir, Reload: b.reloader(), Board: b.board,
		Overview: b.overview, Events: b.events, Journalled: b.journal, Live: &b.live, Done: b.streamsEnd,
		Metrics: b.metrics.Handler(), Credentials: b.access.desk, Accept: b.system,
		Drains: drain.NewDesk(b.journal, func() drain.Backends { return b.system }, time.Now), ReadOnly: b.readOnlyProcess, Proofs: b.gate(),
		Surface: func(p *catalog.Profile) any { return b.meta.Surface(p, "") },
		Tracer:  traces, Refused: b.metrics.Refused, JobCount: b.journal.JobCount,
		Configuration: b.reload.file,
		Tier:          b.tier.Name, TierSource: b.tier.Source, Version: buildVersion(), RuntimeID: b.runtimeID, Started: b.started, CallID: b.system.NewCallID, Log: b.log,
	})
	if err := b.openDashboard(checks, operator); err != nil {
		return nil, err
	}
	// Not a ServeMux: it would answer some paths with a redirect before the
	// token was looked at.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" || r.URL.Path == "/rpc" || strings.HasPrefix(r.URL.Path, "/mcp/") {
			b.front.ServeHTTP(w, r)
			return
		}
		if dashboard.Owns(r.URL.Path) {
			b.browser.pages.ServeHTTP(w, r)
			return
		}
		operator.ServeHTTP(w, r)
	}), nil
}

// The variables that switch something on for the whole process.
const (
	readOnlyVariable  = "BERTH_READ_ONLY"
	proofGateVariable = "BERTH_PROOF_GATE"
)

// switchedOn reads a variable that is set to anything but nothing, 0 or false.
func switchedOn(getenv func(string) (string, bool), name string) bool {
	setting, _ := getenv(name)
	return proof.On(false, setting)
}

// proofs are the rules of the gate; nil when it is off.
func (b *running) proofs() *proof.Config {
	rules := b.cfg.Broker.Proofs
	if !rules.Enabled && !switchedOn(b.getenv, proofGateVariable) {
		return nil
	}
	c := rules.Config()
	return &c
}

// gate is what policy asks; nil when it is off.
func (b *running) gate() mcpserver.Proofs {
	if gate := b.system.Proofs(); gate != nil {
		return gate
	}
	return nil
}

// envelopeOn reads the switch of the facts that stand beside every result.
func envelopeOn(getenv func(string) (string, bool)) bool {
	setting, _ := getenv("BERTH_RESPONSE_ENVELOPE")
	return shape.EnvelopeOn(setting)
}

// loadConfig reads the configuration; without a file it is the default.
func (a *app) loadConfig(path string) (*config.Config, string, error) {
	if path == "" {
		return config.Default(), "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", usage("The configuration cannot be read: " + sentence(err))
	}
	data, err := io.ReadAll(io.LimitReader(f, config.MaxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, "", usage("The configuration cannot be read: " + sentence(err))
	}
	cfg, err := config.Parse(path, data, a.getenv)
	if err != nil {
		return nil, "", refusedConfig(err)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, "", fmt.Errorf("find the configuration: %w", err)
	}
	return cfg, filepath.Dir(full), nil
}

// refusedConfig shows every problem of a configuration on a line of its own.
func refusedConfig(err error) *failure {
	f := usage("The configuration is refused; its keys are in docs/configuration.md.")
	var invalid *config.Invalid
	if !errors.As(err, &invalid) {
		f.more = []string{sentence(err)}
		return f
	}
	f.more = strings.Split(invalid.Error(), "\n")
	if data, err := json.Marshal(invalid); err == nil {
		f.data = data
	}
	return f
}

func logLevel(word string) slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(strings.ToUpper(word))); err != nil {
		return slog.LevelInfo
	}
	return l
}
