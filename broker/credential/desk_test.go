package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// memory is a store that keeps its promises, and fails when it is told to.
type memory struct {
	mu     sync.Mutex
	rows   map[string]Stored
	events []broker.Event
	err    error  // of the next writes
	before func() // runs before each write
	after  func() // runs after each write, before the writer knows
	missed func() // runs when a write came too late
}

func (m *memory) Credentials() ([]Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.rows)), m.err
}

func (m *memory) SaveCredential(_ context.Context, s Stored, event *broker.Event) (uint64, error) {
	if m.before != nil {
		m.before()
	}
	revision, err := m.save(s, event)
	switch {
	case err == nil && m.after != nil:
		m.after()
	case errors.Is(err, ErrChanged) && m.missed != nil:
		m.missed()
	}
	return revision, err
}

func (m *memory) save(s Stored, event *broker.Event) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return 0, m.err
	}
	if m.rows[s.ID].Revision != s.Revision {
		return 0, ErrChanged
	}
	if m.rows == nil {
		m.rows = map[string]Stored{}
	}
	s.Revision++
	m.rows[s.ID] = s
	if event != nil {
		m.events = append(m.events, *event)
	}
	return s.Revision, nil
}

// all is everything that the store was given, as text.
func (m *memory) all(t *testing.T) string {
	t.Helper()
	raw, err := json.Marshal([]any{m.rows, m.events})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(t *testing.T, m *memory) (*Desk, *clock) {
	t.Helper()
	c := &clock{now: noon}
	d, err := Open(m, Options{Now: c.Now, Random: rand.NewChaCha8([32]byte{1}), Max: 5, Known: Known{
		Profile: func(name string) bool { return name == "full" || name == "editor" },
		Backend: func(name string) bool { return name == "fs" }}})
	if err != nil {
		t.Fatal(err)
	}
	return d, c
}

var (
	admin = broker.LocalOperator
	ana   = Spec{Tenant: "t", User: "ana", Role: broker.User}
)

func create(t *testing.T, d *Desk, s Spec) (Record, string) {
	t.Helper()
	r, token, err := d.Create(t.Context(), admin, s)
	if err != nil {
		t.Fatal(err)
	}
	return r, token
}

func TestACredentialStandsForItsUserUntilItIsRevoked(t *testing.T) {
	m := &memory{}
	d, _ := open(t, m)
	spec := Spec{Tenant: "t", User: "ana", Role: broker.TenantAdministrator, Label: "laptop", Profiles: []string{"editor", "full"}, ReadOnly: true,
		Shares: map[string]broker.Share{"fs": {Weight: 4, PerSecond: 2.5}, "*": {InFlight: 2}}}
	r, token := create(t, d, spec)
	if len(token) != TokenLength || strings.Trim(token, alphabet) != "" {
		t.Fatalf("the token has %d characters", len(token))
	}
	c, ok := d.Bearer(token)
	if !ok || c.Principal != (broker.Principal{Tenant: "t", User: "ana", Role: broker.TenantAdministrator}) || c.Credential != r.ID || !c.ReadOnly ||
		c.ShareOf("fs").Weight != 4 || c.ShareOf("fs").Burst != 3 || c.ShareOf("other").InFlight != 2 || c.ShareOf("other").Holder != r.ID {
		t.Fatalf("%+v, %v", c, ok)
	}
	if name, ok := c.Serving(""); name != "editor" || !ok {
		t.Errorf("%q serves, %v", name, ok)
	}
	if _, ok := c.Serving("berth"); ok {
		t.Error("a profile is accepted that the credential does not name")
	}
	if _, ok := d.Caller(r.ID); !ok || c.Life.Err() != nil {
		t.Error("it is not good")
	}
	if _, err := d.Revoke(t.Context(), admin, r.ID, "lost"); err != nil {
		t.Fatal(err)
	}
	if _, ok := d.Bearer(token); ok {
		t.Error("a revoked token is let in")
	}
	if _, ok := d.Caller(r.ID); ok || c.Life.Err() == nil {
		t.Error("what it began goes on")
	}
	if again, err := d.Revoke(t.Context(), admin, r.ID, ""); err != nil || again.RevokedAt == nil {
		t.Errorf("a second time: %+v, %v", again, err)
	}
	if len(m.events) != 2 || m.events[0].EventType != EventCreated || m.events[1].EventType != EventRevoked ||
		!strings.Contains(string(m.events[1].Payload), `"By":"default/operator"`) || !strings.Contains(string(m.events[1].Payload), `"Reason":"lost"`) {
		t.Errorf("the events: %+v", m.events)
	}
	if strings.Contains(m.all(t), token) {
		t.Error("the store was given the token")
	}
	for _, e := range m.events {
		if strings.Contains(string(e.Payload)+e.Message, r.Hash) {
			t.Error("an event has the hash")
		}
	}
	d, _ = open(t, m)
	if _, ok := d.Bearer(token); ok {
		t.Error("after a restart it is good again")
	}
}

func TestWhatIsNoTokenIsNobody(t *testing.T) {
	d, _ := open(t, &memory{})
	_, token := create(t, d, ana)
	swapped := token[:10] + string(token[11]) + string(token[10]) + token[12:]
	for _, given := range []string{"", "x", token[1:], token + "x", strings.ToLower(token), swapped, strings.Repeat("A", TokenLength),
		token[:63] + "-", token[:62] + "é", " " + token[1:], strings.Repeat(token, 1000)} {
		if _, ok := d.Bearer(given); ok && given != token {
			t.Errorf("%.80q is let in", given)
		}
	}
	if _, ok := d.Bearer(token); !ok {
		t.Error("the token itself is not")
	}
}

func TestAWriteThatFailsChangesNothing(t *testing.T) {
	m := &memory{}
	d, _ := open(t, m)
	r, token := create(t, d, ana)
	m.err = errors.New("the disk is full")
	if _, _, err := d.Create(t.Context(), admin, ana); !errors.Is(err, m.err) || len(d.List()) != 1 {
		t.Errorf("create: %v, %d records", err, len(d.List()))
	}
	if _, err := d.Revoke(t.Context(), admin, r.ID, ""); !errors.Is(err, m.err) {
		t.Errorf("revoke: %v", err)
	}
	if c, ok := d.Bearer(token); !ok || c.Life.Err() != nil {
		t.Error("a revocation that is not durable counts")
	}
}

func TestARevocationGoesAheadOfANoteThatCameBetween(t *testing.T) {
	m := &memory{}
	d, c := open(t, m)
	r, token := create(t, d, ana)
	c.pass(48 * time.Hour)
	if _, ok := d.Bearer(token); !ok {
		t.Fatal("not let in")
	}
	m.before = func() {
		m.before = nil
		if err := d.Note(t.Context()); err != nil {
			t.Error(err)
		}
	}
	revoked, err := d.Revoke(t.Context(), admin, r.ID, "")
	if err != nil || revoked.LastUsed == nil || m.rows[r.ID].RevokedAt == nil {
		t.Fatalf("%+v, %v", m.rows[r.ID], err)
	}
	if _, ok := d.Bearer(token); ok {
		t.Error("it is let in")
	}
}

// What another wrote may not be in the table yet when a revocation comes too late
// for it.
func TestARevocationWaitsForWhatCameBetween(t *testing.T) {
	m := &memory{}
	d, c := open(t, m)
	r, token := create(t, d, ana)
	c.pass(48 * time.Hour)
	if _, ok := d.Bearer(token); !ok {
		t.Fatal("not let in")
	}
	written, missed := make(chan struct{}), make(chan struct{})
	m.after = sync.OnceFunc(func() { close(written); <-missed })
	m.missed = sync.OnceFunc(func() { close(missed) })
	noted := make(chan error)
	go func() { noted <- d.Note(t.Context()) }()
	<-written
	if _, err := d.Revoke(t.Context(), admin, r.ID, ""); err != nil {
		t.Error(err)
	}
	if err := <-noted; err != nil {
		t.Error(err)
	}
	if _, ok := d.Bearer(token); ok {
		t.Error("it is let in")
	}
}

func TestTheLastUseIsADayAndNotAWriteARequest(t *testing.T) {
	m := &memory{}
	d, c := open(t, m)
	r, token := create(t, d, ana)
	writes := 0
	m.before = func() { writes++ }
	for range 100 {
		d.Bearer(token)
	}
	if writes != 0 || d.List()[0].LastUsed == nil || !d.List()[0].LastUsed.Equal(noon.Truncate(day)) {
		t.Fatalf("%d writes, %v", writes, d.List()[0].LastUsed)
	}
	for range 3 {
		if err := d.Note(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if writes != 1 {
		t.Errorf("%d writes for one day", writes)
	}
	c.pass(day)
	d.Caller(r.ID)
	if err := d.Note(t.Context()); err != nil || writes != 2 || len(m.events) != 1 {
		t.Errorf("the next day: %v, %d writes, %d events", err, writes, len(m.events))
	}
	reopened, _ := open(t, m)
	if used := reopened.List()[0].LastUsed; used == nil || !used.Equal(noon.Add(day).Truncate(day)) {
		t.Errorf("after a restart: %v", used)
	}
}

func TestWhatCannotBeACredentialIsRefused(t *testing.T) {
	with := func(change func(*Spec)) Spec {
		s := ana
		change(&s)
		return s
	}
	share := func(backend string, s broker.Share) Spec {
		return with(func(x *Spec) { x.Shares = map[string]broker.Share{backend: s} })
	}
	for name, tc := range map[string]struct {
		spec Spec
		code broker.Code
	}{
		"no tenant":         {with(func(s *Spec) { s.Tenant = "" }), broker.CodeInvalidArguments},
		"a tenant/user":     {with(func(s *Spec) { s.Tenant = "a/b" }), broker.CodeInvalidArguments},
		"a user of 65":      {with(func(s *Spec) { s.User = strings.Repeat("u", 65) }), broker.CodeInvalidArguments},
		"a NUL":             {with(func(s *Spec) { s.User = "a\x00b" }), broker.CodeInvalidArguments},
		"no role":           {with(func(s *Spec) { s.Role = "" }), broker.CodeInvalidArguments},
		"another role":      {with(func(s *Spec) { s.Role = "root" }), broker.CodeInvalidArguments},
		"a label of lines":  {with(func(s *Spec) { s.Label = "a\nb" }), broker.CodeInvalidArguments},
		"a long label":      {with(func(s *Spec) { s.Label = strings.Repeat("é", 129) }), broker.CodeInvalidArguments},
		"a profile twice":   {with(func(s *Spec) { s.Profiles = []string{"full", "full"} }), broker.CodeInvalidArguments},
		"no such profile":   {with(func(s *Spec) { s.Profiles = []string{"full", "nope"} }), broker.CodeProfileUnknown},
		"an empty profile":  {with(func(s *Spec) { s.Profiles = []string{""} }), broker.CodeProfileUnknown},
		"no such backend":   {share("nope", broker.Share{Weight: 1}), broker.CodeInvalidArguments},
		"an empty share":    {share("fs", broker.Share{}), broker.CodeInvalidArguments},
		"a negative weight": {share("fs", broker.Share{Weight: -1}), broker.CodeInvalidArguments},
		"too much":          {share("*", broker.Share{InFlight: maxInFlight + 1}), broker.CodeInvalidArguments},
		"a burst alone":     {share("*", broker.Share{Burst: 2}), broker.CodeInvalidArguments},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{}
			d, _ := open(t, m)
			_, token, err := d.Create(t.Context(), admin, tc.spec)
			var refusal *broker.Refusal
			if !errors.As(err, &refusal) || refusal.Code != tc.code || token != "" || len(m.rows)+len(d.List()) != 0 {
				t.Errorf("%v, token of %d, %d rows", err, len(token), len(m.rows))
			}
		})
	}
}

func TestThereIsARoomForSoManyCredentials(t *testing.T) {
	d, _ := open(t, &memory{})
	for i := range 5 {
		create(t, d, Spec{Tenant: "t", User: fmt.Sprint("u", i), Role: broker.User})
	}
	_, _, err := d.Create(t.Context(), admin, ana)
	var refusal *broker.Refusal
	if !errors.As(err, &refusal) || refusal.Code != broker.CodeCredentialsFull {
		t.Errorf("%v", err)
	}
	if _, err := d.Revoke(t.Context(), admin, "crd_none", ""); !errors.As(err, &refusal) || refusal.Code != broker.CodeCredentialNotFound {
		t.Errorf("an id that never existed: %v", err)
	}
}

func TestManyAtOnceLoseNothing(t *testing.T) {
	m := &memory{}
	d, _ := open(t, m)
	d.opts.Random = &locked{random: rand.NewChaCha8([32]byte{2})}
	var all sync.WaitGroup
	tokens := make([]string, 4)
	for i := range tokens {
		all.Go(func() {
			r, token, err := d.Create(t.Context(), admin, ana)
			if err != nil {
				t.Error(err)
				return
			}
			tokens[i] = token
			d.Bearer(token)
			if i%2 == 0 {
				for range 2 {
					all.Go(func() {
						if _, err := d.Revoke(t.Context(), admin, r.ID, ""); err != nil {
							t.Error(err)
						}
					})
				}
			}
			_ = d.Note(t.Context())
		})
	}
	all.Wait()
	for i, token := range tokens {
		if _, ok := d.Bearer(token); ok != (i%2 != 0) {
			t.Errorf("credential %d is good: %v", i, ok)
		}
	}
	if len(d.List()) != len(tokens) || len(m.rows) != len(tokens) {
		t.Errorf("%d of %d", len(d.List()), len(tokens))
	}
}

type locked struct {
	mu     sync.Mutex
	random *rand.ChaCha8
}

func (l *locked) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.Read(p)
}

