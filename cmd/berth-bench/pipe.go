package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// pipe is the stdio backend without Berth: a child, and clients that share its
// pipes as sessions of a broker do.
type pipe struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // the reader has seen the end

	mu    sync.Mutex // of stdin
	users []*pipeClient
}

// pipeClient is one of the clients. The reader goroutine fills answer and then
// signals; in between it is the client's.
type pipeClient struct {
	p      *pipe
	script *script
	answer []byte
	ready  chan struct{} // capacity 1
	timer  *time.Timer
}

func startPipe(ctx context.Context, self string) (*pipe, error) {
	cmd := exec.CommandContext(ctx, self, "-role", "echo-stdio")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &pipe{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	for i := range maxClients() {
		s := newScript(i, "echo", func(body []byte) []byte { return append(body, '\n') })
		p.users = append(p.users, &pipeClient{p: p, script: s, ready: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)})
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(bufio.NewReaderSize(stdout, 64<<10))
	return p, nil
}

// read hands each line to the client whose id it carries.
func (p *pipe) read(in *bufio.Reader) {
	defer close(p.ended)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		_, rest, _ := bytes.Cut(line, []byte(`"id":`))
		id, err := strconv.Atoi(string(rest[:min(len(rest), idDigits)]))
		who := (id - firstID) / idsEach
		if err != nil || who < 0 || who >= len(p.users) {
			return // the clients find the end
		}
		c := p.users[who]
		c.answer = append(c.answer[:0], line...)
		c.ready <- struct{}{}
	}
}

func (p *pipe) clients(n int) []client {
	out := make([]client, n)
	for i := range out {
		out[i] = p.users[i]
	}
	return out
}

func (c *pipeClient) limit(d time.Duration) { c.timer.Reset(d) }

func (c *pipeClient) call() error {
	line := c.script.next()
	c.p.mu.Lock()
	_, err := c.p.stdin.Write(line)
	c.p.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-c.ready:
		return c.script.check(c.answer)
	case <-c.p.ended:
		return errors.New("the child has ended")
	case <-c.timer.C:
		return errors.New("no answer in time")
	}
}

func (p *pipe) close() error {
	if err := p.stdin.Close(); err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(stopLimit):
		return errors.Join(errors.New("the echo child does not end"), p.cmd.Process.Kill())
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("the echo child: %w", err)
	}
	return nil
}
