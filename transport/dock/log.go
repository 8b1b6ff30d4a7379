//go:build unix

package dock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"berth/broker/shape"
)

// What stands between the time and the text of a line that is not of the
// agent's standard output.
const (
	ofBroker = "[berth] "
	ofStderr = "[stderr] "
)

const (
	maxPiece = 64 << 10 // of a line of output, in bytes
	maxNote  = 4 << 10  // of a line of the broker's own
	// notesRoom is kept free for the broker's own lines after the output has
	// filled the rest.
	notesRoom = 64 << 10
)

// redactor takes credentials out of text: the values that are known, whatever
// they look like, and what looks like one.
type redactor struct{ known []string }

// redacting makes a redactor of what values there are.
func redacting(values ...string) redactor {
	return redactor{slices.DeleteFunc(values, func(v string) bool { return v == "" })}
}

func (r redactor) clean(text string) string {
	for _, value := range r.known {
		text = strings.ReplaceAll(text, value, "***")
	}
	return shape.Redact(text)
}

// straddles is how many bytes of the end of text may be the beginning of a value
// that goes on in what follows.
func (r redactor) straddles(text []byte) int {
	most := 0
	for _, value := range r.known {
		for n := min(len(value)-1, len(text)); n > most; n-- {
			if string(text[len(text)-n:]) == value[:n] {
				most = n
			}
		}
	}
	return most
}

// logFile is a mission's log while it is written. It is safe for concurrent use.
// What cannot be written is counted and said once there is room again.
type logFile struct {
	mission  string
	redactor redactor
	now      func() time.Time
	slog     *slog.Logger
	file     io.WriteCloser // each write is of whole lines, at the end of the file

	mu     sync.Mutex
	room   int64 // for the agent's output
	notes  int64 // for the broker's lines
	lost   int   // writes that failed since the last that did not
	broken bool
}

// openLog opens a mission's log for lines that follow those that are there.
func (p *Papers) openLog(missionID string, r redactor) (*logFile, error) {
	dir, err := p.room(missionID)
	if err != nil {
		return nil, err
	}
	l := &logFile{mission: missionID, redactor: r, now: p.opts.Now, slog: p.opts.Log, room: p.opts.MaxLog, notes: notesRoom}
	if l.file, err = p.create(filepath.Join(dir, logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY); err != nil {
		return nil, fmt.Errorf("open a mission's log: %w", err)
	}
	return l, nil
}

// colour is how programs tell a terminal to look.
var colour = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// plain is text without what would do something to the terminal that shows it.
func plain(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if strings.IndexByte(text, 0x1b) >= 0 {
		text = colour.ReplaceAllString(text, "")
	}
	if strings.IndexFunc(text, control) < 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		if control(r) {
			return -1
		}
		return r
	}, text)
}

func control(r rune) bool { return unicode.IsControl(r) && r != '\t' }

// write adds the lines of text, which an agent wrote.
func (l *logFile) write(mark, text string) {
	l.mu.Lock()
	full := l.room < 0
	l.mu.Unlock()
	if full { // to make it readable would be for nothing
		return
	}
	var lines strings.Builder
	stamp := l.stamp()
	for line := range strings.SplitSeq(l.redactor.clean(text), "\n") {
		lines.WriteString(stamp + mark + plain(line) + "\n")
	}
	l.mu.Lock()
	full = l.room < 0 // by another line
	l.room -= int64(lines.Len())
	over := l.room < 0
	l.mu.Unlock()
	switch {
	case full:
	case over: // a log is closed only when nothing comes any more
		_ = l.put(stamp + ofBroker + "The log has reached its limit; what the agent writes from here on is not kept.\n")
	default:
		_ = l.put(lines.String())
	}
}

// note adds a line of the broker's own. The error is that the log is closed.
func (l *logFile) note(line string) error {
	if len(line) > maxNote {
		line = strings.ToValidUTF8(line[:maxNote], "") + "..."
	}
	text := l.stamp() + ofBroker + plain(strings.ReplaceAll(l.redactor.clean(line), "\n", " ")) + "\n"
	l.mu.Lock()
	l.notes -= int64(len(text))
	room := l.notes >= 0
	l.mu.Unlock()
	if !room {
		return nil
	}
	return l.put(text)
}

func (l *logFile) stamp() string { return l.now().UTC().Format("2006-01-02T15:04:05.000Z ") }

// put writes whole lines. What fails is counted; the error is that the log is
// closed.
func (l *logFile) put(lines string) error {
	l.mu.Lock()
	lost := l.lost
	l.lost = 0
	l.mu.Unlock()
	if lost > 0 {
		lines = fmt.Sprintf("%s%s%d writes to this log failed; what they held is lost.\n", l.stamp(), ofBroker, lost) + lines
	}
	n, err := io.WriteString(l.file, lines)
	if errors.Is(err, fs.ErrClosed) {
		return err
	}
	if err != nil && n > 0 {
		_, _ = io.WriteString(l.file, "\n") // what was cut off is a line of its own, if there is room for that
	}
	l.mu.Lock()
	first := err != nil && !l.broken
	l.broken = err != nil
	if err != nil {
		l.lost += lost + 1
	}
	l.mu.Unlock()
	if first {
		l.slog.Warn("a mission's log cannot be written; its agent goes on", slog.String("mission", l.mission), slog.String("cause", err.Error()))
	}
	return nil
}

func (l *logFile) close() {
	if err := l.file.Close(); err != nil {
		l.slog.Warn("a mission's log could not be closed", slog.String("mission", l.mission), slog.String("cause", err.Error()))
	}
}
