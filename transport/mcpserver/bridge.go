package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/transport/jsonrpc"
)

// Bridge carries messages between a client that speaks newline-delimited JSON
// over stdin and stdout and the /mcp endpoint of a running broker. It keeps
// the session id and the protocol version, and nothing else: calls, jobs and
// catalogs are the broker's.
//
// A message is posted once. It is posted a second time, after asking Discover
// again, only when it certainly did not arrive. One that may have arrived and
// got no answer is answered with `outcome_unknown`.
type Bridge struct {
	// Discover gives the running broker's address ("http://127.0.0.1:7420") and
	// token. It is asked at the first message and whenever the broker was not
	// found where it was.
	// token may also be a whole header line that holds a credential. An error that
	// is a refusal is what requests are answered with.
	Discover func() (baseURL, token string, err error)
	Profile  string // empty: the merged one

	// ReadOnly limits the session to reads: "1" all of it, a surface's name that
	// surface. Instance is what the session brings; nil: nothing.
	ReadOnly string
	Instance *actors.Binding
	// Participant is the session's key on the board; empty: it takes no part.
	Participant string
	// Surface writes the bridge's own refusals of calls; nil where the profile is
	// no surface's.
	Surface *catalog.Surface
	// ErrorsAsRPC gives the client a JSON-RPC error for each error result.
	ErrorsAsRPC bool

	Transport   http.RoundTripper // nil: direct connections, no proxy
	Grace       time.Duration     // for running requests after the input's end; 10 s
	MaxLine     int               // bytes; 64 MiB + 1 KiB
	MaxInFlight int               // requests; 256
	Silence     time.Duration     // after which a broker that sends nothing is given up; 60 s
}

// bridge is one run.
type bridge struct {
	Bridge
	client *http.Client
	run    context.Context // ends with the run
	stop   context.CancelCauseFunc

	outMu sync.Mutex
	out   io.Writer

	slots   chan struct{} // requests on their way
	notices chan struct{} // notifications and responses on their way
	work    sync.WaitGroup

	mu       sync.Mutex
	errs     io.Writer
	told     bool // that no broker runs
	base     string
	token    string
	session  string
	version  string
	flights  map[string]*flight // by raw id
	ear      *bridgeEar         // listening; nil before the first
	deafened bool               // nothing is listened for any more
}

// flight is a request on its way. A cancel of it must not overtake it.
type flight struct {
	id        string
	taken     chan struct{} // closed when the broker has begun to answer, or never will
	once      sync.Once
	cancelled bool // under bridge.mu
	carried   carried
	end       context.CancelFunc // hangs up; nil in the handshake era
	stays     bool               // it is answered when the client leaves
}

func (f *flight) arrive() { f.once.Do(func() { close(f.taken) }) }

// The waits of an end that nothing may hold up: a read or a write of a standard
// stream can block for as long as its other side likes, closed or not.
const (
	leaveWait = 100 * time.Millisecond // for the reader of the input
	tellWait  = 2 * time.Second        // for running requests to be told
)

// Run carries messages until the input ends, the output fails or ctx ends.
// After the input's end it waits for running requests, Grace at most; after the
// end of ctx they are told at once that nobody waits for their answers, and only
// cancels that the client wrote before are still carried. It returns nil when the
// input ended. A read or write that does not end with that
// is left behind.
func (b Bridge) Run(ctx context.Context, in io.Reader, out, errs io.Writer) error {
	if b.Discover == nil {
		return errors.New("mcpserver: Bridge.Discover is missing")
	}
	defaultTo(&b.Grace, 10*time.Second)
	defaultTo(&b.MaxLine, 64<<20+1<<10)
	defaultTo(&b.MaxInFlight, 256)
	defaultTo(&b.Silence, 60*time.Second)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &bridge{Bridge: b, run: ctx, stop: stop, out: out, errs: errs,
		slots: make(chan struct{}, b.MaxInFlight), notices: make(chan struct{}, 64), flights: map[string]*flight{}}
	transport := b.Transport
	if transport == nil {
		own := &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 64, IdleConnTimeout: 60 * time.Second, ResponseHeaderTimeout: b.Silence}
		defer own.CloseIdleConnections()
		transport = own
	}
	// A redirect would carry the token to an address that nobody configured.
	r.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

	err := r.carry(ctx, in)
	settled := err == nil && r.settle(ctx)
	r.deaf()
	if settled {
		r.goodbye(ctx)
	}
	stop(nil)
	within(r.ended(), tellWait)
	return err
}

