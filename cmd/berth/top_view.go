package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"berth/transport/rest"
)

// topFrame is how many lines stand around the rows of a list: two of totals,
// the lists' names, the columns' names and the last line.
const topFrame = 5

// The smallest terminal that the overview is made for.
const minTopWidth, minTopHeight = 60, 15

// topRow is one entry of a list: its cells, and all that is known of it.
type topRow struct {
	cells []string
	raw   json.RawMessage
}

// topColumn is a column. The one with the highest drop goes first when there is
// no room.
type topColumn struct {
	name string
	most int // of characters
	drop int
}

var topColumns = [topTabs][]topColumn{
	tabBackends: {{"NAME", 24, 0}, {"STATE", 20, 0}, {"RUN", 9, 0}, {"QUEUE", 9, 0}, {"WAIT", 6, 1}, {"LIVES", 6, 4}, {"LIFE", 8, 3}, {"TOOLS", 7, 5}, {"ANSWERED", 9, 6}, {"FAILED", 8, 2}, {"NOTE", 60, 7}},
	tabSessions: {{"CLIENT", 28, 0}, {"PRINCIPAL", 24, 1}, {"RUN", 5, 0}, {"CALLS", 8, 0}, {"SEEN", 6, 0}, {"AGE", 6, 2}, {"PROFILE", 16, 3}, {"PROTOCOL", 12, 5}, {"SESSION", 20, 4}},
	tabJobs:     {{"JOB", 28, 0}, {"STATUS", 10, 0}, {"AGE", 6, 0}, {"OPERATION", 40, 1}, {"REASON", 30, 2}},
}

// View implements tea.Model.
func (m topModel) View() tea.View {
	v := tea.NewView(m.frame())
	v.AltScreen = true
	v.WindowTitle = "berth top"
	return v
}

