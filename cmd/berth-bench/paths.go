package main

import (
	"context"
	"errors"
)

// The paths, as the tables name them.
const (
	nameDirect = "direct"
	nameProxy  = "ReverseProxy"
	nameTuned  = "ReverseProxy, GOGC=400"
	nameBerth  = "Berth, /mcp"
	nameExact  = "Berth, /mcp/echo"
	nameOther  = "Berth, other build"
)

// measureHTTP compares the ways to an HTTP backend.
func measureHTTP(ctx context.Context, l *lab, r *report) (err error) {
	echo, err := l.echo(ctx)
	if err != nil {
		return err
	}
	proxy, err := l.start(ctx, l.self, "-role", "proxy", "-backend", echo.line)
	if err != nil {
		return err
	}
	// Berth collects its garbage less often than Go does by itself. What that
	// alone makes of a proxy is measured too.
	tuned, err := l.startIn(ctx, []string{"GOGC=400"}, l.self, "-role", "proxy", "-backend", echo.line)
	if err != nil {
		return err
	}
	cfg := config{httpBackend: echo.line}
	b, err := l.berth(ctx, "http", cfg)
	if err != nil {
		return err
	}
	targets := []target{
		{name: nameDirect, addr: echo.line, path: "/", tool: "echo"},
		{name: nameProxy, addr: proxy.line, path: "/", tool: "echo", pids: []int{proxy.pid}},
		{name: nameTuned, addr: tuned.line, path: "/", tool: "echo", pids: []int{tuned.pid}},
		b.target(nameBerth, "/mcp", "echo__echo"),
		b.target(nameExact, "/mcp/echo", "echo"),
	}
	if l.opts.against != "" {
		other, err := l.otherBerth(ctx, "http-other", cfg)
		if err != nil {
			return err
		}
		targets = append(targets, other.target(nameOther, "/mcp", "echo__echo"))
	}
	var paths []path
	for _, t := range targets {
		clients, err := dialAll(ctx, t, maxClients())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeAll(clients)) }()
		paths = append(paths, path{name: t.name, clients: asClients(clients), pids: t.pids})
	}
	for _, n := range l.opts.loads() {
		got, err := compare(ctx, paths, n, l.opts.rounds, l.opts.turn)
		if err != nil {
			return err
		}
		r.http = append(r.http, summarise(got, paths, n)...)
	}
	return l.stopAll()
}

// measureStdio compares the ways to a stdio child.
func measureStdio(ctx context.Context, l *lab, r *report) (err error) {
	pipe, err := startPipe(ctx, l.self)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pipe.close()) }()
	b, err := l.berth(ctx, "stdio", config{stdioBackend: l.self})
	if err != nil {
		return err
	}
	t := b.target(nameBerth, "/mcp", "echo__echo")
	clients, err := dialAll(ctx, t, maxClients())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(clients)) }()
	paths := []path{
		{name: nameDirect, clients: pipe.clients(maxClients())},
		{name: t.name, clients: asClients(clients), pids: t.pids},
	}
	rounds := l.opts.rounds*2/3 | 1 // odd, so that a median is one of the turns
	for _, n := range l.opts.loads() {
		got, err := compare(ctx, paths, n, rounds, l.opts.turn)
		if err != nil {
			return err
		}
		r.stdio = append(r.stdio, summarise(got, paths, n)...)
	}
	return l.stopAll()
}

func maxClients() int { return clientCounts[len(clientCounts)-1] }

func asClients(in []*httpClient) []client {
	out := make([]client, len(in))
	for i, c := range in {
		out[i] = c
	}
	return out
}
