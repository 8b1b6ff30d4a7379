package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// How much of a text is shown in a row, and where it stands alone, in characters.
const (
	shortText = 8
	rowText   = 160
	lineText  = 500
	wholeText = 4000
)

var functions = template.FuncMap{
	"row":   func(v any) template.HTML { return shown(v, rowText) },
	"whole": func(v any) template.HTML { return shown(v, wholeText) },
	"short": func(v any) template.HTML { return shown(v, shortText) },
	"line":  func(v any) template.HTML { return shown(v, lineText) },
	"code":  func(v any) string { return visible(textOf(v)) }, // who made it has cut it
	"label": func(v any) string { return plain(textOf(v)) },
	"path":  url.PathEscape, "query": url.QueryEscape,
	"num": thousands, "size": size, "lower": strings.ToLower,
	"join": func(s []string) string { return strings.Join(s, ", ") },
}

func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case *string:
		if v == nil {
			return ""
		}
		return *v
	case json.RawMessage:
		var out bytes.Buffer
		if json.Indent(&out, v, "", "  ") == nil {
			return out.String()
		}
		return string(v)
	}
	return fmt.Sprint(v)
}

// shown makes a text of somebody else's fit to stand in a page: it keeps its
// direction to itself, what cannot be seen is written out, and more than most
// characters of it are cut, with a word that they were.
func shown(v any, most int) template.HTML {
	text := textOf(v)
	if text == "" {
		return `<span class="none" title="not known">–</span>`
	}
	cut, total := text, utf8.RuneCountInString(text)
	if total > most {
		n := 0
		for i := range text {
			if n == most {
				cut = text[:i]
				break
			}
			n++
		}
	}
	out := "<bdi>" + template.HTMLEscapeString(visible(cut)) + "</bdi>"
	if total > most && most == shortText { // the whole of it stands in a title
		out += "…"
	} else if total > most {
		out += fmt.Sprintf(` <span class="cut">… (%s characters)</span>`, thousands(total))
	}
	return template.HTML(out) //nolint:gosec // escaped above
}

// plain is as shown, for where no markup can stand.
func plain(text string) string {
	n := 0
	for i := range text {
		if n == rowText {
			return visible(text[:i]) + "…"
		}
		n++
	}
	return visible(text)
}

// visible writes out characters that would not be seen, or would move others.
func visible(s string) string {
	odd := func(r rune) bool {
		return r == utf8.RuneError || (unicode.IsControl(r) && r != '\n' && r != '\t') || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
	}
	if strings.IndexFunc(s, odd) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if odd(r) {
			fmt.Fprintf(&b, `\u{%x}`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func thousands(v any) string {
	text := fmt.Sprint(v)
	if p, ok := v.(*int); ok {
		if p == nil {
			return "–"
		}
		text = strconv.Itoa(*p)
	}
	digits := strings.TrimPrefix(text, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if strings.HasPrefix(text, "-") {
		return "-" + digits
	}
	return digits
}

func size(bytes int64) string {
	switch {
	case bytes < 1<<10:
		return strconv.FormatInt(bytes, 10) + " B"
	case bytes < 1<<20:
		return strconv.FormatFloat(float64(bytes)/(1<<10), 'f', 1, 64) + " KiB"
	}
	return strconv.FormatFloat(float64(bytes)/(1<<20), 'f', 1, 64) + " MiB"
}

// lasting gives a duration in at most two units.
func lasting(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Millisecond && d > 0:
		return "<1 ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return two(d, time.Minute, "min", time.Second, "s")
	case d < 48*time.Hour:
		return two(d, time.Hour, "h", time.Minute, "min")
	}
	return two(d, 24*time.Hour, "d", time.Hour, "h")
}

func two(d, large time.Duration, name string, small time.Duration, smaller string) string {
	out := fmt.Sprintf("%d %s", d/large, name)
	if rest := d % large / small; rest > 0 {
		out += fmt.Sprintf(" %d %s", rest, smaller)
	}
	return out
}

// moment is a time as a page shows it: how long ago, and exactly.
type moment struct{ Exact, Ago string }

func (d *Dashboard) moment(t time.Time) *moment {
	if t.IsZero() {
		return nil
	}
	ago := "just now"
	if past := d.Now().Sub(t); past >= 10*time.Second {
		ago = lasting(coarse(past)) + " ago"
	} else if past < -time.Second {
		ago = "in " + lasting(coarse(-past))
	}
	return &moment{Exact: t.UTC().Format("2006-01-02 15:04:05.000") + "Z", Ago: ago}
}

// coarse drops what would only make a page restless.
func coarse(d time.Duration) time.Duration {
	switch {
	case d < time.Minute:
		return d.Truncate(5 * time.Second)
	case d < time.Hour:
		return d.Truncate(time.Minute)
	}
	return d.Truncate(time.Hour)
}

// at reads a time of the operator API.
func (d *Dashboard) at(text *string) *moment {
	if text == nil {
		return nil
	}
	t, err := time.Parse(time.RFC3339, *text)
	if err != nil {
		return nil
	}
	return d.moment(t)
}

func (d *Dashboard) atPtr(t *time.Time) *moment {
	if t == nil {
		return nil
	}
	return d.moment(*t)
}

func pointed[T any](v *T) T {
	var zero T
	if v == nil {
		return zero
	}
	return *v
}
