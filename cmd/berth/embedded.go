package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/broker/catalog"
	"berth/broker/config"
	"berth/transport/mcpserver"
	"berth/transport/statedir"
)

// This file is a whole broker in the process of one client: `berth stdio
// --embedded`. It shares nothing with a broker that runs. Its state is a
// directory of its own, which is gone when it ends; a job that follows work
// lives as long as the process.

// runEmbedded serves one app, or the broker's own verbs under their documented
// names, to the client on the standard streams.
func (a *app) runEmbedded(ctx context.Context, o stdioOptions) (err error) {
	profile := o.profile
	cfg := config.Default()
	bridge := mcpserver.Bridge{Profile: profile}
	readOnly := o.readOnly || switchedOn(a.getenv, readOnlyVariable)
	switch {
	case surfaces[profile] != nil:
		cfg.Backends = []config.Backend{{Name: profile, Kind: config.App, Settings: config.AppSettings(profile)}}
		cfg.Backends[0].Settings.ReadOnly = readOnly
		bridge.Surface = appContract(surfaces[profile]())
	case profile == catalog.Armada:
		bridge.ErrorsAsRPC = true
		if readOnly {
			bridge.ReadOnly = "1"
		}
	default:
		return usage("--embedded serves a local app or the broker's own verbs: give --profile " +
			strings.Join(append(slices.Sorted(maps.Keys(surfaces)), catalog.Armada), " or ") + ".")
	}
	sweepEmbedded(time.Now())
	dir, err := os.MkdirTemp("", embeddedPrefix)
	if err != nil {
		return fmt.Errorf("make a state directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b := newRunning(cfg, a.getenv, log)
	defer b.close()
	if err := b.openState(ctx, dir); err != nil {
		return err
	}
	token := newKey()
	b.verify, b.foreignToken = func(given string) bool { return given == token }, true
	if err := b.openJournal(ctx); err != nil {
		return err
	}
	if err := b.openAccess(); err != nil {
		return err
	}
	if err := b.startActors(); err != nil {
		return err
	}
	handler, err := b.handler()
	if err != nil {
		return err
	}
	if err := b.vessels.missions.Start(); err != nil {
		return err
	}
	pipes := newPipes()
	b.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	served := make(chan error, 1)
	go func() { served <- b.server.Serve(pipes) }()

	transport := &http.Transport{DialContext: pipes.dial, MaxIdleConnsPerHost: 64}
	bridge.Transport = transport
	bridge.Discover = func() (string, string, error) { return "http://127.0.0.1", token, nil }
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-b.stopAsked:
			stop()
		case <-ctx.Done():
		}
	}()
	err = bridge.Run(ctx, a.in, a.out, a.err)
	transport.CloseIdleConnections()
	err = errors.Join(err, b.goDown())
	<-served
	return err
}

// embeddedPrefix begins the name of each state directory.
const embeddedPrefix = "berth-embedded-"

// One that is younger may not have taken its directory yet.
const sweepAfter = time.Minute

// maxSwept bounds what one start takes away.
const maxSwept = 100

// sweepEmbedded takes away what processes left that were killed: the directories
// of this user that nobody holds. What it cannot take away stays.
func sweepEmbedded(now time.Time) {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return
	}
	swept := 0
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), embeddedPrefix) || swept == maxSwept {
			continue
		}
		if info, err := e.Info(); err != nil || now.Sub(info.ModTime()) < sweepAfter {
			continue
		}
		path := filepath.Join(os.TempDir(), e.Name())
		dir, err := statedir.Open(path)
		if err != nil { // another user's
			continue
		}
		lock, err := dir.Lock()
		if err != nil { // somebody's who runs
			continue
		}
		_ = os.RemoveAll(path)
		_ = lock.Release()
		swept++
	}
}

// pipes is a listener inside the process: there is no port that another
// program could find.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), over: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.over:
	case <-ctx.Done():
	}
	return nil, errors.Join(net.ErrClosed, client.Close(), server.Close())
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.over) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