// TestTheTableIsItsModel compares the table with a map under any history.
func TestTheTableIsItsModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := &memory{}
		c := &clock{now: noon}
		options := Options{Now: c.Now, Random: rand.NewChaCha8([32]byte{3}), Max: 20}
		d, err := Open(m, options)
		if err != nil {
			r.Fatal(err)
		}
		type known struct{ id, token string }
		var all []known
		good := map[string]bool{}
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			c.pass(time.Duration(rapid.IntRange(0, 30).Draw(r, "hours")) * time.Hour)
			switch step := rapid.IntRange(0, 5).Draw(r, "step"); {
			case step < 2 && len(all) < 20:
				rec, token, err := d.Create(context.Background(), admin, ana)
				if err != nil {
					r.Fatal(err)
				}
				all, good[rec.ID] = append(all, known{rec.ID, token}), true
			case step == 2 && len(all) > 0:
				k := rapid.SampledFrom(all).Draw(r, "which")
				if _, err := d.Revoke(context.Background(), admin, k.id, ""); err != nil {
					r.Fatal(err)
				}
				good[k.id] = false
			case step == 3:
				if err := d.Note(context.Background()); err != nil {
					r.Fatal(err)
				}
			case step == 4:
				if d, err = Open(m, options); err != nil {
					r.Fatal(err)
				}
			}
			for _, k := range all {
				c, ok := d.Bearer(k.token)
				if ok != good[k.id] || (ok && (c.Credential != k.id || c.Life.Err() != nil)) {
					r.Fatalf("%s is good: %v, want %v", k.id, ok, good[k.id])
				}
			}
		}
	})
}

