package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// table prints aligned columns. Cells come from backends and clients, so what
// would move a terminal's cursor is taken out.
func (a *app) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = plain(c)
			if cells[i] == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// facts prints name and value a line.
func (a *app) facts(rows [][2]string) error {
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(w, "%s\t%s\n", row[0], plain(row[1]))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// plain makes one line without control characters.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
}

// plainText keeps line breaks and tabs; nothing else that is not printed.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}

// short cuts s to n characters.
func short(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func count[T int | int64 | uint64](n T) string { return strconv.FormatInt(int64(n), 10) }

func countOrUnknown(n *int) string {
	if n == nil {
		return "unknown"
	}
	return count(*n)
}

// since shows how long ago a time of the API was.
func since(text *string, now time.Time) string {
	if text == nil {
		return "-"
	}
	t, err := time.Parse(time.RFC3339, *text)
	if err != nil {
		return *text
	}
	return age(now.Sub(t))
}

// age shows a duration in its largest unit.
func age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}

// show prints an answer of the API: as it came with --json, else by rows.
func show[T any](a *app, answer json.RawMessage, people func(T) error) error {
	if a.json {
		return a.printJSON(answer)
	}
	var v T
	if err := json.Unmarshal(answer, &v); err != nil {
		return fmt.Errorf("read the broker's answer: %w", err)
	}
	return people(v)
}
