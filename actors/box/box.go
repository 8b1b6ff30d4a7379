// Package box is a mailbox that loses nothing, for actors of protoactor-go.
//
// It owns what becomes of a message that nobody will handle: whoever waits for
// it is told. It refuses new work beyond a limit. It holds no state of an actor.
//
// Concurrency rules: those of protoactor-go; a mailbox may be posted to from
// anywhere.
package box

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// The reasons for which a message is handed back instead of handled.
var (
	ErrFull    = errors.New("the actor's mailbox is full")
	ErrStopped = errors.New("the actor has stopped")
)

// Rejecter is a message that somebody waits for. Reject must be idempotent and
// must not block; it is the answer when the actor will never give one.
type Rejecter interface{ Reject(error) }

// Request is a message that starts new work and therefore counts against the
// mailbox limit. Everything else (done, cancel, timer and commit messages)
// passes the limit: it is bounded by the work that was let in.
type Request interface {
	Rejecter
	NewWork() // marks it
}

// Mailbox returns a producer of mailboxes that lose nothing: a request beyond
// limit is rejected, a message whose handler panics is rejected before the
// supervisor acts, and what is still queued after a stop is rejected too. What
// an actor has taken into its own state is the actor's to reject, in its
// Restarting and Stopping handlers.
func Mailbox(limit int) actor.MailboxProducer {
	unbounded := actor.Unbounded()
	return func() actor.Mailbox { return &box{Mailbox: unbounded(), limit: limit} }
}

type box struct {
	actor.Mailbox
	limit int
}

func (b *box) PostUserMessage(msg any) {
	if r, ok := msg.(Request); ok && b.UserMessageCount() >= b.limit {
		r.Reject(ErrFull)
		return
	}
	b.Mailbox.PostUserMessage(msg)
}

func (b *box) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	b.Mailbox.RegisterHandlers(&boxInvoker{MessageInvoker: invoker, self: invoker.(boxSelf)}, dispatcher)
}

// boxSelf is the part of an actor's context that tells whether it still lives.
type boxSelf interface {
	Self() *actor.PID
	ActorSystem() *actor.ActorSystem
}

// boxInvoker stands between the mailbox and the actor.
type boxInvoker struct {
	actor.MessageInvoker
	self     boxSelf
	stopping atomic.Bool
}

func (i *boxInvoker) InvokeSystemMessage(msg any) {
	if _, ok := msg.(*actor.Stop); ok {
		i.stopping.Store(true)
	}
	i.MessageInvoker.InvokeSystemMessage(msg)
}

func (i *boxInvoker) InvokeUserMessage(msg any) {
	r, ok := msg.(Rejecter)
	if !ok {
		i.MessageInvoker.InvokeUserMessage(msg)
		return
	}
	if i.stopping.Load() {
		if _, alive := i.self.ActorSystem().ProcessRegistry.GetLocal(i.self.Self().Id); !alive {
			r.Reject(ErrStopped)
			return
		}
	}
	defer func() {
		if p := recover(); p != nil {
			r.Reject(fmt.Errorf("actor panic: %v", p))
			panic(p) // supervision decides what becomes of the actor
		}
	}()
	i.MessageInvoker.InvokeUserMessage(msg)
}

// NewSystem makes an actor system in which no request is lost. What
// protoactor logs may hold a message, and a message a payload, so only its
// errors reach log; its dead-letter throttle, a goroutine for each interval, is
// kept short for the same reason: it has nothing to say.
func NewSystem(log *slog.Logger) *actor.ActorSystem {
	quiet := slog.New(errorsOnly{log.Handler()})
	s := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
	answerDeadLetters(s)
	return s
}

// errorsOnly passes on errors and nothing else.
type errorsOnly struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h errorsOnly) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelError && h.Handler.Enabled(ctx, l)
}

// answerDeadLetters rejects what is sent to an actor that is gone.
func answerDeadLetters(s *actor.ActorSystem) {
	s.EventStream.Subscribe(func(event any) {
		if d, ok := event.(*actor.DeadLetterEvent); ok {
			if r, ok := d.Message.(Rejecter); ok {
				r.Reject(ErrStopped)
			}
		}
	})
}
