package mcpclient

import (
	"sync"

	"berth/broker"
)

// life is the end of an incarnation: it comes once and has one cause.
type life struct {
	done  chan struct{}
	once  sync.Once
	cause string // written before done is closed
}

func newLife() *life { return &life{done: make(chan struct{})} }

// end ends the life; the first cause stays.
func (l *life) end(cause string) {
	l.once.Do(func() {
		l.cause = cause
		close(l.done)
	})
}

func (l *life) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// why gives the cause, and nothing while the life goes on.
func (l *life) why() string {
	if !l.over() {
		return ""
	}
	return l.cause
}

// tooLarge is the answer to a call whose answer was over the limit.
func tooLarge(limit int) *broker.Failure {
	const sentence = "The backend's answer is larger than the broker passes on; the call itself was carried out as far as the backend got."
	return &broker.Failure{
		Dispatched: true,
		Cause:      "the answer is over the limit",
		Refusal: broker.Refuse(broker.CodeAnswerTooLarge, sentence,
			map[string]any{"limit_bytes": limit}),
	}
}
