package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"berth/transport/rest"
)

var topTime = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// topOf is an overview of a broker with that many backends and sessions.
func topOf(backends, sessions int) topModel {
	d := &topData{at: topTime, status: rest.Status{Version: "1.0", UptimeSeconds: 7200}, counted: map[string]int{"Succeeded": 41, "Lost": 1}}
	d.status.Counts.Sessions, d.status.Counts.InFlight, d.status.Counts.Queued = sessions, 3, 4
	unfinished := 2
	d.status.Counts.UnfinishedJobs = &unfinished
	for i := range backends {
		d.backends = append(d.backends, json.RawMessage(fmt.Sprintf(`{"Name":"backend-%d","State":"ready","RuntimeId":"0123456789abcdef","InFlight":%d,"Seats":4,"QueuedCalls":2,"QueuedJobs":1,"OldestWaitMs":9000,"Incarnations":3,"Tools":null,"Answered":7}`, i, i%4)))
	}
	for i := range sessions {
		d.sessions = append(d.sessions, json.RawMessage(fmt.Sprintf(`{"Key":"s-%d","Tenant":"default","User":"u%d","ClientName":"client-%d","Calls":5}`, i, i, i)))
	}
	d.jobs = []json.RawMessage{json.RawMessage(`{"JobId":"job_1","Operation":"backend-0__work","Status":"Running","SubmittedAtUtc":"2026-11-30T11:59:00Z"}`)}
	m := topModel{now: topTime, width: 100, height: 20, look: func(topTab, bool) tea.Cmd { return nil }}
	return m.looked(d)
}

// press gives the model after keys.
func press(t *testing.T, m topModel, keys ...string) topModel {
	t.Helper()
	for _, name := range keys {
		next, _ := m.Update(keyNamed(t, name))
		m = next.(topModel)
	}
	return m
}

func keyNamed(t *testing.T, name string) tea.KeyPressMsg {
	codes := map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "enter": tea.KeyEnter, "esc": tea.KeyEscape,
		"tab": tea.KeyTab, "backspace": tea.KeyBackspace, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "end": tea.KeyEnd, "home": tea.KeyHome}
	k := tea.KeyPressMsg{Code: codes[name]}
	if k.Code == 0 {
		k.Code, k.Text = []rune(name)[0], name
	}
	if name == "ctrl+c" {
		k = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	}
	if k.String() != name {
		t.Fatalf("the key %q calls itself %q", name, k.String())
	}
	return k
}

func wantFrame(t *testing.T, m topModel, want ...string) {
	t.Helper()
	frame := ansi.Strip(m.frame())
	for _, w := range want {
		if !strings.Contains(frame, w) {
			t.Errorf("the frame lacks %q:\n%s", w, frame)
		}
	}
}

func TestTopSaysThatABackendIsDrained(t *testing.T) {
	m := topOf(1, 1)
	m.data.backends = append(m.data.backends, json.RawMessage(`{"Name":"backend-x","State":"ready","Draining":{"By":"default/operator","SinceUtc":"2026-11-30T11:59:00Z"}}`))
	wantFrame(t, m, "ready, drained")
}

func TestTopShowsBackendsSessionsAndJobs(t *testing.T) {
	m := topOf(3, 2)
	wantFrame(t, m, "berth 1.0  up 2h  sessions 2  running 3  queued 4", "unfinished 2  Succeeded 41  Failed 0  Lost 1", "backend-2", "2/4", "2+1", "9s", "01234567…"[:7], "unknown")
	wantFrame(t, press(t, m, "tab"), "client-1", "default/u1", "[2 Sessions]")
	wantFrame(t, press(t, m, "3"), "job_1", "Running", "1m", "backend-0__work")
	wantFrame(t, press(t, m, "left"), "[3 Jobs]")
	wantFrame(t, press(t, m, "?"), "filter; enter keeps it")
	wantFrame(t, press(t, m, "down", "enter"), "Name               backend-1", "Tools              unknown")
	wantFrame(t, press(t, m, "down", "enter", "esc"), "> backend-1"[:1], "[1 Backends]")
}

func TestTopChoosesAndFilters(t *testing.T) {
	m := topOf(50, 0)
	m = press(t, m, "end")
	if m.at(50) != 49 {
		t.Errorf("end chooses %d", m.at(50))
	}
	wantFrame(t, m, ">backend-49")
	if m = press(t, m, "down"); m.at(50) != 49 {
		t.Errorf("it went past the end, to %d", m.at(50))
	}
	m = press(t, m, "/", "-", "4", "1")
	wantFrame(t, m, "backend-41", "/-41_")
	if rows := m.rows(); len(rows) != 1 {
		t.Errorf("%d rows pass the filter", len(rows))
	}
	m = press(t, m, "enter", "enter")
	wantFrame(t, m, "Name               backend-41")
	m = press(t, m, "esc", "esc")
	if len(m.rows()) != 50 || m.filter != "" {
		t.Errorf("the filter %q stays", m.filter)
	}
	if m = press(t, m, "/", "q"); m.filter != "q" {
		t.Error("a q that belongs to the filter was taken for a command")
	}
	if _, cmd := m.Update(keyNamed(t, "ctrl+c")); cmd == nil {
		t.Error("ctrl+c does not end it")
	}
}

