package board_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/native/board"
)

func TestTheArgumentsOfEachRuntime(t *testing.T) {
	for _, tt := range []struct{ runtime, session, want string }{
		{"Claude", "", "claude -p --continue"},
		{"Claude", "s1", "claude -p --resume s1"},
		{"Codex", "", "codex exec resume --last -"},
		{"Codex", "s1", "codex exec resume s1 -"},
		{"OpenCode", "", "opencode run"},
		{"OpenCode", "s1", "opencode run"},
	} {
		b, _ := newBoard(newMemory(), board.AgentWake{ParticipantKey: "k", DeliveryMode: board.Both, Runtime: tt.runtime, SessionID: tt.session, WorkingDirectory: "/srv"}, nil)
		must(b.Post(t.Context(), as(admin, "", at), board.Draft{Content: "x", AuthorName: "a", ToParticipantKey: "k"}))(t)
		run, ok, err := b.NextRun()
		if err != nil || !ok || run.Command+" "+strings.Join(run.Args, " ") != tt.want || run.Dir != "/srv" || !strings.HasPrefix(run.ID, "run_") {
			t.Errorf("%s %s: %+v %v %v", tt.runtime, tt.session, run, ok, err)
		}
	}
}

func TestTheTaskIsEveryUnreadNoteInFull(t *testing.T) {
	store := newMemory()
	b, _ := newBoard(store, board.AgentWake{ParticipantKey: "k", DeliveryMode: board.SpawnProcess, Runtime: "Claude"}, nil)
	long := strings.Repeat("long ", 400) + "end\n\"quoted\" $(rm -rf /)"
	for n, content := range []string{long, "second"} {
		must(b.Post(t.Context(), as(admin, "", seconds(n)), board.Draft{Content: content, AuthorName: "lane-b", ToParticipantKey: "k"}))(t)
	}
	run, _, err := b.NextRun()
	if err != nil || !strings.Contains(run.Input, "You are k. 2 of your notes") || !strings.Contains(run.Input, "\n[to=k] [from=lane-b] "+long+"\n\n[to=k] [from=lane-b] second\n") {
		t.Errorf("%q %v", run.Input, err)
	}
	for n := range 30 {
		must(b.Post(t.Context(), as(admin, "", seconds(n)), board.Draft{Content: strings.Repeat("x", 65_536), AuthorName: "lane-b", ToParticipantKey: "k"}))(t)
	}
	if run, _, err = b.NextRun(); err != nil || len(run.Input) > 300<<10 || !strings.HasSuffix(run.Input, "(more; read the board for the rest)\n") {
		t.Errorf("%d bytes %v", len(run.Input), err)
	}
	for _, id := range signals(store) {
		must(b.MarkRead(t.Context(), as(admin, "k", at.Add(time.Hour)), id))(t)
	}
	if _, ok, err := b.NextRun(); ok || err != nil {
		t.Errorf("a run without a task: %v", err)
	}
}

func TestAWakeStartsAProcessOnlyWhenEverythingSaysSo(t *testing.T) {
	of := func(mode, runtime string) board.AgentWake {
		return board.AgentWake{ParticipantKey: "k", DeliveryMode: mode, Runtime: runtime}
	}
	for _, tt := range []struct {
		name   string
		config board.AgentWake
		who    broker.Principal
		to     string
		due    bool
	}{
		{"spawn", of(board.SpawnProcess, "Claude"), admin, "k", true},
		{"both", of(board.Both, "Claude"), admin, "k", true},
		{"stored", of(board.StoredWake, "Claude"), admin, "k", false},
		{"no mode", of("", "Claude"), admin, "k", false},
		{"no runtime", of(board.Both, ""), admin, "k", false},
		{"another participant", of(board.Both, "Claude"), admin, "k2", false},
		{"to everybody", of(board.Both, "Claude"), admin, "", false},
		{"another tenant", of(board.Both, "Claude"), member("t2"), "k", false},
		{"a member of the same tenant", of(board.Both, "Claude"), member("default"), "k", true},
	} {
		due := 0
		store := newMemory()
		b, _ := newBoard(store, tt.config, func() {
			if len(signals(store)) != 1 {
				t.Errorf("%s: it starts before its signal is stored", tt.name)
			}
			due++
		})
		must(b.Post(t.Context(), as(tt.who, "", at), board.Draft{Content: "x", AuthorName: "a", ToParticipantKey: tt.to}))(t)
		if (due == 1) != tt.due {
			t.Errorf("%s: due %d times", tt.name, due)
		}
		if stored := len(signals(store)); (stored == 1) != (tt.to != "") {
			t.Errorf("%s: %d signals are stored", tt.name, stored)
		}
	}
}