func TestASessionIsGoodForADay(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	s, err := NewSessions(key, rand.NewChaCha8([32]byte{4}))
	if err != nil {
		t.Fatal(err)
	}
	token, expires, err := s.Issue("crd_x", noon)
	if err != nil || !expires.Equal(noon.Add(SessionLife)) {
		t.Fatal(expires, err)
	}
	other, _ := NewSessions(bytes.Repeat([]byte{8}, 32), rand.NewChaCha8([32]byte{4}))
	for name, tc := range map[string]struct {
		sessions *Sessions
		token    string
		at       time.Time
		ok       bool
	}{
		"now":              {s, token, noon, true},
		"just in time":     {s, token, expires.Add(-time.Second), true},
		"over":             {s, token, expires, false},
		"a clock behind":   {s, token, noon.Add(-time.Hour), true},
		"a clock far back": {s, token, noon.Add(-SessionLife - time.Second), false},
		"another key":      {other, token, noon, false},
		"cut":              {s, token[:len(token)-1], noon, false},
		"longer":           {s, token + "A", noon, false},
		"nothing":          {s, "", noon, false},
		"a CSRF token":     {s, s.CSRF(token), noon, false},
		"a very long text": {s, strings.Repeat("A", 10_000), noon, false},
	} {
		if subject, ok := tc.sessions.Open(tc.token, tc.at); ok != tc.ok || (ok && subject != "crd_x") {
			t.Errorf("%s: %q, %v", name, subject, ok)
		}
	}
	if a, _, _ := s.Issue("crd_x", noon); a == token || s.CSRF(a) == s.CSRF(token) || strings.Contains(s.CSRF(token), token) {
		t.Error("two sessions are the same")
	}
	s.End(token, noon)
	if _, ok := s.Open(token, noon); ok {
		t.Error("it is good after the logout")
	}
	for range maxEnded + 10 {
		token, _, _ := s.Issue("crd_x", noon)
		s.End(token, noon)
	}
	if len(s.ended) > maxEnded {
		t.Errorf("%d are remembered", len(s.ended))
	}
}

func FuzzSession(f *testing.F) {
	s, err := NewSessions(bytes.Repeat([]byte{7}, 32), rand.NewChaCha8([32]byte{4}))
	if err != nil {
		f.Fatal(err)
	}
	good, _, _ := s.Issue("crd_x", noon)
	f.Add(good)
	f.Add(good[:40])
	f.Fuzz(func(t *testing.T, token string) {
		if _, ok := s.Open(token, noon); ok && token != good {
			t.Errorf("%q is let in", token)
		}
	})
}
