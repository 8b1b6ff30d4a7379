package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/cli.md instead of comparing it")

var cliPage = filepath.Join("..", "..", "docs", "cli.md")

func TestCLIPageIsFresh(t *testing.T) {
	want := renderCLIPage()
	if *update {
		if err := os.WriteFile(cliPage, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(cliPage)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Fatal("docs/cli.md is not what the commands say; write it with: go test ./cmd/berth -run TestCLIPageIsFresh -update")
	}
}

// TestEveryExitCodeIsDocumentedAndShown holds the table, the page and the
// scripts and tests together.
func TestEveryExitCodeIsDocumentedAndShown(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%v, %d scripts", err, len(scripts))
	}
	shown := map[int]bool{exitOK: true, exitInterrupted: true} // every exec; TestAnInterruptedWaitSaysThatTheJobGoesOn
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^exits (\d+) berth`).FindAllSubmatch(text, -1) {
			code, err := strconv.Atoi(string(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			shown[code] = true
		}
	}
	page := string(renderCLIPage())
	listed := map[int]bool{}
	for _, row := range exitTable {
		if listed[row.code] {
			t.Errorf("exit code %d has two rows", row.code)
		}
		listed[row.code] = true
		if !shown[row.code] {
			t.Errorf("no script shows exit code %d", row.code)
		}
		if !strings.Contains(page, fmt.Sprintf("| %d | %s |", row.code, row.meaning)) {
			t.Errorf("the page does not have exit code %d", row.code)
		}
	}
	for code := range shown {
		if !listed[code] {
			t.Errorf("a script shows exit code %d, which is not in the table", code)
		}
	}
}

// TestNoFlagTakesACredential: whatever is on a command line is in the process list.
func TestNoFlagTakesACredential(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if regexp.MustCompile(`token|secret|password|credential`).MatchString(f.Name) && f.Name != "token-env" && f.Name != "credential-file" && // they say where it is
				f.Value.Type() != "bool" && f.Value.Type() != "int" { // neither holds a text
				t.Errorf("%s --%s", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRootCommand(&app{}, commands...))
}

func renderCLIPage() []byte {
	var b bytes.Buffer
	root := newRootCommand(&app{}, commands...)
	b.WriteString("# The command line\n\n")
	b.WriteString("Written by `go test ./cmd/berth -run TestCLIPageIsFresh -update`; change the commands, not this page.\n\n")
	b.WriteString(root.Long + "\n\n")
	b.WriteString("Tables are for people; with `--json` standard output is one JSON document, as the operator API gave it.\n" +
		"A failure is one sentence with its code on standard error; with `--json` also an object\n" +
		"`{Error, Code, ExitCode, Data}` on standard output, unless the answer itself is there already (exit codes 1 and 5).\n" +
		"A command that waits shows a progress line on standard error when that is a terminal. No command takes a credential.\n\n")
	b.WriteString("## Exit codes\n\n| code | meaning |\n|---|---|\n")
	for _, row := range exitTable {
		fmt.Fprintf(&b, "| %d | %s |\n", row.code, row.meaning)
	}
	b.WriteString("\n## Flags of every command\n\n")
	writeFlags(&b, root.PersistentFlags())
	for _, c := range root.Commands() {
		writeCommand(&b, c)
	}
	return b.Bytes()
}

func writeCommand(b *bytes.Buffer, c *cobra.Command) {
	if c.Hidden || c.Name() == "help" {
		return
	}
	if c.HasSubCommands() {
		for _, sub := range c.Commands() {
			writeCommand(b, sub)
		}
		return
	}
	fmt.Fprintf(b, "\n## berth %s\n\n", strings.TrimPrefix(c.CommandPath(), "berth "))
	about := c.Long
	if about == "" {
		about = c.Short + "."
	}
	fmt.Fprintf(b, "    %s\n\n%s\n", c.UseLine(), about)
	if c.HasAvailableLocalFlags() {
		b.WriteString("\n")
		writeFlags(b, c.LocalNonPersistentFlags())
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```\n%s\n```\n", c.Example)
	}
}

func writeFlags(b *bytes.Buffer, flags *pflag.FlagSet) {
	b.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, meaning := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if kind != "" {
			name += " " + kind
		}
		def := f.DefValue
		if def == "[]" {
			def = ""
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, def, strings.ReplaceAll(meaning, "|", "\\|"))
	})
}
