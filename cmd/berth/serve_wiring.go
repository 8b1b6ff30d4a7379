package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/admission"
	"berth/broker/catalog"
	"berth/broker/config"
	"berth/broker/native"
	"berth/broker/native/events"
	"berth/broker/native/hold"
	"berth/broker/native/jobs"
	"berth/broker/native/meta"
	"berth/broker/native/status"
	"berth/broker/native/upkeep"
	"berth/broker/policy/proof"
	"berth/broker/shape"
	"berth/journal"
	"berth/transport/guard"
	"berth/transport/mcpclient"
	"berth/transport/mcpserver"
)

// addNative makes the broker's own verbs a backend like any other.
func (b *running) addNative(opts *actors.Options) error {
	store := &nativeStore{journal: b.journal}
	family := jobs.New(store, jobs.Options{
		RuntimeID: b.runtimeID, Now: time.Now, Log: b.log,
		Server: broker.ServerInfo{Info: json.RawMessage(`{"name":"berth","version":` + strconv.Quote(buildVersion()) + `}`)},
		After: func(d time.Duration) (<-chan time.Time, func()) {
			t := time.NewTimer(d)
			return t.C, func() { t.Stop() }
		},
	})
	store.delayed = func(id string) bool { return b.system.Delayed(id) }
	b.kept, b.served = shape.NewStore(shape.StoreOptions{}), meta.NewLedger()
	b.meta = meta.New(meta.Options{
		Server: family.Source().Server, Log: b.log, Version: buildVersion(), RuntimeID: b.runtimeID, Started: b.started, Now: time.Now, Random: rand.Reader,
		Store: b.kept, Counter: b.counter, Costs: b.costs, Ledger: b.served, Tier: b.tier.Name, TierSource: b.tier.Source,
		Proofs: b.proofRules, Delivered: func(then any) {
			if shown, ok := then.(*actors.Shown); ok {
				shown.Grant()
			}
		},
		Standing: func(backend string) (string, string) { return b.system.Standing(backend) },
	})
	if b.hold == nil { // a look at the configuration opens no journal
		b.hold = hold.New(b.journal, boardOf{b}, time.Now, b.log)
	}
	b.events = events.New(b.journal, time.Now, b.log)
	shared := native.Options{RuntimeID: b.runtimeID, Server: family.Source().Server, Now: time.Now, Log: b.log}
	boarding := b.openBoard(family.Source().Server)
	if err := b.openVessels(shared); err != nil {
		return err
	}
	b.overview = status.New(status.Options{Jobs: b.journal, Events: b.events, Hold: b.hold.Present, Now: time.Now, Log: b.log,
		Signals: func() (any, error) { return b.board.RecentSignals() }, Work: b.vessels.family.Standing, Waiting: b.vessels.family.Waiting,
		More: append([]status.Entity{{Names: [2]string{"signals", "signal"}, List: b.listSignals}}, b.vessels.family.Entities()...)})
	b.native = native.Join(family, b.meta, events.NewFamily(b.events, shared), status.NewFamily(b.overview, shared), boarding,
		b.hold.NewFamily(shared), b.vessels.family, b.vessels.code, upkeep.NewFamily(b.keeper, b.hold, shared))
	joined := b.native.For(native.Access(b.cfg.Broker.Access))
	b.team.Store(native.Access(b.cfg.Broker.Access) == native.Team)
	opts.Sources = append(opts.Sources, joined.Source())
	opts.Backends = append(opts.Backends, actors.BackendConfig{
		Name: catalog.NativeName, Kind: "native", Upstream: joined, Eager: true, Admission: admission.Limits{Seats: 64, MaxQueuedCalls: 1024},
	})
	return nil
}

// proofRules are the rules in force; nil when nothing is held back.
func (b *running) proofRules() *proof.Rules {
	if gate := b.system.Proofs(); gate != nil {
		return gate.Rules()
	}
	return nil
}

// nativeStore is what the native families read.
type nativeStore struct {
	journal *journal.Journal
	delayed func(id string) bool
}

func (s *nativeStore) Job(id string) (broker.Job, error)               { return s.journal.Job(id) }
func (s *nativeStore) Jobs(f broker.JobFilter) (broker.JobPage, error) { return s.journal.Jobs(f) }
func (s *nativeStore) Watch(id string) (<-chan struct{}, func())       { return s.journal.Watch(id) }
func (s *nativeStore) Delayed(id string) bool                          { return s.delayed(id) }

// addBackend turns one entry of the configuration into an actor's configuration
// and a source of the catalog.
func (b *running) addBackend(opts *actors.Options, c config.Backend) {
	if c.Kind == config.App {
		b.addApp(opts, c)
		return
	}
	s := c.Settings
	source := catalog.Source{Backend: c.Name, Rules: rules(s)}
	var tools *int
	var told []string
	origin := b.origin(c)
	if stored, ok := b.catalogs[c.Name]; ok && stored.Origin == origin {
		source.Stale = true
		source.Listed, source.Server, source.Tools = true, stored.Server, stored.Tools
		if s.Pin {
			source.Accepted = stored.Tools
		}
		n := len(stored.Tools)
		tools, told = &n, stored.Told
	}
	opts.Sources = append(opts.Sources, source)
	client := mcpclient.Options{
		Version: buildVersion(), MaxAnswer: int(s.MaxAnswer), CancelGrace: s.CancelGrace, OpenTimeout: s.StartTimeout,
		MaxInFlight: s.MaxInFlight, Redact: shape.Hiding(c.Confidential()), Handshake: s.Handshake,
	}
	var upstream actors.Upstream
	if c.Kind == config.Stdio {
		upstream = mcpclient.NewStdio(mcpclient.StdioConfig{Start: b.starter(c)}, client)
	} else {
		upstream = b.upstreamHTTP(c, client)
	}
	opts.Backends = append(opts.Backends, actors.BackendConfig{
		Name: c.Name, Kind: string(c.Kind), Upstream: upstream,
		Admission:    admission.Limits{Seats: s.MaxInFlight, MaxQueuedCalls: s.MaxQueued, MaxQueuedJobs: s.MaxQueuedJobs, QueueTimeout: s.QueueTimeout},
		StartTimeout: s.StartTimeout, CallTimeout: s.CallTimeout, IdleTimeout: max(0, s.IdleTimeout),
		StaleAfter: staleAfter(c), Eager: s.Start == config.Eager, PerSession: s.Instances == config.PerSession,
		EnvNames: names(c.Env), HeaderNames: names(c.Headers), Tools: tools, Told: told, Origin: origin,
	})
}

