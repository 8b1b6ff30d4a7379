package box

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type ping struct {
	n     int
	once  sync.Once
	reply chan error
}

func (p *ping) NewWork()         {}
func (p *ping) Reject(err error) { p.settle(err) }
func (p *ping) settle(err error) { p.once.Do(func() { p.reply <- err }) }

func testActors() *actor.ActorSystem { return NewSystem(slog.New(slog.DiscardHandler)) }

// Every request is answered exactly once, whatever happens to its actor.
func TestMailboxLosesNothing(t *testing.T) {
	for _, mode := range []string{"stop", "poison", "panic", "none"} {
		t.Run(mode, func(t *testing.T) {
			answers := map[string]int{}
			for range 20 {
				s := testActors()
				pid := s.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
					if p, ok := c.Message().(*ping); ok {
						if mode == "panic" && p.n%50 == 0 {
							panic("hit")
						}
						p.settle(nil)
					}
				}, actor.WithMailbox(Mailbox(64))))
				var all []*ping
				var mu sync.Mutex
				var senders sync.WaitGroup
				for g := range 8 {
					senders.Go(func() {
						for i := range 50 {
							p := &ping{n: g*50 + i, reply: make(chan error, 1)}
							s.Root.Send(pid, p)
							mu.Lock()
							all = append(all, p)
							mu.Unlock()
						}
					})
				}
				switch mode {
				case "stop":
					s.Root.Stop(pid)
				case "poison":
					s.Root.Poison(pid)
				}
				senders.Wait()
				for _, p := range all {
					select {
					case err := <-p.reply:
						answers[word(err)]++
					case <-time.After(10 * time.Second):
						t.Fatal("a request was never answered")
					}
				}
				if mode != "stop" {
					_ = s.Root.StopFuture(pid).Wait()
				}
				s.Shutdown()
			}
			t.Log(answers)
			if mode == "panic" && answers["panic"] == 0 {
				t.Error("no request met a panic: the test shows nothing")
			}
			if answers["other"] > 0 {
				t.Error("an answer was none of those that a mailbox gives")
			}
		})
	}
}

func word(err error) string {
	switch {
	case err == nil:
		return "handled"
	case errors.Is(err, ErrFull):
		return "full"
	case errors.Is(err, ErrStopped):
		return "stopped"
	case strings.HasPrefix(err.Error(), "actor panic: hit"):
		return "panic"
	}
	return "other"
}

// A full mailbox rejects requests at once and still takes what belongs to work
// that was let in.
func TestMailboxFullRejectsOnlyNewWork(t *testing.T) {
	s := testActors()
	defer s.Shutdown()
	gate, entered := make(chan struct{}), make(chan struct{}, 1)
	var seen []string
	done := make(chan struct{})
	pid := s.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *ping:
			select {
			case entered <- struct{}{}:
			default:
			}
			<-gate
			m.settle(nil)
		case string:
			seen = append(seen, m)
			close(done)
		}
	}, actor.WithMailbox(Mailbox(2))))
	send := func() *ping {
		p := &ping{reply: make(chan error, 1)}
		s.Root.Send(pid, p)
		return p
	}
	send()
	<-entered // one runs, so the next two wait
	send()
	send()
	if err := <-send().reply; !errors.Is(err, ErrFull) {
		t.Fatalf("the fourth request: %v", err)
	}
	s.Root.Send(pid, "passes")
	close(gate)
	<-done
	if len(seen) != 1 {
		t.Fatalf("seen %v", seen)
	}
	_ = s.Root.StopFuture(pid).Wait()
}
