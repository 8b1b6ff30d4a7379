package shape

import (
	"fmt"
	"strings"
)

// footer says what an answer was cut to and where the rest is.
type footer struct{ lines []line }

// line is one piece that was cut or left out.
type line struct {
	what    string // what it is, where that is not plain
	unit    string
	kept    int
	total   int
	handle  string
	next    int
	dropped int
}

func (f *footer) add(l line) { f.lines = append(f.lines, l) }

// before gives the footer with a line before the others.
func (f footer) before(l line) footer { return footer{lines: append([]line{l}, f.lines...)} }

// units are the words of a person for the units.
var units = map[string]string{UnitItems: "items", UnitBlocks: "content blocks", UnitBytes: "bytes"}

// text renders the footer.
func (f footer) text(l Limits) string {
	var b strings.Builder
	b.WriteString("[berth] ")
	for i, line := range f.lines {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, `%s%d of %d %s. Rest: more {"handle":"%s","offset":%d} until %s.`, line.what, line.kept, line.total, units[line.unit], line.handle, line.next, l.until())
		if line.dropped > 0 {
			fmt.Fprintf(&b, " The last %d %s are over what is kept (%d MiB).", line.dropped, units[line.unit], MaxKept>>20)
		}
	}
	if l.Fewer != "" && l.Records != nil {
		b.WriteString(" " + l.Fewer)
	}
	if l.Complete {
		b.WriteString(" The call is complete; do not repeat it.")
	}
	return b.String()
}

// until is the time of day at which the rest is dropped, in UTC.
func (l Limits) until() string { return l.Until.UTC().Format("15:04Z") }