func TestARegistrationGoesBeforeTheConfiguration(t *testing.T) {
	b, _ := newBoard(newMemory(), board.AgentWake{ParticipantKey: "k", DeliveryMode: board.Both, Runtime: "Claude"}, func() {})
	if s := b.AgentWakeStatus(as(admin, "", at)); s.HasSession || s.Session != nil || *s.ConfiguredParticipantKey != "k" || *s.EffectiveParticipantKey != "k" || s.DeliveryMode != board.Both || *s.Runtime != "Claude" {
		t.Errorf("%+v", s)
	}
	for _, tt := range []struct {
		name string
		who  broker.Principal
		r    board.Registration
		want broker.Code
	}{
		{"no runtime", admin, board.Registration{Runtime: "Auto"}, broker.CodeInvalidRuntime},
		{"a key of another shape", admin, board.Registration{Runtime: "Codex", ParticipantKey: "a b"}, broker.CodeInvalidParticipant},
		{"a session that would be an option", admin, board.Registration{Runtime: "Codex", SessionID: "--dangerous"}, broker.CodeInvalidArguments},
		{"a relative command", admin, board.Registration{Runtime: "Codex", Command: "codex"}, broker.CodeServerPath},
		{"a relative directory", admin, board.Registration{Runtime: "Codex", WorkingDirectory: "../x"}, broker.CodeServerPath},
		{"a command of no administrator", member("default"), board.Registration{Runtime: "Codex", Command: "/bin/codex"}, broker.CodeServerPath},
		{"a directory of a tenant's administrator", broker.Principal{Tenant: "default", Role: broker.TenantAdministrator}, board.Registration{Runtime: "Codex", WorkingDirectory: "/srv"}, broker.CodeServerPath},
		{"a long name", admin, board.Registration{Runtime: "Codex", ClientName: strings.Repeat("n", 129)}, broker.CodeInvalidArguments},
	} {
		if _, err := b.Register(as(tt.who, "", at), tt.r); code(err) != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if b.AgentWakeStatus(as(admin, "", at)).HasSession {
		t.Error("a refused registration took the slot")
	}
	must(b.Register(as(admin, "", at), board.Registration{Runtime: "Codex", ParticipantKey: "k2", SessionID: "s1", Command: "/bin/codex", WorkingDirectory: "/srv"}))(t)
	if s := b.AgentWakeStatus(as(admin, "", at)); !s.HasSession || *s.ConfiguredParticipantKey != "k" || *s.EffectiveParticipantKey != "k2" || *s.Runtime != "Codex" {
		t.Errorf("%+v", s)
	}
	must(b.Post(t.Context(), as(admin, "", at), board.Draft{Content: "x", AuthorName: "a", ToParticipantKey: "k2"}))(t)
	if run, ok, err := b.NextRun(); err != nil || !ok || run.Command != "/bin/codex" || strings.Join(run.Args, " ") != "exec resume s1 -" || run.ParticipantKey != "k2" {
		t.Errorf("%+v %v %v", run, ok, err)
	}
	// Paths and session are for the tenant that registered them.
	for tenant, theirs := range map[string]bool{admin.Tenant: true, "acme": false} {
		s := b.AgentWakeStatus(as(member(tenant), "", at))
		if s.HasSession != theirs || (s.Session != nil) != theirs || (*s.EffectiveParticipantKey == "k2") != theirs || (*s.Runtime == "Codex") != theirs {
			t.Errorf("%s sees %+v", tenant, s)
		}
	}
	// Without a key of its own it runs for the configured one.
	must(b.Register(as(admin, "", at), board.Registration{Runtime: "OpenCode"}))(t)
	if s := b.AgentWakeStatus(as(admin, "", at)); *s.EffectiveParticipantKey != "k" || *s.Runtime != "OpenCode" {
		t.Errorf("%+v", s)
	}
}

func TestARunIsAnEventWhenItBeginsAndWhenItEnds(t *testing.T) {
	store := newMemory()
	b, _ := newBoard(store, board.AgentWake{ParticipantKey: "k"}, nil)
	run := broker.WakeRun{ID: "run_1", ParticipantKey: "k", Runtime: "Claude", Input: "a secret task"}
	if err := b.RunStarted(context.Background(), run, at); err != nil {
		t.Fatal(err)
	}
	if err := b.RunEnded(t.Context(), run, at, seconds(9), false, "has ended"); err != nil {
		t.Fatal(err)
	}
	if err := b.RunEnded(t.Context(), run, at, seconds(9), true, "exited with code 3"); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, e := range store.events {
		types = append(types, e.EventType)
		if e.EntityID != "run_1" || e.TenantID != "default" || strings.Contains(e.Message+string(e.Payload), "secret") {
			t.Errorf("%+v", e)
		}
	}
	if strings.Join(types, " ") != "agentwake.started agentwake.ended agentwake.failed" {
		t.Error(types)
	}
}