// carry pumps until there is nothing more, or until ctx ends: also when the
// pump is in the middle of an answer that the client does not read.
func (r *bridge) carry(ctx context.Context, in io.Reader) error {
	pumped := make(chan error, 1)
	go func() { pumped <- r.pump(ctx, in) }()
	select {
	case err := <-pumped:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(3 * leaveWait)
	defer timer.Stop()
	select {
	case err := <-pumped:
		return err
	case <-timer.C:
		return context.Cause(ctx)
	}
}

// ended gives a channel that is closed when no message is on its way.
func (r *bridge) ended() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		r.work.Wait()
		close(ended)
	}()
	return ended
}

// within waits for done, limit at most, and reports whether it came.
func within(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// line is one line of the input, or the id of one that was too long.
type line struct {
	data    []byte
	skimmed *jsonrpc.Skim
	err     error
}

// pump handles lines in order until there are no more.
func (r *bridge) pump(ctx context.Context, in io.Reader) error {
	lines := make(chan line)
	readCtx, endRead := context.WithCancel(context.WithoutCancel(ctx))
	read := make(chan struct{})
	go func() {
		defer close(read)
		r.read(readCtx, in, lines)
	}()
	defer func() {
		endRead()
		if c, ok := in.(io.Closer); ok {
			_ = c.Close() // only to end a read that waits
			within(read, leaveWait)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			r.lastCancels(ctx, lines)
			return context.Cause(ctx)
		case l := <-lines:
			switch {
			case errors.Is(l.err, io.EOF):
				return nil
			case l.err != nil:
				return fmt.Errorf("read the client's messages: %w", l.err)
			case l.skimmed != nil:
				r.refuseLong(l.skimmed)
			case len(bytes.TrimSpace(l.data)) > 0:
				r.handle(ctx, l.data)
			}
		}
	}
}

// lastCancels carries what the client cancelled before ctx ended: one that
// cancels a call and then ends the bridge by a signal wants the call to end, and
// a broken connection alone is no cancel in the handshake era.
func (r *bridge) lastCancels(ctx context.Context, lines <-chan line) {
	timer := time.NewTimer(leaveWait)
	defer timer.Stop()
	for {
		var l line
		select {
		case <-timer.C:
			return
		case l = <-lines:
		}
		if l.err != nil {
			return
		}
		msg, err := jsonrpc.Decode(l.data)
		if err != nil || !isCancel(msg) {
			continue
		}
		after := r.overtaken(msg)
		if r.hangUp(after) {
			continue
		}
		select {
		case r.notices <- struct{}{}:
		case <-timer.C:
			return
		}
		r.work.Go(func() {
			defer func() { <-r.notices }()
			r.notify(ctx, msg, l.data, after)
		})
	}
}

func isCancel(msg jsonrpc.Message) bool {
	return msg.Kind != jsonrpc.Request && msg.Method == "notifications/cancelled"
}

func (r *bridge) read(ctx context.Context, in io.Reader, lines chan<- line) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	for {
		l := readLine(buffered, r.MaxLine)
		if l.err != nil && len(l.data) > 0 { // the last line may lack its break
			last := line{data: l.data}
			l.data = nil
			select {
			case lines <- last:
			case <-ctx.Done():
				return
			}
		}
		select {
		case lines <- l:
		case <-ctx.Done():
			return
		}
		if l.err != nil {
			return
		}
	}
}

// readLine reads to the next line break. Of a line over the limit only what an
// answer needs is kept.
func readLine(in *bufio.Reader, limit int) (l line) {
	for {
		piece, err := in.ReadSlice('\n')
		switch {
		case l.skimmed != nil:
			_, _ = l.skimmed.Write(piece)
		case len(l.data)+len(piece) > limit+1:
			l.skimmed = new(jsonrpc.Skim)
			_, _ = l.skimmed.Write(l.data)
			_, _ = l.skimmed.Write(piece)
			l.data = nil
		default:
			l.data = append(l.data, piece...)
		}
		if err == nil {
			l.data = bytes.TrimRight(l.data, "\r\n")
			return l
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			l.err = err
			return l
		}
	}
}

