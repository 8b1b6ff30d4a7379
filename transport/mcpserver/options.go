package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/policy"
	"berth/broker/policy/proof"
	"berth/broker/shape"
	"berth/transport/httpguard"
)

// Calls is how calls are run.
type Calls interface {
	// Do runs one call and waits for its reply. The end of ctx means that the
	// caller's connection was dropped.
	Do(ctx context.Context, req actors.Request) actors.Reply
	// Cancel asks for the end of a session's request; requestID is its raw id.
	Cancel(session, requestID, reason string)
}

// Sessions is who knows the harness sessions.
type Sessions interface {
	// Attach makes a session known. It is called for each request of a session.
	Attach(actors.SessionInfo) *broker.Refusal
	// End forgets a session.
	End(session string)
}

// Catalogs is where verbs are looked up.
type Catalogs interface {
	Catalog() *catalog.Snapshot
	// AwaitCatalog returns when nothing in the profile is pending, else when ctx ends.
	AwaitCatalog(ctx context.Context, profile string) *catalog.Snapshot
	// Availability says how a backend is, in a word of contracts/catalog.md
	// section 1; it answers at once.
	Availability(backend string) string
	// WhyPending refuses what depends on backends of which nothing is known.
	WhyPending(backends []string) *broker.Refusal
}

// Standing is what harnesses ask for that goes on after the request. A holder is
// a session, or a stream of the stateless era.
type Standing interface {
	// Listen takes what backends say outside of any call, and that the catalog
	// changed.
	Listen(wants func(actors.Notice) bool) *actors.Listener
	// Subscribe, Unsubscribe and SetLevel run the request and keep what it asks
	// for, for one of many that share the backend.
	Subscribe(ctx context.Context, holder, uri string, req actors.Request) actors.Reply
	Unsubscribe(ctx context.Context, holder, uri string, req actors.Request) actors.Reply
	SetLevel(ctx context.Context, holder, level string, req actors.Request) actors.Reply
	// KeepLevel is SetLevel of several backends without a request: one that is
	// not up is told when it is.
	KeepLevel(ctx context.Context, holder string, backends []string, level string)
	// Subscribed and Level say what a holder wants to hear.
	Subscribed(backend, uri, holder string) bool
	Level(backend, level, holder string) (wanted, said bool)
	// Forget drops what a holder asked for; the end of a session does.
	Forget(holder string)
}

// Shaping is how answers are cut to their result budget, and what is said of
// them.
type Shaping struct {
	Counter shape.Counter
	Store   *shape.Store // where the rest is kept; required with a counter
	// NoEnvelope leaves `_meta["berth/call"]` away.
	NoEnvelope bool
	// Random gives the bits of handles; nil: crypto/rand. What a handle costs in
	// tokens differs, and with it by a little what fits beside it.
	Random io.Reader
}

// Proofs is the gate that holds writes back; actors.ProofGate is one.
type Proofs interface {
	policy.Gate
	// Shows finds what an answer shows its caller, to be granted when it is
	// released whole; nil is nothing.
	Shows(call *broker.Call, reply actors.Reply) *actors.Shown
	// Released finds what the result of a job grants to whom it is released.
	Released(to proof.Caller, job string) *actors.Shown
}

// Surfaces is the record behind a handshake: what a harness was given and what
// it has shown to reach.
type Surfaces interface {
	// Served says that a page of the profile's list was sent to holder.
	Served(holder string, profile *catalog.Profile, first bool)
	// Called says that holder called a verb by a name, itself.
	Called(holder, name string)
}

// Broker is what the front needs of the rest of Berth; actors.System is one.
type Broker interface {
	Calls
	Sessions
	Catalogs
	Jobs
	Questions
	Standing
}

// Options configures [New]. Broker, Guard and SessionKey are required.
type Options struct {
	Broker Broker
	// Guard checks every request before anything else and limits its body.
	Guard *httpguard.Guard
	// SessionKey signs session ids, at least 16 bytes. Every broker with the
	// same key accepts them, the next life of this one included.
	SessionKey []byte
	// RuntimeID names this life of the broker; Version its build.
	RuntimeID string
	Version   string

	// Bindings is who knows the instances that sessions bring; nil: none may.
	Bindings Bindings
	// Tier is the profile of a path that names none; empty is the essential one.
	Tier string
	// ReadOnly has the profiles that only read, by name.
	ReadOnly map[string]bool

	// Shaping is how answers of merged profiles are cut to size; without a
	// counter they are not.
	Shaping Shaping
	// Proofs holds writes back until their callers have seen what they change;
	// nil: nothing is held back.
	Proofs Proofs
	// Wakes is who knows what participants of the board have not read; nil: nobody.
	Wakes Wakes
	// ReadOnlyProcess lets nobody do more than read.
	ReadOnlyProcess bool
	// Surfaces keeps what was served to whom and what was called; nil: nobody does.
	Surfaces Surfaces

	// Tracer records what becomes of requests; nil: nobody does. A trace context
	// is passed on all the same.
	Tracer Tracer
	// Refused is told of each refusal of a call that was not handed to Broker;
	// nil: nobody is. It must not block.
	Refused func(broker.Code)

	Logger *slog.Logger // nil: nothing is logged
	Limits Limits
	// Clients is the table that says what each client is known to bear; nil is
	// [MeasuredClients].
	Clients []ClientLimits

	Now    func() time.Time // nil: time.Now
	Random io.Reader        // nil: crypto/rand
}

// Limits bounds what one client can make the front hold. A zero value is the
// default that stands beside it.
type Limits struct {
	MaxStreams int           // requests that wait for an answer at once; 4096
	WriteEvent time.Duration // for a client to take one event, or 256 KiB of a larger one; 30 s
	KeepAlive  time.Duration // between signs of life on an idle stream; 10 s
	ListWait   time.Duration // for a list that is not known yet; 5 s
	// Quick is how long an answer may take and still be sent as plain JSON; 75 ms.
	Quick time.Duration
}

func (l Limits) withDefaults() Limits {
	defaultTo(&l.MaxStreams, 4096)
	defaultTo(&l.WriteEvent, 30*time.Second)
	defaultTo(&l.KeepAlive, 10*time.Second)
	defaultTo(&l.ListWait, 5*time.Second)
	defaultTo(&l.Quick, 75*time.Millisecond)
	return l
}

func defaultTo[T int | time.Duration](value *T, def T) {
	if *value <= 0 {
		*value = def
	}
}

// minSessionKey is the shortest key that signs session ids.
const minSessionKey = 16

// validate says what is missing.
func (o *Options) validate() error {
	switch {
	case o.Broker == nil:
		return errors.New("mcpserver: Options.Broker is missing")
	case o.Guard == nil:
		return errors.New("mcpserver: Options.Guard is missing")
	case len(o.SessionKey) < minSessionKey:
		return errors.New("mcpserver: Options.SessionKey is shorter than 16 bytes")
	}
	return nil
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Tier == "" {
		o.Tier = catalog.Essential
	}
	if o.Clients == nil {
		o.Clients = MeasuredClients
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Shaping.Random == nil {
		o.Shaping.Random = rand.Reader
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Shaping.Random == nil {
		o.Shaping.Random = rand.Reader
	}
	o.Limits = o.Limits.withDefaults()
}
