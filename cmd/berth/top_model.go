package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// topTab is one of the lists.
type topTab int

const (
	tabBackends topTab = iota
	tabSessions
	tabJobs
	topTabs
)

var topTabNames = [topTabs]string{"Backends", "Sessions", "Jobs"}

// topStale is the age from which numbers are shown as old.
const topStale = 3 * time.Second

// maxFilter bounds what may be typed, in characters.
const maxFilter = 80

// topModel is the state of the overview. Update is pure: the clock and the
// broker come as messages.
type topModel struct {
	look  func(tab topTab, counts bool) tea.Cmd
	color bool

	now           time.Time
	width, height int
	looking       bool
	data          *topData // the last that succeeded; nil: none has
	counts        *topData // the last that counted the journal
	counting      time.Time
	failed        error // of the last look; nil: it succeeded

	tab       topTab
	chosen    [topTabs]int
	filter    string
	filtering bool
	help      bool
	detail    string // the lines of one entry; empty: the list is shown
	scroll    int    // of the detail or the help
}

// topTick is the clock.
type topTick time.Time

func tickTop() tea.Cmd { return tea.Tick(topEvery, func(t time.Time) tea.Msg { return topTick(t) }) }

// Init implements tea.Model.
func (m topModel) Init() tea.Cmd {
	return func() tea.Msg { return topTick(time.Now()) }
}

// Update implements tea.Model.
func (m topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case topTick:
		m.now = time.Time(msg)
		if m.looking { // the last one has not ended; it has a limit
			return m, tickTop()
		}
		return m.lookNow(tickTop())
	case *topData:
		m = m.looked(msg)
	case tea.KeyPressMsg:
		return m.key(msg)
	}
	return m, nil
}

// lookNow begins a look, with the journal when its count is old.
func (m topModel) lookNow(also tea.Cmd) (tea.Model, tea.Cmd) {
	m.looking = true
	counts := m.now.Sub(m.counting) >= topCounts
	if counts {
		m.counting = m.now
	}
	return m, tea.Batch(also, m.look(m.tab, counts))
}

func (m topModel) looked(d *topData) topModel {
	m.looking = false
	if d.at.After(m.now) {
		m.now = d.at
	}
	if m.failed = d.err; d.err != nil {
		m.counting = time.Time{} // who answers next may be another
		return m
	}
	m.data = d
	if d.counted != nil {
		m.counts = d
	}
	return m
}

// key takes one key.
func (m topModel) key(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return m, tea.Quit
	case m.filtering:
		return m.typed(k), nil
	case m.help || m.detail != "":
		return m.read(name)
	}
	step := 0
	switch name {
	case "q":
		return m, tea.Quit
	case "?":
		m.help, m.scroll = true, 0
	case "/":
		m.filtering = true
	case "esc":
		m.filter = ""
	case "tab", "right", "l":
		return m.turn(m.tab + 1)
	case "shift+tab", "left", "h":
		return m.turn(m.tab + topTabs - 1)
	case "1", "2", "3":
		return m.turn(topTab(name[0] - '1'))
	case "up", "k":
		step = -1
	case "down", "j":
		step = 1
	case "pgup":
		step = -m.room()
	case "pgdown", "space":
		step = m.room()
	case "home", "g":
		step = -1 << 30
	case "end", "G":
		step = 1 << 30
	case "enter":
		if rows := m.rows(); len(rows) > 0 {
			m.detail, m.scroll = detailOf(rows[m.at(len(rows))].raw), 0
		}
	}
	if n := len(m.rows()); step != 0 && n > 0 {
		m.chosen[m.tab] = min(max(0, m.at(n)+step), n-1)
	}
	return m, nil
}

func (m topModel) turn(to topTab) (tea.Model, tea.Cmd) {
	m.tab = to % topTabs
	if m.tab == tabJobs && !m.looking && m.look != nil {
		return m.lookNow(nil) // their list is looked at only when it is shown
	}
	return m, nil
}

// typed takes a key of the filter.
func (m topModel) typed(k tea.KeyPressMsg) topModel {
	switch name := k.String(); {
	case name == "enter":
		m.filtering = false
	case name == "esc":
		m.filtering, m.filter = false, ""
	case name == "backspace":
		_, size := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-size]
	case k.Text != "" && utf8.RuneCountInString(m.filter) < maxFilter:
		m.filter += plain(k.Text)
	}
	m.chosen[m.tab] = 0
	return m
}

// read takes a key while a text is shown.
func (m topModel) read(name string) (tea.Model, tea.Cmd) {
	switch name {
	case "q", "esc", "enter", "?", "backspace", "left":
		m.help, m.detail = false, ""
	case "up", "k":
		m.scroll = max(0, m.scroll-1)
	case "down", "j":
		m.scroll = min(m.scroll+1, max(0, len(m.text())-1))
	}
	return m, nil
}

// text is the text that is shown instead of a list.
func (m topModel) text() []string {
	if m.help {
		return topHelp
	}
	return strings.Split(m.detail, "\n")
}

var topHelp = []string{
	"tab 1 2 3      next list, or this one",
	"up down        choose an entry; page up, page down, home, end",
	"enter          all of an entry; esc or q back",
	"/              filter; enter keeps it, esc takes it away",
	"q              leave",
	"",
	"RUN is seats in use of all; QUEUE calls and jobs that wait;",
	"WAIT how long the longest waits now; LIVES how often it was started.",
	"Jobs are those that have not ended; the line above counts all.",
}

// at is the chosen row among n.
func (m topModel) at(n int) int { return min(m.chosen[m.tab], max(0, n-1)) }

// room is how many rows of a list fit; without a height all do.
func (m topModel) room() int {
	if m.height == 0 {
		return 1 << 30
	}
	return max(1, m.height-topFrame)
}

// age says how old the numbers are, and whether they count as fresh.
func (m topModel) age() (text string, fresh bool) {
	if m.data == nil {
		return "no numbers yet", false
	}
	old := max(0, m.now.Sub(m.data.at))
	return fmt.Sprintf("%s old", age(old)), m.failed == nil && old < topStale
}
