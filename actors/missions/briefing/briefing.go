// Package briefing gathers what an agent is told of its mission and has
// berth/broker/dispatch/brief write it: it is the missions.Briefs of a broker.
//
// It owns where each part comes from: the records of the work, what was said to
// it on the board, the last message of the mission before it, and the pack of
// code. It refuses nothing: what cannot be had is left out, the log says so, and
// where the agent could expect it the brief does. Only the end of its context
// ends it.
//
// It starts no goroutine, and packing code has a limit of its own. A [Writer] is
// safe for concurrent use.
package briefing

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"berth/actors/missions"
	"berth/broker/dispatch"
	"berth/broker/dispatch/brief"
	"berth/broker/native/board"
	"berth/broker/native/codeindex"
)

// Signals has what was said to missions; *board.Board is one.
type Signals interface {
	Join(ctx context.Context, m dispatch.Mission, captainID string) ([]board.Said, error)
}

// Papers has what agents wrote.
type Papers interface {
	// Output is the last message of a mission's agent.
	Output(missionID string) (text string, finalized bool, err error)
}

// Packs packs code; *codeindex.Family is one.
type Packs interface {
	Pack(ctx context.Context, v dispatch.Vessel, goal string, tokens, results int) (pack codeindex.Pack, why string, err error)
}

// Tokens says why an agent would get no token; empty: it gets one.
// *credential.Launches is one.
type Tokens interface {
	Would(m dispatch.Mission) (why string)
}

// Options is what a writer is made of. Log is required; what is nil is told of
// nowhere.
type Options struct {
	Signals Signals
	Papers  Papers
	Packs   Packs
	Tokens  Tokens // nil: agents get none
	// Broker is the address of the broker's MCP endpoint for agents.
	Broker func() string
	Log    *slog.Logger
}

// Writer writes briefs.
type Writer struct{ opts Options }

var _ missions.Briefs = (*Writer)(nil)

// New makes a writer.
func New(o Options) *Writer { return &Writer{o} }

// The size of a pack, unless the mission says, and how long it may take: less
// than a brief may.
const (
	packTokens    = 5000
	maxPackTokens = 50_000
	packResults   = 20
	packWithin    = 15 * time.Second
)

// Brief is the prompt of a mission.
func (b *Writer) Brief(ctx context.Context, w missions.Work) (string, error) {
	in := brief.Input{Mission: w.Mission, Voyage: w.Voyage, Vessel: w.Vessel, Captain: w.Captain, Branch: w.Dock.Branch,
		Before: b.before(w.Before), Said: b.said(ctx, w)}
	in.Pack, in.NoPack = b.pack(ctx, w)
	if b.opts.Tokens != nil && b.opts.Broker != nil && b.opts.Tokens.Would(w.Mission) == "" {
		in.Broker = b.opts.Broker()
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return brief.Write(in), nil
}

func (b *Writer) before(m *dispatch.Mission) *brief.Before {
	if m == nil {
		return nil
	}
	out := &brief.Before{Mission: *m}
	if b.opts.Papers != nil {
		text, _, err := b.opts.Papers.Output(m.ID)
		if err != nil {
			b.opts.Log.Warn("the last message of a mission could not be read", slog.String("mission", m.ID), slog.String("cause", err.Error()))
		}
		out.Message = text
	}
	return out
}

func (b *Writer) said(ctx context.Context, w missions.Work) (out []brief.Said) {
	if b.opts.Signals == nil {
		return nil
	}
	all, err := b.opts.Signals.Join(ctx, w.Mission, w.Captain.ID)
	if err != nil {
		b.opts.Log.Warn("what was said to a mission could not be read", slog.String("mission", w.Mission.ID), slog.String("cause", err.Error()))
	}
	for _, s := range all {
		out = append(out, brief.Said{Type: s.Type, By: s.By, Message: s.Message})
	}
	return out
}

// pack is the code for a mission, or why there is none although it was wanted.
func (b *Writer) pack(ctx context.Context, w missions.Work) (text, why string) {
	mode := cmp.Or(w.Mission.ContextMode, dispatch.ContextAuto)
	if b.opts.Packs == nil || mode == dispatch.ContextOff {
		return "", ""
	}
	goal := w.Mission.Title + "\n" + w.Mission.Description
	if q := w.Mission.ContextQuery; q != nil && *q != "" {
		goal = *q
	}
	limited, done := context.WithTimeout(ctx, packWithin)
	defer done()
	pack, why, err := b.opts.Packs.Pack(limited, w.Vessel, goal, bounded(w.Mission.ContextTokens, packTokens, maxPackTokens), bounded(w.Mission.ContextResults, packResults, packResults*5))
	switch {
	case err != nil && ctx.Err() == nil && limited.Err() != nil:
		why = "it took too long"
	case err != nil:
		b.opts.Log.Warn("no code could be packed for a mission", slog.String("mission", w.Mission.ID), slog.String("cause", err.Error()))
		why = "the search failed"
	case why == "" && pack.Metrics.Included == 0:
		why = "nothing in the index fits the task"
	case why == "":
		return pack.Markdown, ""
	}
	if mode == dispatch.ContextAuto { // it was not asked for
		return "", ""
	}
	return "", why
}

// bounded is a number of a mission's, or what stands for it.
func bounded(n *int, otherwise, most int) int {
	if n == nil {
		return otherwise
	}
	return min(max(*n, 1), most)
}
