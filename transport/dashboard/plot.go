package dashboard

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// The size of a plot, in units of its own; the style sheet gives it a size on
// the page.
const (
	plotColumns = 120
	plotHeight  = 28
)

// plot draws an hour as an area with gaps, and says in words what it shows.
// what is its subject, form gives a value as text.
func plot(what string, values []float32, form func(float32) string) template.HTML {
	columns := columnsOf(values)
	most, last := unknown, unknown
	for _, v := range columns {
		if !isUnknown(v) && !(most >= v) {
			most = v
		}
	}
	if len(values) > 0 {
		last = values[len(values)-1]
	}
	said := what + " over the last hour: nothing is known"
	if !isUnknown(most) {
		said = fmt.Sprintf("%s over the last hour: at most %s, now %s", what, form(most), known(last, form))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="plot" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s">`,
		plotColumns, plotHeight, template.HTMLEscapeString(said))
	fmt.Fprintf(&b, `<title>%s</title><path class="base" d="M0 %[2]dH%[3]d"/>`, template.HTMLEscapeString(said), plotHeight, plotColumns)
	area, line := paths(columns, max(1, float64(most)))
	if area != "" {
		fmt.Fprintf(&b, `<path class="area" d="%s"/><path class="line" d="%s"/>`, area, line)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // its only text is escaped above
}

func known(v float32, form func(float32) string) string {
	if isUnknown(v) {
		return "unknown"
	}
	return form(v)
}

// columnsOf is the greatest known value of each column.
func columnsOf(values []float32) []float32 {
	out := make([]float32, plotColumns)
	for i := range out {
		out[i] = unknown
		for _, v := range values[i*len(values)/plotColumns : (i+1)*len(values)/plotColumns] {
			if !isUnknown(v) && !(out[i] >= v) {
				out[i] = v
			}
		}
	}
	return out
}

// paths draws each run of known columns as steps, apart from the others.
func paths(columns []float32, top float64) (area, line string) {
	var a, l strings.Builder
	for i := 0; i < len(columns); i++ {
		if isUnknown(columns[i]) {
			continue
		}
		fmt.Fprintf(&a, "M%d %d", i, plotHeight)
		for first := true; i < len(columns) && !isUnknown(columns[i]); i++ {
			y := number(plotHeight - 1 - float64(columns[i])/top*(plotHeight-3))
			fmt.Fprintf(&a, "V%sH%d", y, i+1)
			if first {
				fmt.Fprintf(&l, "M%d %s", i, y)
			} else {
				fmt.Fprintf(&l, "V%s", y)
			}
			fmt.Fprintf(&l, "H%d", i+1)
			first = false
		}
		fmt.Fprintf(&a, "V%dZ", plotHeight)
	}
	return a.String(), l.String()
}

func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

func whole(v float32) string { return strconv.Itoa(int(v)) }

func seconds(v float32) string { return lasting(time.Duration(float64(v) * float64(time.Second))) }