func (r *bridge) refuseLong(s *jsonrpc.Skim) {
	if id, ok := s.Request(); ok {
		r.say(refusalError(id, broker.Refuse(broker.CodeRequestTooLarge, "The message is longer than a line may be.", map[string]any{"limit_bytes": r.MaxLine})))
	}
}

// handle starts one message on its way.
func (r *bridge) handle(ctx context.Context, data []byte) {
	msg, err := jsonrpc.Decode(data)
	if err != nil {
		var e *jsonrpc.Error
		errors.As(err, &e)
		r.say(jsonrpc.AppendError(nil, e.ID, e.Code, e.Message, nil))
		return
	}
	if msg.Kind != jsonrpc.Request {
		after := r.overtaken(msg)
		if r.hangUp(after) {
			return
		}
		select {
		case r.notices <- struct{}{}:
		case <-ctx.Done():
			return
		}
		r.work.Go(func() {
			defer func() { <-r.notices }()
			r.notify(ctx, msg, data, after)
		})
		return
	}
	select {
	case r.slots <- struct{}{}:
	default:
		r.say(r.no(msg, broker.Refuse(broker.CodeOverloaded, "Too many requests of this client are waiting for answers.",
			map[string]any{"in_flight": r.MaxInFlight}).Retry(time.Second)))
		return
	}
	f, ok := r.takeOff(msg.ID)
	if !ok {
		<-r.slots
		r.say(r.no(msg, broker.Refuse(broker.CodeDuplicateRequestID, "A request with this id is still running.", nil)))
		return
	}
	if f.carried = carriage(msg); f.carried.header != nil {
		ctx, f.end = context.WithCancel(ctx)
		f.stays = msg.Method == "subscriptions/listen"
	}
	r.work.Go(func() {
		defer func() { <-r.slots }()
		defer r.land(f)
		r.request(ctx, msg, data, f)
	})
}

// takeOff notes a request before its goroutine runs, so that a cancel on the
// next line finds it. Two with one id would race to the broker, and a cancel
// would not know which is meant, so the second is not taken.
func (r *bridge) takeOff(id []byte) (*flight, bool) {
	f := &flight{id: string(id), taken: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flights[f.id] != nil {
		return nil, false
	}
	r.flights[f.id] = f
	return f, true
}

func (r *bridge) land(f *flight) {
	f.arrive()
	if f.end != nil {
		f.end()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flights[f.id] == f {
		delete(r.flights, f.id)
	}
}

// overtaken gives the request that a cancel is about.
func (r *bridge) overtaken(msg jsonrpc.Message) *flight {
	if !isCancel(msg) {
		return nil
	}
	params, err := jsonrpc.ParseObject(msg.Params)
	if err != nil {
		return nil
	}
	id, _ := params.Get("requestId")
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.flights[string(id)]
	if f != nil {
		f.cancelled = true
	}
	return f
}

// settle waits for running requests after the input's end and reports whether
// all have ended.
func (r *bridge) settle(ctx context.Context) bool {
	r.hushed()
	ended := r.ended()
	timer := time.NewTimer(r.Grace)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// say writes one message as one line. An output that fails ends the run.
func (r *bridge) say(message []byte) {
	text := append(jsonrpc.OneLine(message), '\n')
	r.outMu.Lock()
	_, err := r.out.Write(text)
	r.outMu.Unlock()
	if err != nil {
		r.stop(fmt.Errorf("write to the client: %w", err))
	}
}

// answer writes the answer to a request. The client may use its id again from
// then on, so it is given back first.
func (r *bridge) answer(f *flight, message []byte) {
	r.land(f)
	r.say(message)
}

// tell writes one line for a person.
func (r *bridge) tell(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.errs, "berth stdio: "+format+"\n", args...) // nobody is left to tell
}
