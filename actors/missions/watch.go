package missions

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/dispatch/runtime"
)

// noteEvery is how often a captain's record learns of lines at most.
const noteEvery = time.Minute

// maxWords is how much of an agent's standard error stands in a mission, in
// bytes.
const maxWords = 600

// watch waits for the agent's end, or for ctx's, which is its error, or for the
// mission to be another's. Meanwhile the captain's record says whether the agent
// is heard of.
func (c *course) watch(ctx context.Context) error {
	quiet := time.NewTimer(c.sys.opts.StallAfter)
	defer quiet.Stop()
	note := time.NewTicker(noteEvery)
	defer note.Stop()
	retry, again := newBackoff(), time.NewTimer(time.Hour)
	again.Stop()
	defer again.Stop()
	stalled := false
	for {
		tell := true
		select {
		case <-c.agent.Done():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.line:
			quiet.Reset(c.sys.opts.StallAfter)
			tell, stalled = c.stalled, false
		case <-quiet.C:
			stalled = true
		case <-note.C:
			if _, err := c.own(c.sys.newSheet()); errors.Is(err, errLost) {
				return errMoved
			}
			tell = c.heard.Load() != c.noted
		case <-again.C:
		}
		if !tell {
			continue
		}
		if err := c.note(ctx, stalled); err == nil {
			retry.Reset()
		} else if ctx.Err() == nil {
			c.sys.log.Warn("the sign of life of a captain could not be written", slog.String("mission", c.id), slog.String("cause", err.Error()))
			again.Reset(retry.NextBackOff())
		}
	}
}

// note writes when the captain was heard of last, and whether it is stalled.
func (c *course) note(ctx context.Context, stalled bool) error {
	heard := c.heard.Load()
	at := shown(time.Unix(0, heard))
	_, err := c.sys.commit(ctx, func(b *sheet) error {
		captain, err := c.mine(b)
		if err != nil || captain == nil {
			return err
		}
		next, events := *captain, []broker.Event(nil)
		switch {
		case stalled && next.State == dispatch.CaptainWorking:
			if next, err = next.Step(dispatch.CaptainStalled); err != nil {
				return err
			}
			events = append(events, dispatch.Event(next, "stalled", "The captain "+next.Name+" has written nothing for "+c.sys.opts.StallAfter.String()+".", nil))
		case !stalled && next.State == dispatch.CaptainStalled:
			if next, err = next.Step(dispatch.CaptainWorking); err != nil {
				return err
			}
		}
		next.LastHeartbeat, next.LastUpdateUTC = &at, b.at
		b.captains.put(next, events...)
		return nil
	})
	if err == nil {
		c.stalled, c.noted = stalled, heard
	}
	return err
}

// judged is the verdict on an agent that ended by itself.
func (c *course) judged(end End) verdict {
	found := c.collect(collectLimit)
	failed := func(reason dispatch.FailureReason, message string) verdict {
		v := c.failed(reason, message)
		v.found = found
		return v
	}
	switch {
	case end.Result == runtime.ResultRefused:
		return failed(dispatch.RefusedByCaptain, "The agent refused the mission.")
	case end.Verdict == runtime.VerdictFail || end.Verdict == runtime.VerdictRevision:
		return failed(dispatch.VerdictFail, "The agent's verdict is "+string(end.Verdict)+".")
	case end.Code == nil:
		return failed(dispatch.ExitNonzero, "The agent has no exit status: "+words(end, "nobody knows how it ended")+".")
	case *end.Code != 0 && end.Result != runtime.ResultComplete:
		return failed(dispatch.ExitNonzero, "The agent "+words(end, "ended with a status that is not 0")+".")
	case c.fault != nil:
		return failed(c.fault.Reason, c.fault.Message)
	case c.w.Mission.Mode == dispatch.Implementation && found.Produced != nil && !*found.Produced:
		return failed(dispatch.NoCommitProduced, "The agent ended without a commit on the mission's branch.")
	}
	return verdict{cutOff: cutOff{to: dispatch.MissionWorkProduced}, found: found}
}

// words say how an agent ended, and with what on its standard error.
func words(end End, otherwise string) string {
	text := cmp.Or(strings.TrimSpace(end.Words), otherwise)
	if tail := strings.TrimSpace(end.Stderr); tail != "" {
		if len(tail) > maxWords {
			tail = "..." + strings.ToValidUTF8(tail[len(tail)-maxWords:], "")
		}
		text += "; its standard error ends with: " + tail
	}
	return text
}

// collect saves what the agent left. What fails is logged and stays unknown,
// unless it says itself what the mission ends with.
func (c *course) collect(limit time.Duration) Collected {
	ctx, done := context.WithTimeout(c.sys.ctx, limit)
	defer done()
	found, err := c.sys.opts.Docks.Collect(ctx, c.w)
	if err == nil {
		return found
	}
	if !errors.As(err, &c.fault) {
		c.sys.log.Warn("what a mission made could not be collected", slog.String("mission", c.id), slog.String("cause", err.Error()))
	}
	return found
}
