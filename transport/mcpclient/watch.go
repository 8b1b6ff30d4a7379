package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"berth/broker"
	"berth/transport/jsonrpc"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// ackWait is how long the acknowledgement of a stream is waited for.
	ackWait = 5 * time.Second
	// endWait is how long the end of a stream is waited for before the next is
	// opened, where two at once disturb each other. No answer to a cancel is
	// promised, so it is short.
	endWait = 500 * time.Millisecond
	// maxWatched limits the resources that are watched over one connection.
	maxWatched = 1000

	acknowledged = "notifications/subscriptions/acknowledged"
)

// watch keeps one subscriptions/listen stream open for all that Berth wants to
// be told of: the changes of lists that the backend declares, and the
// resources that somebody has subscribed to. What is wanted is fixed when a
// stream opens, so another wish means another stream.
type watch struct {
	hop     hop
	opts    Options
	noise   *noise
	hear    broker.Hear
	changes []string // of lists, as notifications
	offers  bool     // updates of resources
	overlap bool     // two streams at once do not disturb each other
	over    <-chan struct{}

	poke chan struct{} // capacity 1: the wish has changed
	late atomic.Bool   // the lists were read before a stream was open

	mu      sync.Mutex
	uris    map[string]bool
	wish    uint64        // counts the changes of uris
	settled uint64        // the wish that accord is about
	news    chan struct{} // closed, and replaced, with each accord
	accord  accord
}

// accord is what came of a wish.
type accord struct {
	acked   bool
	uris    []string // that the backend agreed to tell of
	refused *broker.RPCError
	failure *broker.Failure
}

func newWatch(h hop, opts Options, n *noise, hear broker.Hear, capabilities json.RawMessage, over <-chan struct{}) *watch {
	w := &watch{
		hop: h, opts: opts, noise: n, hear: hear, over: over,
		poke: make(chan struct{}, 1), news: make(chan struct{}), uris: map[string]bool{}, wish: 1,
	}
	if hear != nil {
		w.changes = changes(capabilities)
	}
	var c struct {
		Resources struct {
			Subscribe bool `json:"subscribe"`
		} `json:"resources"`
	}
	// What does not decode offers nothing.
	_ = json.Unmarshal(capabilities, &c)
	w.offers = c.Resources.Subscribe
	return w
}

func (w *watch) tell(method string, params json.RawMessage) {
	tell(w.hear, w.noise, &message{method: method, params: params})
}

// subscribe adds a resource, and waits until the backend has agreed.
func (w *watch) subscribe(ctx context.Context, uri string) (*broker.RPCError, error) {
	if !w.offers {
		return &broker.RPCError{Code: mcp.METHOD_NOT_FOUND, Message: "The backend does not tell of changes of resources."}, nil
	}
	w.mu.Lock()
	if !w.uris[uri] {
		if len(w.uris) >= maxWatched {
			w.mu.Unlock()
			return broker.NoPeer("Too many resources of this backend are watched."), nil
		}
		w.uris[uri] = true
		w.wished()
	}
	wish := w.wish
	w.mu.Unlock()
	a, err := w.await(ctx, wish)
	if err == nil && a.acked && slices.Contains(a.uris, uri) {
		return nil, nil
	}
	w.unsubscribe(uri)
	switch {
	case err != nil:
		return nil, err
	case a.refused != nil:
		return a.refused, nil
	case a.failure != nil:
		return nil, a.failure
	}
	return broker.NoPeer("The backend did not agree to tell of changes of this resource."), nil
}

// unsubscribe takes a resource out; what the backend thinks of it is of no
// interest.
func (w *watch) unsubscribe(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.uris[uri] {
		delete(w.uris, uri)
		w.wished()
	}
}

// wished needs the lock.
func (w *watch) wished() {
	w.wish++
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// await waits for what comes of a wish. Its error is a *broker.Failure.
func (w *watch) await(ctx context.Context, wish uint64) (accord, error) {
	for {
		w.mu.Lock()
		settled, a, news := w.settled, w.accord, w.news
		w.mu.Unlock()
		if settled >= wish {
			return a, nil
		}
		select {
		case <-news:
		case <-w.over:
			return accord{}, &broker.Failure{Gone: true, Cause: "the backend ended before it agreed to the subscription"}
		case <-ctx.Done():
			return accord{}, &broker.Failure{Dispatched: true, Cause: "the backend did not agree to the subscription in time"}
		}
	}
}

func (w *watch) settle(wish uint64, a accord) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settled, w.accord = wish, a
	close(w.news)
	w.news = make(chan struct{})
}

// wanted gives the present wish as params; nil when nothing is wanted.
func (w *watch) wanted() (wish uint64, uris []string, params json.RawMessage) {
	w.mu.Lock()
	wish = w.wish
	for uri := range w.uris {
		uris = append(uris, uri)
	}
	w.mu.Unlock()
	slices.Sort(uris)
	filter := struct {
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		Resources bool     `json:"resourcesListChanged,omitempty"`
		URIs      []string `json:"resourceSubscriptions,omitempty"`
	}{slices.Contains(w.changes, toolsChanged), slices.Contains(w.changes, promptsChanged), slices.Contains(w.changes, resourcesChanged), uris}
	if len(w.changes) == 0 && len(uris) == 0 {
		return wish, nil, nil
	}
	raw, _ := json.Marshal(filter) // texts and truth values always encode
	params, err := dress(json.RawMessage(`{"notifications":`+string(raw)+`}`), statelessVersion, w.opts.client(), "")
	if err != nil {
		return wish, nil, nil // cannot be: both parts are our own
	}
	return wish, uris, params
}

