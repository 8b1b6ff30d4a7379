package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/native"
	"berth/broker/native/board"
	"berth/broker/native/status"
	"berth/transport/guard"
)

// openBoard makes the coordination board over the journal.
func (b *running) openBoard(server broker.ServerInfo) *native.Verbs {
	c := b.cfg.Broker.AgentWake
	b.board = board.New(board.Options{Store: b.journal, Now: time.Now, Random: rand.Reader, Log: b.log, Due: func() { b.agentWake.Due() }, Dispatch: true,
		Team: b.team.Load,
		AgentWake: board.AgentWake{ParticipantKey: c.ParticipantKey, DeliveryMode: c.DeliveryMode, Runtime: c.Runtime, SessionID: c.SessionID,
			Command: c.Command, WorkingDirectory: c.WorkingDirectory}})
	return board.NewFamily(b.board, native.Options{RuntimeID: b.runtimeID, Server: server, Now: time.Now, Log: b.log})
}

// listSignals lists the board's signals for enumerate.
func (b *running) listSignals(q status.Query) (any, error) {
	page, err := b.board.Signals(board.SignalQuery{Type: q.SignalType, UnreadOnly: q.UnreadOnly, ToCaptainID: q.ToCaptainID,
		VoyageID: q.VoyageID, MissionID: q.MissionID, CreatedAfter: q.CreatedAfter,
		CreatedBefore: q.CreatedBefore, WithPayload: q.IncludePayload}, q.Page)
	if err != nil {
		return nil, native.Unreadable(b.log, err)
	}
	return page, nil
}

// boardOf posts to the broker's board, which is opened after the journal.
type boardOf struct{ b *running }

func (o boardOf) PostSystem(ctx context.Context, content string) error {
	return o.b.board.PostSystem(ctx, content)
}

func (o boardOf) StoreWake(ctx context.Context, payload string) error {
	return o.b.board.StoreWake(ctx, payload)
}

// launchWake runs the process of a wake as backends' children are run, under a
// guard, so that nothing of it stays.
func (b *running) launchWake(ctx context.Context, run broker.WakeRun) error {
	err := guard.Feed(ctx, guard.Spec{Command: run.Command, Args: run.Args, Dir: run.Dir, Env: wakeEnvironment(os.Environ(), run.ParticipantKey),
		StopGrace: -1, Ledger: b.ledger, Name: "agentwake"}, run.Input)
	var ended *guard.OutputError
	switch {
	case errors.As(err, &ended): // what it wrote may hold anything
		return errors.New(ended.Reason)
	case err != nil:
		return errors.New("could not be started: " + missing(run))
	}
	return nil
}

// missing says which part of a process that did not start is wrong.
func missing(run broker.WakeRun) string {
	if run.Dir != "" {
		switch info, err := os.Stat(run.Dir); {
		case errors.Is(err, fs.ErrNotExist):
			return "its working directory (agent_wake.working_directory) does not exist"
		case err != nil:
			return "its working directory (agent_wake.working_directory) cannot be read"
		case !info.IsDir():
			return "its working directory (agent_wake.working_directory) is no directory"
		}
	}
	return filepath.Base(run.Command) + " was not found or does not run"
}

// wakeVariables are what such a process gets of the broker's environment: where
// things are, and no credential.
var wakeVariables = strings.Fields(`HOME PATH USER LOGNAME SHELL LANG LANGUAGE TERM TZ TMPDIR XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME XDG_RUNTIME_DIR
	CLAUDE_CONFIG_DIR CODEX_HOME BERTH_STATE_DIR`)

func wakeEnvironment(environ []string, participant string) []string {
	out := []string{participantVariable + "=" + participant}
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); slices.Contains(wakeVariables, name) || strings.HasPrefix(name, "LC_") {
			out = append(out, entry)
		}
	}
	return out
}
