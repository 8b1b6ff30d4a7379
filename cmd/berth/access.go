package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/credential"
	"berth/journal"
	"berth/transport/dashboard"
	"berth/transport/httpguard"
	"berth/transport/statedir"
)

// access is who may use a running broker.
type access struct {
	local    func(token string) bool // the state directory's own token
	token    *statedir.Credential    // what local asks; nil: it is another's, and has no sessions
	apiKey   *statedir.Credential
	desk     *credential.Desk
	launches *credential.Launches // what agents of missions come with
	sessions *credential.Sessions
	attempts *credential.Attempts
}

// operatorByKey is who the broker's API key stands for.
var operatorByKey = broker.Principal{Tenant: broker.LocalOperator.Tenant, User: "api-key", Role: broker.GlobalAdministrator}

// localSubject begins the subject of a session of the state directory's token. It
// goes on with which token that was.
const localSubject = "local:"

// openAccess reads the credentials; the journal is open.
func (b *running) openAccess() error {
	a := &access{local: b.verify, apiKey: b.apiKey, attempts: credential.NewAttempts()}
	if b.credential != nil && !b.foreignToken {
		a.token = b.credential
	}
	var err error
	if a.sessions, err = credential.NewSessions(b.sessionKey, rand.Reader); err != nil {
		return err
	}
	a.desk, err = credential.Open(credentialStore{b.journal, b.log}, credential.Options{Now: time.Now, Random: rand.Reader, Known: credential.Known{
		Profile: func(name string) bool { _, ok := b.system.Catalog().Profile(name); return ok && name != "" },
		Backend: func(name string) bool { return name == catalog.NativeName || b.hasBackend(name) },
	}})
	if err != nil {
		return fmt.Errorf("open the credentials: %w", err)
	}
	known := []broker.Principal{broker.LocalOperator}
	if name, _ := a.apiKey.Generation(); name != "" {
		known = append(known, operatorByKey)
	}
	a.launches = credential.NewLaunches(a.desk, rand.Reader, known...)
	b.access = a
	return nil
}

// say warns of credentials whose profiles do not exist any more: they are refused
// where they would use them.
func (a *access) say(b *running) {
	for _, r := range a.desk.List() {
		for _, name := range r.Profiles {
			if _, ok := b.system.Catalog().Profile(name); !ok && r.RevokedAt == nil {
				b.log.Warn("a credential names a profile that does not exist", slog.String("credential", r.ID), slog.String("profile", name))
			}
		}
	}
}

func (b *running) hasBackend(name string) bool {
	b.reload.mu.Lock() // a reload replaces the configuration
	defer b.reload.mu.Unlock()
	for _, c := range b.cfg.Backends {
		if c.Name == name {
			return true
		}
	}
	return false
}

// authenticate gives the caller of a credential.
func (a *access) authenticate(kind httpguard.Kind, value string) (broker.Caller, bool) {
	switch kind {
	case httpguard.Bearer:
		return a.bearer(value)
	case httpguard.SessionToken:
		subject, ok := a.sessions.Open(value, time.Now())
		if !ok {
			return broker.Caller{}, false
		}
		if name, local := strings.CutPrefix(subject, localSubject); local {
			caller, now := a.operator()
			return caller, name != "" && name == now
		}
		return a.desk.Caller(subject)
	case httpguard.APIKey:
		_, life := a.apiKey.Generation()
		return broker.Caller{Principal: operatorByKey, Life: life}, a.apiKey.Verify(value)
	}
	return broker.Caller{}, false
}

// authenticateMCP also gives the caller of a launch token, which is good for MCP
// and nowhere else.
func (a *access) authenticateMCP(kind httpguard.Kind, value string) (broker.Caller, bool) {
	if caller, ok := a.authenticate(kind, value); ok || kind != httpguard.Bearer {
		return caller, ok
	}
	return a.launches.Bearer(value)
}

func (a *access) bearer(token string) (broker.Caller, bool) {
	caller, _ := a.operator() // before the comparison: a token that is replaced between the two has ended
	if a.local(token) {
		return caller, true
	}
	return a.desk.Bearer(token)
}

// operator is who the state directory's token stands for, and which token that is.
func (a *access) operator() (c broker.Caller, token string) {
	c.Principal = broker.LocalOperator
	if a.token != nil {
		token, c.Life = a.token.Generation()
	}
	return c, token
}

