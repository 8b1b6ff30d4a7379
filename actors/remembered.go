package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"berth/broker"
	"berth/broker/shape"
)

// This file keeps what sessions ask for over a restart: the resources that they
// subscribed to and their log levels. A session is its id, which outlives the
// broker; so does what it asked for, until it ends or is not used for a week.

// Records is where what outlives a restart is kept beside the jobs.
type Records interface {
	// Put writes a record, or deletes it when its value is nil; one that is not
	// there is broker.ErrRecordNotFound then.
	Put(ctx context.Context, c broker.RecordChange) (broker.Record, error)
	// Record gives one, or an error that wraps broker.ErrRecordNotFound.
	Record(kind, id string) (broker.Record, error)
}

const (
	// askedKind is the kind of the records, askedFor how long one is kept after
	// its last change.
	askedKind = "asked"
	askedFor  = 7 * 24 * time.Hour
	// rememberLimit bounds the wait for the journal.
	rememberLimit = 10 * time.Second
)

// ready is the mark of a session of which nothing has to be looked up.
var ready = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// askedOf is what a session asked of one backend, or of its instance of one.
type askedOf struct {
	Resources []string `json:"resources,omitempty"`
	Level     string   `json:"level,omitempty"`
}

// recall is a look at what a session asked for in an earlier life of the broker.
type recall struct{ done chan struct{} }

// recalled is closed when it is known what the session asked for.
func (r *sessionRef) recalled() <-chan struct{} {
	if under := r.recalls.Load(); under != nil {
		return under.done
	}
	return ready
}

// recall looks up what a session asked for in an earlier life of the broker, off
// every mailbox.
func (s *System) recall(ref *sessionRef) {
	if s.opts.Records == nil {
		return
	}
	session, under := ref.info.Key, &recall{make(chan struct{})}
	ref.recalls.Store(under)
	s.work.Go(func() {
		defer close(under.done)
		defer ref.recalls.Store(nil) // an idle session keeps nothing of it
		record, err := s.opts.Records.Record(askedKind, session)
		if errors.Is(err, broker.ErrRecordNotFound) {
			return
		}
		asked := map[string]askedOf{}
		if err == nil {
			err = json.Unmarshal(record.Value, &asked)
		}
		if err != nil {
			s.log.Warn("what a session had asked for cannot be read", slog.String("session", session), slog.String("cause", err.Error()))
			return
		}
		for key, a := range asked {
			for _, uri := range a.Resources {
				if _, refusal := s.subs.add(key, uri, session); refusal != nil {
					s.log.Warn("a subscription of an earlier life was dropped", slog.String("session", session), slog.String("cause", refusal.Message))
				}
			}
			if level := slices.Index(LogLevels, a.Level); level >= 0 {
				s.subs.setLevel(key, session, level)
			}
			s.tell(key, &tell{all: true})
		}
	})
}

// remember keeps what a session asks for now. A stream of the stateless era ends
// with its connection and is not remembered.
func (s *System) remember(ctx context.Context, holder string) {
	if _, session := s.sessions.Load(holder); !session || s.opts.Records == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rememberLimit)
	defer cancel()
	asked := s.subs.asked(holder)
	for written := []byte(nil); ; {
		value, _ := json.Marshal(asked) // of strings only
		if bytes.Equal(value, written) {
			return
		}
		written = value
		if err := s.writeAsked(ctx, holder, asked, value); err != nil {
			s.log.Warn("what a session asked for is not kept over a restart", slog.String("session", holder), slog.String("cause", err.Error()))
			return
		}
		// Another request of the session may have written what is older by now.
		asked = s.subs.asked(holder)
	}
}

// writeAsked keeps what a session asks for; nothing leaves no record.
func (s *System) writeAsked(ctx context.Context, session string, asked map[string]askedOf, value []byte) error {
	if len(asked) == 0 {
		value = nil
	}
	_, err := s.opts.Records.Put(ctx, broker.RecordChange{Kind: askedKind, ID: session, Value: value, Expires: s.now().Add(askedFor)})
	if errors.Is(err, broker.ErrRecordNotFound) {
		return nil
	}
	return err
}

// rememberAll keeps what the sessions that are here ask for in a journal that
// may say otherwise of them.
func (s *System) rememberAll() {
	if s.opts.Records == nil {
		return
	}
	s.work.Go(func() {
		s.sessions.Range(func(key, v any) bool {
			session := key.(string)
			<-v.(*sessionRef).recalled()
			_, err := s.opts.Records.Record(askedKind, session)
			if len(s.subs.asked(session)) > 0 || !errors.Is(err, broker.ErrRecordNotFound) {
				s.remember(context.Background(), session)
			}
			return !s.closing.Load()
		})
	})
}

// unremember drops what a session asked for, at its end.
func (s *System) unremember(session string) {
	if s.opts.Records == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rememberLimit)
	defer cancel()
	if err := s.writeAsked(ctx, session, nil, nil); err != nil {
		s.log.Warn("what an ended session asked for stays until it expires", slog.String("session", session), slog.String("cause", err.Error()))
	}
}

// asked lists what a holder asked for, by backend, without what looks like it
// holds a credential.
func (s *subscriptions) asked(holder string) map[string]askedOf {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]askedOf{}
	for key, b := range s.backends {
		var a askedOf
		for _, uri := range slices.Sorted(maps.Keys(b.resources)) {
			if b.resources[uri][holder] && shape.Redact(uri) == uri {
				a.Resources = append(a.Resources, uri)
			}
		}
		if level, said := b.levels[holder]; said {
			a.Level = LogLevels[level]
		}
		if len(a.Resources) > 0 || a.Level != "" {
			out[key] = a
		}
	}
	return out
}
