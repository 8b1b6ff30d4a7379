package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"berth/transport/rest"
)

func (a *app) get(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	return a.ask(func(c *rest.Client) (json.RawMessage, error) { return c.Get(ctx, path, query) })
}

func (a *app) post(ctx context.Context, path string, body any) (json.RawMessage, error) {
	return a.ask(func(c *rest.Client) (json.RawMessage, error) { return c.Post(ctx, path, body) })
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
	at, err := locate(dir)
	if err != nil {
		return nil, err
	}
	client := rest.NewClient(at.base, at.token)
	defer client.Close()
	answer, err := question(client)
	if errors.Is(err, rest.ErrNotRunning) {
		return nil, noBroker(dir)
	}
	return answer, err
}