// issue gives a session for a credential token.
func (a *access) issue(token string) (httpguard.Session, bool) {
	caller, ok := a.bearer(token)
	if !ok {
		return httpguard.Session{}, false
	}
	subject := caller.Credential
	if subject == "" {
		_, now := a.operator()
		if subject = localSubject + now; now == "" {
			return httpguard.Session{}, false
		}
	}
	session, expires, err := a.sessions.Issue(subject, time.Now())
	return httpguard.Session{Token: session, Expires: expires}, err == nil
}

// browserPaths are the places where a browser's session is good.
var browserPaths = append(slices.Clone(dashboard.Paths), "/api/v1")

// guard is what a front stands behind: authenticate says who may come in there.
func (b *running) guard(authenticate func(httpguard.Kind, string) (broker.Caller, bool)) *httpguard.Guard {
	a := b.access
	return httpguard.New(httpguard.Options{
		Authenticate: authenticate, Hosts: b.cfg.Broker.AllowedHosts, MaxBody: int64(b.cfg.Broker.MaxBody), Counted: b.metrics.Refused,
		Login: httpguard.Login{Paths: browserPaths, Issue: a.issue, CSRF: a.sessions.CSRF, Refused: b.refusedPage,
			End:   func(session string) { a.sessions.End(session, time.Now()) },
			Begin: func(from netip.Addr) (func(), *broker.Refusal) { return a.attempts.Begin(from, time.Now()) }},
	})
}

// credentialKind is the kind of the records of credentials.
const credentialKind = "credential"

// credentialStore keeps credentials in the journal.
type credentialStore struct {
	journal *journal.Journal
	log     *slog.Logger
}

func (s credentialStore) Credentials() ([]credential.Stored, error) {
	var out []credential.Stored
	for after := ""; ; {
		records, err := s.journal.Records(broker.RecordQuery{Kind: credentialKind, After: after, Limit: 1000})
		if errors.Is(err, journal.ErrUnreadable) { // nobody gets in by one that cannot be read
			s.log.Error("a credential could not be read", slog.String("cause", err.Error()))
		} else if err != nil {
			return nil, err
		}
		for _, r := range records {
			after = r.ID
			stored := credential.Stored{Revision: r.Revision}
			if err := json.Unmarshal(r.Value, &stored.Record); err != nil {
				s.log.Error("a credential could not be read", slog.String("credential", r.ID), slog.String("cause", err.Error()))
				continue
			}
			out = append(out, stored)
		}
		if len(records) == 0 {
			return out, nil
		}
	}
}

func (s credentialStore) SaveCredential(ctx context.Context, c credential.Stored, event *broker.Event) (uint64, error) {
	value, err := json.Marshal(c.Record)
	if err != nil {
		return 0, fmt.Errorf("encode a credential: %w", err)
	}
	change := broker.RecordChange{Kind: credentialKind, ID: c.ID, If: broker.AtRevision(c.Revision), Value: value}
	if event != nil {
		change.Events = []broker.Event{*event}
	}
	r, err := s.journal.Put(ctx, change)
	if errors.Is(err, broker.ErrRecordRevision) {
		return 0, fmt.Errorf("%w: %w", credential.ErrChanged, err)
	}
	return r.Revision, err
}

// stayRevoked has a restore of by's let nobody in who was put out since the backup
// was made.
func stayRevoked(by broker.Principal, log *slog.Logger) func(ctx context.Context, present, next *journal.Journal) error {
	return func(ctx context.Context, present, next *journal.Journal) error {
		return credential.StayRevoked(ctx, credentialStore{present, log}, credentialStore{next, log}, by, time.Now())
	}
}

// noteEvery is how often the days of last use are written.
const noteEvery = 10 * time.Minute

// noteUses writes the days on which credentials were last used, from time to
// time and at the end; stop waits for that.
func (b *running) noteUses() (stop func()) {
	over := make(chan struct{})
	var done sync.WaitGroup
	note := func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
		defer cancel()
		if err := b.access.desk.Note(ctx); err != nil {
			b.log.Warn("the last use of a credential could not be noted", slog.String("cause", err.Error()))
		}
	}
	done.Go(func() {
		every := time.NewTicker(noteEvery)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				note()
			case <-over:
				note()
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(over)
		done.Wait()
	})
}
