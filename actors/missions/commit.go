package missions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"berth/broker"
	"berth/broker/dispatch"
)

// maxMeets is how often a step may meet somebody else's before it is given up
// for a while.
const maxMeets = 50

// errLost is a step that somebody else's made impossible: a mission was moved
// on, a captain taken.
var errLost = errors.New("somebody else changed the record first")

// settled reports whether a step is not to be tried again: it was refused, not
// hindered.
func settled(err error) bool {
	var refusal *broker.Refusal
	return errors.Is(err, errLost) || errors.Is(err, dispatch.ErrStep) || errors.As(err, &refusal)
}

// commit writes one step of the records, made anew as often as another's write
// comes before it. What ended by it is told. An error that is not settled says
// that nothing is known to be written.
func (s *System) commit(ctx context.Context, build func(*sheet) error) (*sheet, error) {
	for range maxMeets {
		b := s.newSheet()
		if err := build(b); err != nil {
			return nil, err
		}
		changes, err := b.changes()
		if err != nil {
			return nil, err
		}
		if len(changes) == 0 {
			return b, nil
		}
		err = s.put(ctx, changes)
		switch {
		case err == nil:
			s.told(b)
			return b, nil
		case !errors.Is(err, broker.ErrRecordRevision):
			return nil, err
		}
	}
	return nil, fmt.Errorf("a step met %d others: %w", maxMeets, broker.ErrRecordRevision)
}

// put writes changes. A write that failed and is found to be there succeeded.
func (s *System) put(ctx context.Context, changes []broker.RecordChange) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	_, err := s.opts.Store.PutAll(ctx, changes...)
	if err == nil || errors.Is(err, broker.ErrRecordRevision) {
		return err
	}
	for _, c := range changes { // they are there all or none
		if c.Value == nil {
			continue
		}
		r, readErr := s.opts.Store.Record(c.Kind, c.ID)
		if readErr == nil && r.Revision == *c.If+1 && bytes.Equal(r.Value, c.Value) {
			return nil
		}
		break
	}
	return fmt.Errorf("write a step of missions: %w", err)
}

// surely is commit that is repeated until it is written, settled, or ctx ends.
func (s *System) surely(ctx context.Context, mission string, build func(*sheet) error) (*sheet, error) {
	retry := newBackoff()
	for {
		b, err := s.commit(ctx, build)
		if err == nil || settled(err) {
			return b, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		wait := retry.NextBackOff()
		s.log.Warn("a step of a mission could not be written", slog.String("mission", mission), slog.String("cause", err.Error()), slog.Duration("retry_after", wait))
		if !pause(ctx, wait) {
			return nil, context.Cause(ctx)
		}
	}
}

// pause waits; false: ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func newBackoff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(time.Second), backoff.WithMaxInterval(time.Minute),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.3), backoff.WithMaxElapsedTime(0))
}

// readAll reads a list. What of it cannot be read is logged, once, and left
// alone: one record must not keep all the others back.
func readAll[R dispatch.Stored](s *System, of string) ([]dispatch.Kept[R], error) {
	all, err := dispatch.ReadAll[R](s.opts.Store, of)
	if errors.Is(err, dispatch.ErrPartly) {
		if _, known := s.unreadable.LoadOrStore(err.Error(), struct{}{}); !known {
			s.log.Error("records of missions cannot be read and are left alone", slog.String("cause", err.Error()))
		}
		err = nil
	}
	return all, err
}

// told tells of what a written step ended.
func (s *System) told(b *sheet) {
	for _, m := range b.ended {
		reason := ""
		if m.FailureReason != nil {
			reason = string(*m.FailureReason)
		}
		s.log.Info("a mission ended", slog.String("mission", m.ID), slog.String("status", string(m.Status)), slog.String("reason", reason))
		if s.opts.Board != nil {
			s.opts.Board.MissionEnded(m)
		}
	}
}
