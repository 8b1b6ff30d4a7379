package main

import (
	"fmt"
	"sync"
	"time"
)

// progress is one line on standard error that tells a person what a command
// waits for and for how long. It writes nothing when standard error is no
// terminal.
type progress struct {
	app  *app
	mu   sync.Mutex
	what string
	quit chan struct{}
	done chan struct{}
}

// waitingFor begins the line; end takes it away.
func (a *app) waitingFor(what string) *progress {
	p := &progress{app: a, what: what, quit: make(chan struct{}), done: make(chan struct{})}
	if !a.errTerminal {
		close(p.done)
		return p
	}
	go func() {
		defer close(p.done)
		started := time.Now()
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-p.quit:
				fmt.Fprint(a.err, "\r\x1b[K")
				return
			case <-ticker.C:
				p.mu.Lock()
				line := p.what
				p.mu.Unlock()
				fmt.Fprintf(a.err, "\r\x1b[K%s, %s", plain(line), age(time.Since(started)))
			}
		}
	}()
	return p
}

// now changes what the line says.
func (p *progress) now(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = what
}

// end removes the line and returns once it is gone. It may be called again.
func (p *progress) end() {
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
	<-p.done
}
