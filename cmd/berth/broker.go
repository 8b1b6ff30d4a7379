package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"time"

	"berth/broker"
	"berth/transport/rest"
	"berth/transport/statedir"
)

// journalFile is the journal's name in the state directory.
const journalFile = "journal.db"

func (a *app) get(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	return a.ask(func(c *rest.Client) (json.RawMessage, error) { return c.Get(ctx, path, query) })
}

func (a *app) post(ctx context.Context, path string, body any) (json.RawMessage, error) {
	return a.ask(func(c *rest.Client) (json.RawMessage, error) { return c.Post(ctx, path, body) })
}

func (a *app) delete(ctx context.Context, path string) (json.RawMessage, error) {
	return a.ask(func(c *rest.Client) (json.RawMessage, error) { return c.Delete(ctx, path) })
}

func (a *app) job(ctx context.Context, id string, wait time.Duration) (json.RawMessage, error) {
	return a.ask(func(c *rest.Client) (json.RawMessage, error) { return c.Job(ctx, id, wait) })
}

// ask finds the running broker anew for every request: it may have been
// restarted meanwhile, with another port.
func (a *app) ask(question func(*rest.Client) (json.RawMessage, error)) (json.RawMessage, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	addr, token, err := statedir.Discover(dir)
	if errors.Is(err, statedir.ErrNotRunning) {
		return nil, noBroker(err)
	}
	if err != nil {
		return nil, err
	}
	client := rest.NewClient("http://"+reachable(addr), token)
	defer client.Close()
	answer, err := question(client)
	if errors.Is(err, rest.ErrNotRunning) {
		return nil, noBroker(err)
	}
	return answer, err
}

// stateDir gives the directory in use: the flag, else what the environment says.
func (a *app) stateDir() (string, error) {
	if a.stateDirFlag != "" {
		return filepath.Abs(a.stateDirFlag)
	}
	return statedir.DefaultPath(a.getenv)
}

// reachable is where a client finds a broker that listens on every address.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip, err := netip.ParseAddr(host); host == "" || (err == nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// comeback is how long what follows a broker waits for it to be there again: a
// service manager needs some seconds for a restart.
const comeback = 30 * time.Second

// absence is of a broker that is followed.
type absence struct {
	patience time.Duration
	since    time.Time // when it left off; zero: it was never there
}

// ends reports whether err, or nil for a broker that left off, ends the following.
func (s *absence) ends(err error, now time.Time) bool {
	var f *failure
	var api *rest.APIError
	switch {
	case err == nil || errors.Is(err, rest.ErrNotEnded):
		s.since = now
		return false
	case errors.As(err, &f) && f.exit == exitNoBroker, errors.As(err, &api) && api.Code == broker.CodeShuttingDown:
		return s.since.IsZero() || now.Sub(s.since) >= s.patience
	}
	return true
}