// frame is the whole screen.
func (m topModel) frame() string {
	if m.width == 0 || m.height == 0 {
		return ""
	}
	if m.width < minTopWidth || m.height < minTopHeight {
		return ansi.Truncate(fmt.Sprintf("berth top needs %d by %d", minTopWidth, minTopHeight), m.width, "")
	}
	lines := []string{m.head(), m.jobLine(), m.tabs()}
	switch {
	case m.help, m.detail != "":
		text := m.text()
		for _, line := range text[min(m.scroll, len(text)):] {
			if len(lines) == m.height-1 {
				break
			}
			lines = append(lines, line)
		}
	default:
		lines = append(lines, m.list()...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:m.height-1], m.foot())
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// once is a look for scripts: all lists, one below the other.
func (m topModel) once() string {
	lines := []string{m.head(), m.jobLine()}
	for m.tab = range topTabs {
		m.chosen[m.tab] = -1
		lines = append(lines, "", topTabNames[m.tab])
		lines = append(lines, m.list()...)
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight(ansi.Truncate(line, m.width, "…"), " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// The styles; without colours they are nothing.
const (
	styleBold    = "\x1b[1m"
	styleReverse = "\x1b[7m"
	styleRed     = "\x1b[31m"
	styleFaint   = "\x1b[2m"
	styleOff     = "\x1b[0m"
)

func (m topModel) style(style, text string) string {
	if !m.color {
		return text
	}
	return style + text + styleOff
}

// head says who answers and how old the numbers are.
func (m topModel) head() string {
	old, fresh := m.age()
	if m.data == nil {
		if m.failed != nil {
			return m.style(styleRed, "! "+plain(short(asFailure(m.failed).message, 200))+" Trying again.")
		}
		return "Asking the broker..."
	}
	s := m.data.status
	line := fmt.Sprintf("berth %s  up %s  sessions %d  running %d  queued %d", plain(short(s.Version, 20)), age(time.Duration(s.UptimeSeconds)*time.Second),
		s.Counts.Sessions, s.Counts.InFlight, s.Counts.Queued)
	if fresh {
		return m.style(styleBold, line)
	}
	why := "the broker does not answer"
	if m.failed != nil {
		why = strings.TrimRight(plain(short(asFailure(m.failed).message, 160)), ".")
	}
	return m.style(styleRed, fmt.Sprintf("! %s: %s. Trying again.", strings.ToUpper(old), why))
}

// jobLine counts jobs: what is unfinished now, and all by the last count.
func (m topModel) jobLine() string {
	unfinished := "unknown"
	if m.data != nil && m.data.status.Counts.UnfinishedJobs != nil {
		unfinished = count(*m.data.status.Counts.UnfinishedJobs)
	}
	line := "jobs: unfinished " + unfinished
	if m.counts == nil {
		return line
	}
	for _, status := range []string{"Succeeded", "Failed", "Lost"} {
		line += fmt.Sprintf("  %s %d", status, m.counts.counted[status])
	}
	return line + fmt.Sprintf(" (counted %s ago)", age(m.now.Sub(m.counts.at)))
}

func (m topModel) tabs() string {
	var parts []string
	for tab := range topTabs {
		name := fmt.Sprintf(" %d %s ", tab+1, topTabNames[tab])
		if tab == m.tab {
			name = "[" + strings.TrimSpace(name) + "]"
			name = m.style(styleReverse, name)
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, " ")
}

func (m topModel) foot() string {
	switch {
	case m.filtering:
		return "/" + m.filter + "_"
	case m.help || m.detail != "":
		return "up down scroll  esc back"
	case m.filter != "":
		return "filter: " + m.filter + "  (esc takes it away)"
	}
	return "tab lists  up down choose  enter detail  / filter  ? help  q leave"
}

// list is the columns' names and the rows that fit, the chosen one among them.
func (m topModel) list() []string {
	rows := m.rows()
	if m.data == nil {
		return nil
	}
	columns, widths := m.fit(rows)
	header := make([]string, len(topColumns[m.tab]))
	for i, c := range topColumns[m.tab] {
		header[i] = c.name
	}
	lines := []string{m.style(styleBold, topLine(header, columns, widths))}
	if len(rows) == 0 {
		return append(lines, "(none)")
	}
	at, room := m.at(len(rows)), m.room()
	first := 0
	if at >= room {
		first = at - room + 1
	}
	_, fresh := m.age()
	for i := first; i < len(rows) && i < first+room; i++ {
		line := topLine(rows[i].cells, columns, widths)
		switch {
		case i == at && m.color:
			line = m.style(styleReverse, line)
		case i == at:
			line = ">" + line[1:]
		case !fresh:
			line = m.style(styleFaint, line)
		}
		lines = append(lines, line)
	}
	if m.tab == tabJobs && m.data.more > 0 && len(lines) <= room {
		lines = append(lines, fmt.Sprintf(" and %d more", m.data.more))
	}
	return lines
}

// fit chooses the columns for which there is room, and their widths.
func (m topModel) fit(rows []topRow) (columns, widths []int) {
	all := topColumns[m.tab]
	total := 0
	widths = make([]int, len(all))
	for i, c := range all {
		columns = append(columns, i)
		widths[i] = len(c.name)
		for _, r := range rows {
			widths[i] = max(widths[i], min(c.most, ansi.StringWidth(r.cells[i])))
		}
		total += widths[i] + 2
	}
	for total > m.width {
		drop := slices.MaxFunc(columns, func(a, b int) int { return all[a].drop - all[b].drop })
		if all[drop].drop == 0 {
			break // the rest is cut at the edge
		}
		columns = slices.DeleteFunc(columns, func(i int) bool { return i == drop })
		total -= widths[drop] + 2
	}
	return columns, widths
}

func topLine(cells []string, columns, widths []int) string {
	var b strings.Builder
	for _, i := range columns {
		cell := ansi.Truncate(cells[i], widths[i], "…")
		b.WriteString(" " + cell + strings.Repeat(" ", max(0, widths[i]-ansi.StringWidth(cell))) + " ")
	}
	return b.String()
}

// rows are the entries of the list that the filter lets through. What a
// backend or a client wrote is made harmless here.
func (m topModel) rows() []topRow {
	if m.data == nil {
		return nil
	}
	list := [topTabs][]json.RawMessage{m.data.backends, m.data.sessions, m.data.jobs}[m.tab]
	cells := [topTabs]func(json.RawMessage, time.Time) []string{backendCells, sessionCells, jobCells}[m.tab]
	var out []topRow
	for _, raw := range list {
		r := topRow{cells: cells(raw, m.data.at), raw: raw}
		for i, c := range r.cells {
			if r.cells[i] = harmless(c, 200); r.cells[i] == "" {
				r.cells[i] = "-"
			}
		}
		if m.filter == "" || strings.Contains(strings.ToLower(strings.Join(r.cells, " ")), strings.ToLower(m.filter)) {
			out = append(out, r)
		}
	}
	return out
}

// harmless is one line of at most n characters that leaves the terminal as it
// is: without control characters, and without those that turn the direction of
// the text around them.
func harmless(s string, n int) string { return short(plain(short(s, 4*n)), n) }

func backendCells(raw json.RawMessage, now time.Time) []string {
	var b rest.Backend
	if json.Unmarshal(raw, &b) != nil {
		return make([]string, len(topColumns[tabBackends]))
	}
	life := "-"
	if b.RuntimeID != nil {
		life = short(*b.RuntimeID, 8)
	}
	wait := "-"
	if b.OldestWaitMS > 0 {
		wait = age(time.Duration(b.OldestWaitMS) * time.Millisecond)
	}
	return []string{b.Name, backendState(b, now), count(b.InFlight) + "/" + count(b.Seats), count(b.QueuedCalls) + "+" + count(b.QueuedJobs), wait,
		count(b.Incarnations), life, countOrUnknown(b.Tools), count(b.Answered), count(b.Failed), backendNote(b)}
}

func sessionCells(raw json.RawMessage, now time.Time) []string {
	var s rest.Session
	if json.Unmarshal(raw, &s) != nil {
		return make([]string, len(topColumns[tabSessions]))
	}
	client := orDash(s.ClientName)
	if s.ClientVersion != nil {
		client += " " + *s.ClientVersion
	}
	return []string{client, s.Tenant + "/" + s.User, count(s.InFlight), count(s.Calls), since(s.LastSeenUTC, now), since(s.StartedUTC, now),
		orDash(s.Profile), orDash(s.ProtocolVersion), s.Key}
}

func jobCells(raw json.RawMessage, now time.Time) []string {
	var j rest.Job
	if json.Unmarshal(raw, &j) != nil {
		return make([]string, len(topColumns[tabJobs]))
	}
	return []string{j.JobID, string(j.Status), since(&j.SubmittedAtUTC, now), j.Operation, orDash(j.Reason)}
}

// maxDetail bounds one value of an entry, in characters.
const maxDetail = 400

// detailOf is all of an entry, a line a value.
func detailOf(raw json.RawMessage) string {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if t, err := decoder.Token(); err != nil || t != json.Delim('{') {
		return harmless(string(raw), maxDetail)
	}
	var lines []string
	for decoder.More() {
		name, err := decoder.Token()
		var value json.RawMessage
		if err != nil || decoder.Decode(&value) != nil {
			break
		}
		text := string(value)
		var s string
		switch {
		case text == "null":
			text = "unknown"
		case json.Unmarshal(value, &s) == nil:
			text = s
		}
		lines = append(lines, fmt.Sprintf(" %-18s %s", harmless(fmt.Sprint(name), 40), harmless(text, maxDetail)))
	}
	return strings.Join(lines, "\n")
}
