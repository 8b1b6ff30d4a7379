package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"berth/actors"
	"berth/broker"
	"berth/broker/config"
	"berth/broker/drain"
	"berth/broker/live"
	"berth/broker/native"
	"berth/broker/native/board"
	"berth/broker/native/events"
	"berth/broker/native/hold"
	"berth/broker/native/meta"
	"berth/broker/native/status"
	"berth/broker/shape"
	"berth/journal"
	"berth/transport/guard"
	"berth/transport/mcpserver"
	"berth/transport/metrics"
	"berth/transport/statedir"
	"berth/transport/tracing"
)

// running is a broker that is coming up, runs, or is going down. Its fields are
// set in the order of runServe, by the one goroutine that runs it. Once it
// serves, cfg and catalogs belong to who holds reload.mu.
type running struct {
	cfg       *config.Config
	configDir string
	level     *slog.LevelVar
	reload    reloading
	getenv    func(string) (string, bool)
	log       *slog.Logger
	started   time.Time
	runtimeID string
	fatal     chan string
	stopAsked chan struct{} // capacity 1
	tier      tier

	dir        *statedir.Dir
	lock       *statedir.Lock
	credential *statedir.Credential
	verify     func(token string) bool
	// foreignToken: verify asks something else than the credential.
	foreignToken bool
	apiKey       *statedir.Credential
	access       *access
	native       *native.Joined // the broker's own verbs
	team         atomic.Bool    // the setting access is team
	browser      browser
	sessionKey   []byte
	ledger       *guard.Ledger
	journal      *journal.Journal
	tracked      []broker.Job
	catalogs     map[string]broker.StoredCatalog
	metrics      *metrics.Metrics
	tracer       *tracing.Tracer // nil: nothing is recorded
	system       *actors.System
	hold         *hold.Hold
	drained      map[string]*drain.Notice
	keeper       *keeper
	counter      shape.Counter // nil: o200k's
	costs        *shape.Costs  // of the texts of the catalog
	kept         *shape.Store  // what was cut from answers
	served       *meta.Ledger
	// readOnlyProcess: nobody may do more than read.
	readOnlyProcess bool
	meta            *meta.Family
	events          *events.Service
	overview        *status.Service
	live            live.Feed
	streamsEnd      chan struct{} // closed when the last answers are sent
	board           *board.Board
	vessels         vessels
	agentWake       *actors.AgentWake
	front           *mcpserver.Server
	listener        net.Listener
	server          *http.Server
}

// newRunning gives a broker with what it has before anything is opened.
func newRunning(cfg *config.Config, getenv func(string) (string, bool), log *slog.Logger) *running {
	return &running{cfg: cfg, getenv: getenv, log: log, started: time.Now(), runtimeID: uuid.NewString(),
		fatal: make(chan string, 1), stopAsked: make(chan struct{}, 1), streamsEnd: make(chan struct{}), metrics: metrics.New(buildVersion())}
}

// openState takes the state directory and ends what a dead broker left running.
func (b *running) openState(ctx context.Context, path string) error {
	var err error
	if b.dir, err = statedir.Open(path); err != nil {
		return fmt.Errorf("open the state directory: %w", err)
	}
	if b.lock, err = b.dir.Lock(); err != nil {
		return fmt.Errorf("take the state directory: %w", err)
	}
	if err := clearStaging(b.dir.Root()); err != nil {
		return fmt.Errorf("clear away what a killed backup left: %w", err)
	}
	if b.credential, err = b.dir.Credential(); err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	b.verify = b.credential.Verify
	if b.apiKey, err = b.dir.APIKey(); err != nil {
		return err
	}
	if b.sessionKey, err = b.dir.SessionKey(); err != nil {
		return fmt.Errorf("read the session key: %w", err)
	}
	if b.ledger, err = guard.OpenLedger(b.dir.Path("children")); err != nil {
		return fmt.Errorf("open the ledger of children: %w", err)
	}
	swept, err := b.ledger.Sweep(ctx)
	if err != nil {
		return fmt.Errorf("end what an earlier broker left: %w", err)
	}
	b.swept(swept)
	if len(swept.Killed)+len(swept.Left) > 0 {
		b.log.Warn("an earlier broker left child processes",
			slog.Int("killed", len(swept.Killed)), slog.Int("left", len(swept.Left)))
	}
	return b.openPlaces()
}

// openJournal opens the journal and turns what was unfinished into Lost, before
// any socket opens.
func (b *running) openJournal(ctx context.Context) error {
	var err error
	if b.journal, err = journal.Open(b.dir.Path(journalFile), journal.Options{Logger: b.log, Hook: failpoint(), Commit: b.metrics.Commit}); err != nil {
		return &failure{exit: exitJournal, code: codeJournal, message: "The journal cannot be used: " + sentence(err), more: journalAdvice(err)}
	}
	at := time.Now()
	recovery, err := b.journal.Recover(ctx, at)
	if err != nil {
		return fmt.Errorf("recover the journal: %w", err)
	}
	b.tracked = recovery.Tracked
	b.found(recovery, at)
	b.metrics.JobsEnded(recovery.Lost, broker.JobLost, broker.CodeJobLostOnRestart)
	if recovery.Lost+len(recovery.Tracked)+recovery.Unreadable+recovery.OrphanFiles > 0 {
		b.log.Warn("the journal held unfinished work", slog.Int("lost", recovery.Lost), slog.Int("tracked", len(recovery.Tracked)),
			slog.Int("unreadable", recovery.Unreadable), slog.Int("orphan_files", recovery.OrphanFiles))
	}
	b.hold = hold.New(b.journal, boardOf{b}, time.Now, b.log)
	b.hold.Missions(b.missionsThatWork)
	if err := b.hold.Load(); err != nil {
		return fmt.Errorf("read what an operator holds: %w", err)
	}
	if v := b.hold.Present(); v != nil {
		b.log.Warn("dispatch is on hold", slog.String("since", v.SetByUTC))
	}
	if b.drained, err = drain.Read(b.journal); err != nil {
		return err
	}
	catalogs, err := b.journal.Catalogs()
	if err != nil {
		b.log.Warn("a stored catalog could not be read", slog.String("cause", err.Error()))
	}
	b.catalogs = byBackend(catalogs)
	return nil
}

func byBackend(catalogs []broker.StoredCatalog) map[string]broker.StoredCatalog {
	out := map[string]broker.StoredCatalog{}
	for _, c := range catalogs {
		out[c.Backend] = c
	}
	return out
}