// origin is a digest of what an entry reaches. It is keyed, because arguments
// and addresses may hold credentials.
func (b *running) origin(c config.Backend) string {
	mac := hmac.New(sha256.New, b.sessionKey)
	for _, part := range append([]string{"catalog", string(c.Kind), c.Command, c.Cwd, c.URL.Reveal()}, c.Args.Reveal()...) {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(mac.Sum(nil)[:12])
}

// starter starts a stdio child under its guard, with the broker's environment
// and the entry's own variables on top.
func (b *running) starter(c config.Backend) func(context.Context) (mcpclient.Child, error) {
	env := os.Environ()
	for name, value := range c.Env {
		env = append(env, name+"="+value.Reveal())
	}
	spec := guard.Spec{Command: c.Command, Args: c.Args.Reveal(), Env: env, Dir: c.Dir(b.configDir), Ledger: b.ledger, Name: c.Name}
	return func(ctx context.Context) (mcpclient.Child, error) {
		p, err := guard.Start(ctx, spec)
		if err != nil {
			return mcpclient.Child{}, err
		}
		return mcpclient.Child{Stdin: p.Stdin, Stdout: p.Stdout, PID: p.PID, Life: p}, nil
	}
}

func names(m config.SecretMap) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// rules is what the catalog needs of an entry's settings.
func rules(s config.Settings) catalog.Rules {
	r := catalog.Rules{TrustAnnotations: s.TrustAnnotations, Long: s.Long, ReadOnly: s.ReadOnly, Essential: s.Essential, Pin: s.Pin, Line: s.Instructions,
		Keywords: map[string][]string{}, Ranks: map[string]int{}, ResultTokens: map[string]shape.Budget{},
		PromoteAfter: map[string]time.Duration{}, CallTimeout: map[string]time.Duration{}, Seats: map[string]int{}, Tracks: map[string]*broker.Track{}}
	for _, e := range s.Effects {
		when, _ := e.Conditions() // of a configuration that was parsed there is no error
		r.Effects = append(r.Effects, catalog.EffectRule{Verb: e.Verb, When: when, Is: e.Is})
	}
	r.Unguided = !s.Guidance
	if s.PromoteAfter != 0 {
		r.PromoteAfter["*"] = s.PromoteAfter // every other pattern says more
	}
	for _, v := range s.Verbs {
		if v.PromoteAfter != 0 {
			r.PromoteAfter[v.Glob] = v.PromoteAfter
		}
		if v.CallTimeout != 0 {
			r.CallTimeout[v.Glob] = v.CallTimeout
		}
		if v.Seats != 0 {
			r.Seats[v.Glob] = v.Seats
		}
		if len(v.Keywords) > 0 {
			r.Keywords[v.Glob] = v.Keywords
		}
		if v.Rank != 0 {
			r.Ranks[v.Glob] = v.Rank
		}
		if v.ResultTokens != 0 {
			r.ResultTokens[v.Glob] = v.ResultTokens
		}
		if v.RequireTask {
			r.RequireTask = append(r.RequireTask, v.Glob)
		}
		if t := v.Tracks; t.Handle != "" {
			r.Tracks[v.Glob] = &broker.Track{Handle: t.Handle, Verb: t.Verb, Argument: t.Argument, Status: t.Status,
				Running: t.Running, Succeeded: t.Succeeded, Failed: t.Failed, Cancelled: t.Cancelled, Lost: t.Lost,
				Result: t.Result, Message: t.Message}
		}
	}
	return r
}

// staleAfter looks up when a job of a verb is reaped, by its canonical name.
func staleAfter(c config.Backend) func(verb string) time.Duration {
	return func(verb string) time.Duration { return c.Settings.StaleAfter(strings.TrimPrefix(verb, c.Name+"__")) }
}

// clients is the table of clients: the configuration's rules, then what was
// measured.
func (b *running) clients() []mcpserver.ClientLimits {
	var table []mcpserver.ClientLimits
	rules := slices.Clone(b.cfg.Broker.Clients)
	sort.SliceStable(rules, func(i, j int) bool { return len(rules[i].Prefix) > len(rules[j].Prefix) })
	for _, r := range rules {
		table = append(table, mcpserver.ClientLimits{Client: r.Prefix, PromoteAfter: r.PromoteAfter, MaxAnswer: int(r.MaxAnswer)})
	}
	return append(table, mcpserver.MeasuredClients...)
}

// readOnly has the profiles that only read.
func (b *running) readOnly() map[string]bool {
	out := map[string]bool{}
	for _, p := range b.cfg.Broker.Profiles {
		out[p.Name] = p.ReadOnly
	}
	return out
}
