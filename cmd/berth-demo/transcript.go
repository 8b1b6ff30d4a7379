//go:build unix

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// transcript prints what is done and what is observed. The first observation
// that is not what it must be ends the demo.
type transcript struct {
	out     io.Writer
	began   time.Time
	steps   int
	checked int
}

func newTranscript(out io.Writer) *transcript { return &transcript{out: out, began: time.Now()} }

func (t *transcript) title(text string) {
	fmt.Fprintf(t.out, "%s\n%s\n", text, strings.Repeat("=", len(text)))
}

// step begins a numbered step.
func (t *transcript) step(format string, args ...any) {
	t.steps++
	fmt.Fprintf(t.out, "\n%2d. %s  [%.1f s]\n", t.steps, fmt.Sprintf(format, args...), time.Since(t.began).Seconds())
}

// say prints what is being done.
func (t *transcript) say(format string, args ...any) {
	fmt.Fprintf(t.out, "      %s\n", fmt.Sprintf(format, args...))
}

// show prints a command and what it answered, as a user sees it.
func (t *transcript) show(command, output string) {
	fmt.Fprintf(t.out, "      $ %s\n", command)
	for _, line := range strings.Split(strings.TrimRight(output, "\n"), "\n") {
		fmt.Fprintf(t.out, "        %s\n", line)
	}
}

// failure is an observation that is not what it must be.
type failure string

// check prints an observation, or ends the demo when it does not hold.
func (t *transcript) check(holds bool, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !holds {
		panic(failure(text))
	}
	t.checked++
	fmt.Fprintf(t.out, "   ok %s\n", text)
}

// must ends the demo when something that it needs failed.
func (t *transcript) must(err error, doing string) {
	if err != nil {
		panic(failure(fmt.Sprintf("%s: %v", doing, err)))
	}
}

func (t *transcript) failed(what failure, logs string) {
	fmt.Fprintf(t.out, "  NOT %s\n\nThe demo stops here: this must hold and does not.\n", what)
	if logs != "" {
		fmt.Fprintf(t.out, "The end of the broker's log:\n%s\n", logs)
	}
}

func (t *transcript) summary() {
	fmt.Fprintf(t.out, "\nAll %d observations were as they must be, in %.1f s. Nothing was left behind.\n", t.checked, time.Since(t.began).Seconds())
}

// ms shows a duration in whole milliseconds.
func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