// run keeps the stream open until ctx ends.
func (w *watch) run(ctx context.Context) {
	var streams sync.WaitGroup
	defer streams.Wait()
	var live *subscription
	defer func() { live.end(0) }()
	wait := newStreamBackoff()
	gap := false // something may have happened that nobody told us of
	for ctx.Err() == nil {
		wish, uris, params := w.wanted()
		if params == nil {
			live.end(0)
			live, gap = nil, false
			w.settle(wish, accord{})
			if !w.pause(ctx, nil, nil) {
				return
			}
			continue
		}
		if live != nil && !w.overlap {
			live.end(endWait)
			live, gap = nil, true
		}
		began := time.Now()
		next := w.open(ctx, &streams, params)
		a := next.accord(ctx)
		live.end(endWait)
		live = next
		w.settle(wish, a)
		if a.acked && (gap || w.late.Swap(false)) {
			w.missed(uris)
			gap = false
		}
		if !w.pause(ctx, live.done, nil) {
			return
		}
		if !live.ended() {
			continue // another wish
		}
		live, gap = nil, true
		if a.final() {
			if !w.pause(ctx, nil, nil) {
				return
			}
			continue
		}
		if time.Since(began) >= steadyStream {
			wait.Reset()
		}
		if !w.pause(ctx, nil, time.After(wait.NextBackOff())) {
			return
		}
	}
}

// pause waits for another wish, or for one of the channels; false when ctx
// ended.
func (w *watch) pause(ctx context.Context, done <-chan struct{}, timer <-chan time.Time) bool {
	select {
	case <-w.poke:
	case <-done:
	case <-timer:
	case <-ctx.Done():
		return false
	}
	return true
}

// missed tells of whatever may have changed while no stream was open.
func (w *watch) missed(uris []string) {
	for _, c := range w.changes {
		w.tell(c, nil)
	}
	for _, uri := range uris {
		w.tell(resourceUpdated, append(jsonrpc.AppendQuote([]byte(`{"uri":`), uri), '}'))
	}
}

// final reports that asking the same again is pointless.
func (a accord) final() bool {
	if a.refused != nil {
		return a.refused.Code == mcp.METHOD_NOT_FOUND || a.refused.Code == mcp.INVALID_PARAMS
	}
	return a.failure == nil && !a.acked
}

// subscription is one stream.
type subscription struct {
	w      *watch
	cancel context.CancelFunc
	acked  chan []string // capacity 1
	done   chan struct{}
	answer broker.Answer // read after done
	err    error
}

func (w *watch) open(ctx context.Context, streams *sync.WaitGroup, params json.RawMessage) *subscription {
	ctx, cancel := context.WithCancel(ctx)
	s := &subscription{w: w, cancel: cancel, acked: make(chan []string, 1), done: make(chan struct{})}
	streams.Go(func() {
		defer cancel()
		defer close(s.done)
		s.answer, s.err = w.hop.listen(ctx, string(mcp.MethodSubscriptionsListen), params, s.take)
	})
	return s
}

// take gets what comes on the stream.
func (s *subscription) take(m *message) {
	if m.method == acknowledged {
		var p struct {
			Notifications struct {
				URIs []string `json:"resourceSubscriptions"`
			} `json:"notifications"`
		}
		if json.Unmarshal(m.params, &p) != nil {
			s.w.noise.broken.Add(1)
			return
		}
		select {
		case s.acked <- p.Notifications.URIs:
		default:
		}
		return
	}
	params := m.params
	if len(bytes.TrimSpace(params)) > 0 {
		trimmed, err := trimMeta(params, ofSubscription)
		if err != nil {
			s.w.noise.broken.Add(1)
			return
		}
		params = trimmed
	}
	s.w.tell(m.method, params)
}

// accord waits for what the backend says to the stream.
func (s *subscription) accord(ctx context.Context) accord {
	limit := time.NewTimer(ackWait)
	defer limit.Stop()
	select {
	case uris := <-s.acked:
		return accord{acked: true, uris: uris}
	case <-limit.C:
		return accord{failure: &broker.Failure{Dispatched: true, Cause: fmt.Sprintf("the backend did not acknowledge the subscription within %s", ackWait)}}
	case <-ctx.Done():
		return accord{failure: &broker.Failure{Dispatched: true, Cause: "the connection was closed"}}
	case <-s.done:
	}
	select {
	case uris := <-s.acked: // both were ready
		return accord{acked: true, uris: uris}
	default:
	}
	if f, ok := s.err.(*broker.Failure); ok {
		return accord{failure: f}
	}
	return accord{refused: s.answer.Error}
}

// end ends the stream and waits for that as long as limit.
func (s *subscription) end(limit time.Duration) {
	if s == nil {
		return
	}
	s.cancel()
	if limit > 0 {
		wait(s.done, limit)
	}
}

func (s *subscription) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}
