package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong, or was passed over, and where.
type Problem struct {
	Pointer string // JSON pointer; empty for the whole file
	Line    int    // from 1; 0 when there is no place
	Column  int    // from 1, in bytes
	Message string // one sentence without a value that may be a secret
}

func (p Problem) text(name string) string {
	var b strings.Builder
	b.WriteString(name)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	if p.Pointer != "" {
		b.WriteString(": " + p.Pointer)
	}
	b.WriteString(": " + p.Message)
	return b.String()
}

// Invalid is the error of a file that was refused, with everything that is
// wrong with it in the order of the file.
type Invalid struct {
	Name     string
	Problems []Problem
}

// shownProblems limits the text of an error, not the problems that it holds.
const shownProblems = 50

// Error gives one line a problem: file:line:column: pointer: message.
func (e *Invalid) Error() string {
	var lines []string
	for i, p := range e.Problems {
		if i == shownProblems {
			lines = append(lines, fmt.Sprintf("%s: and %d more problems", e.Name, len(e.Problems)-shownProblems))
			break
		}
		lines = append(lines, p.text(e.Name))
	}
	return strings.Join(lines, "\n")
}

func sortProblems(ps []Problem) {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
}

// report collects what is found while a file is read.
type report struct {
	problems []Problem
	notes    []Problem
}

func problemAt(n *node, format string, args ...any) Problem {
	return Problem{Pointer: n.pointer, Line: n.line, Column: n.column, Message: fmt.Sprintf(format, args...)}
}

// refuse records that n is wrong. args never hold a value outside a `berth` object.
func (r *report) refuse(n *node, format string, args ...any) {
	r.problems = append(r.problems, problemAt(n, format, args...))
}

// refuseKey records that a member's key is wrong.
func (r *report) refuseKey(m member, format string, args ...any) {
	p := problemAt(m.value, format, args...)
	p.Line, p.Column = m.line, m.column
	r.problems = append(r.problems, p)
}

// note records that a member was passed over.
func (r *report) note(m member, format string, args ...any) {
	p := problemAt(m.value, format, args...)
	p.Line, p.Column = m.line, m.column
	r.notes = append(r.notes, p)
}