// TestTopNeverShowsOldNumbersAsFresh: a broker that is gone is named, with the
// age of what is shown, and asked again.
func TestTopNeverShowsOldNumbersAsFresh(t *testing.T) {
	looks := 0
	m := topOf(1, 0)
	m.look = func(topTab, bool) tea.Cmd { looks++; return nil }
	tick := func(at time.Duration) {
		next, _ := m.Update(topTick(topTime.Add(at)))
		m = next.(topModel)
	}
	gone := &topData{err: noBroker(errors.New("no broker runs")), at: topTime.Add(time.Second)}
	tick(time.Second)
	m = m.looked(gone)
	wantFrame(t, m, "! 1S OLD: No broker runs. Trying again.", "backend-0")
	tick(90 * time.Second)
	wantFrame(t, m, "! 1M OLD")
	if looks != 2 {
		t.Errorf("it looked %d times", looks)
	}
	// One that does not answer at all is not asked a second time meanwhile.
	tick(91 * time.Second)
	if looks != 2 {
		t.Errorf("it looked %d times, want one at a time", looks)
	}
	back := *m.data
	back.at = topTime.Add(92 * time.Second)
	m = m.looked(&back)
	wantFrame(t, m, "berth 1.0  up 2h")
	// A look that hangs makes the numbers old as well.
	tick(93 * time.Second)
	tick(97 * time.Second)
	wantFrame(t, m, "! 5S OLD: the broker does not answer. Trying again.")

	never := topModel{now: topTime, width: 100, height: 20}.looked(gone)
	wantFrame(t, never, "! No broker runs. Trying again.")
}

func TestTopMakesHostileTextHarmless(t *testing.T) {
	hostile := "evil\x1b[2J\x1b]0;title\x07\u202ertl\u2066\r\n" + strings.Repeat("x", 10<<10)
	m := topOf(0, 0)
	name, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	m.data.backends = []json.RawMessage{json.RawMessage(`{"Name":` + string(name) + `,"State":` + string(name) + `,"LastError":` + string(name) + `,"Flags":[` + string(name) + `]}`), json.RawMessage(`17`)}
	m.data.sessions = []json.RawMessage{json.RawMessage(`{"Key":` + string(name) + `,"ClientName":` + string(name) + `}`)}
	m.data.jobs = []json.RawMessage{json.RawMessage(`{"JobId":` + string(name) + `,"Operation":` + string(name) + `}`)}
	m.data.status.Version = hostile
	frames := []string{m.once()}
	for _, tab := range []string{"1", "2", "3"} {
		shown := press(t, m, tab)
		frames = append(frames, shown.frame(), press(t, shown, "enter").frame())
	}
	m.failed = errors.New(hostile)
	frames = append(frames, m.frame())
	for _, frame := range frames {
		for i, line := range strings.Split(frame, "\n") {
			if strings.ContainsAny(line, "\x1b\x07\r\u202e\u2066") || ansi.StringWidth(line) > m.width {
				t.Errorf("line %d, %d wide: %.200q", i, ansi.StringWidth(line), line)
			}
		}
	}
}

// TestTopFitsEveryTerminal: whatever the size and the keys, a frame has as many
// lines as the terminal and none is wider.
func TestTopFitsEveryTerminal(t *testing.T) {
	keys := []string{"up", "down", "left", "right", "enter", "esc", "tab", "/", "?", "pgdown", "pgup", "end", "home", "x", "1", "2", "3"}
	rapid.Check(t, func(rt *rapid.T) {
		m := topOf(rapid.IntRange(0, 40).Draw(rt, "backends"), rapid.IntRange(0, 40).Draw(rt, "sessions"))
		m.color = rapid.Bool().Draw(rt, "color")
		for range rapid.IntRange(0, 12).Draw(rt, "steps") {
			m = press(t, m, rapid.SampledFrom(keys).Draw(rt, "key"))
			next, _ := m.Update(tea.WindowSizeMsg{Width: rapid.IntRange(1, 200).Draw(rt, "width"), Height: rapid.IntRange(1, 60).Draw(rt, "height")})
			m = next.(topModel)
			lines := strings.Split(m.frame(), "\n")
			if len(lines) > max(1, m.height) || m.width >= minTopWidth && m.height >= minTopHeight && len(lines) != m.height {
				rt.Fatalf("%d lines in %d by %d", len(lines), m.width, m.height)
			}
			for _, line := range lines {
				if ansi.StringWidth(line) > m.width {
					rt.Fatalf("a line of %d in %d: %q", ansi.StringWidth(line), m.width, line)
				}
			}
			if !m.color && strings.Contains(m.frame(), "\x1b") {
				rt.Fatal("there is a colour")
			}
		}
	})
	small := topOf(3, 0)
	small.width, small.height = minTopWidth, minTopHeight
	wantFrame(t, small, "NAME", "STATE", "RUN", "QUEUE", "backend-2", "q leave"[:1])
}
