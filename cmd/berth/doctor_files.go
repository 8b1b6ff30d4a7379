package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/broker/config"
	"berth/transport/statedir"
)

// This file looks at files, the disk, the clock and the address; it needs no
// running broker.

// patient is what the checks look at, and what earlier ones found out.
type patient struct {
	app    *app
	o      doctorOptions
	now    time.Time
	dir    string
	exists bool // the state directory does
	// addr and discover are where the running broker listens, or why none is
	// known.
	addr     string
	discover error
	config   *config.Config // nil: not given, or refused
	// lookWithin is how long a large journal is looked at.
	lookWithin time.Duration
}

func (a *app) newPatient(o doctorOptions) (*patient, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	p := &patient{app: a, o: o, now: time.Now(), dir: dir, lookWithin: lookWithin}
	p.addr, _, p.discover = statedir.Discover(dir)
	return p, nil
}

func (p *patient) runs() bool { return p.discover == nil }

// berthCommand is a command line of this program on the same state directory.
func (p *patient) berthCommand(words ...string) string {
	line := "berth " + strings.Join(words, " ")
	if p.app.stateDirFlag != "" {
		line += " --state-dir " + quoteWord(p.dir)
	}
	return line
}

func (p *patient) serveCommand() string {
	if p.o.config != "" {
		return p.berthCommand("serve", "--config", quoteWord(p.o.config))
	}
	return p.berthCommand("serve")
}

// quoteWord makes a path one word of a shell.
func quoteWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-", c)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func checkStateDirectory(_ context.Context, p *patient) ([]finding, bool) {
	info, err := os.Stat(p.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return one(severeWarning, "There is no state directory at "+p.dir+": no broker has run here.", p.serveCommand())
	case err != nil:
		return unknownBecause(err, "")
	case !info.IsDir():
		return one(severeError, p.dir+" is no directory.", "")
	}
	p.exists = true
	switch mode := info.Mode().Perm(); {
	case !ownFile(info):
		return one(severeError, p.dir+" belongs to another user; no broker of yours uses it.", "")
	case mode&0o022 != 0:
		return one(severeError, fmt.Sprintf("Others can change %s (mode %04o); no broker uses it like this.", p.dir, mode), "chmod 0700 "+quoteWord(p.dir))
	}
	return nil, true
}

// secretFiles are those of the state directory that only their owner may read.
var secretFiles = []string{"api-token", "api-key", "session.key", "berth.port", journalFile}

func checkSecretFiles(_ context.Context, p *patient) (found []finding, applies bool) {
	if !p.exists {
		return nil, false
	}
	for _, name := range secretFiles {
		path := filepath.Join(p.dir, name)
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			more, _ := unknownBecause(err, "")
			found = append(found, more...)
		case !info.Mode().IsRegular():
			found = append(found, finding{Severity: severeError, Sentence: path + " is no regular file.", Command: "ls -l " + quoteWord(path)})
		case !ownFile(info):
			found = append(found, finding{Severity: severeError, Sentence: path + " belongs to another user.", Command: "ls -l " + quoteWord(path)})
		case info.Mode().Perm()&0o077 != 0:
			found = append(found, finding{Severity: severeError, Sentence: fmt.Sprintf("Others can read %s (mode %04o).", path, info.Mode().Perm()), Command: "chmod 0600 " + quoteWord(path)})
		}
	}
	return found, true
}

// checkFreeAddress asks whether a broker that is started now would get its
// address. Where one runs it has it.
func checkFreeAddress(_ context.Context, p *patient) ([]finding, bool) {
	if p.runs() {
		return nil, false
	}
	address := defaultAddress
	if p.config != nil {
		address = p.config.Broker.Listen
	}
	l, err := net.Listen("tcp", address)
	if errors.Is(err, unix.EADDRINUSE) {
		_, port, _ := net.SplitHostPort(address)
		return one(severeError, "Another program listens on "+address+", and no broker on this state directory: a start would fail.", "lsof -nP -iTCP:"+port+" -sTCP:LISTEN")
	}
	if err != nil {
		return one(severeError, "A broker could not listen on "+address+": "+sentence(err), "")
	}
	if err := l.Close(); err != nil {
		return unknownBecause(err, "")
	}
	return nil, true
}

// findConfiguration gives the file that was named, else the one that the running
// broker uses; known false is that nobody says.
func (p *patient) findConfiguration(ctx context.Context) (file string, known bool) {
	if p.o.config != "" || !p.runs() {
		return p.o.config, p.o.config != ""
	}
	status, err := answer[struct{ ConfigurationFile json.RawMessage }](ctx, p, "/api/v1/status", nil)
	if err != nil || json.Unmarshal(status.ConfigurationFile, &file) != nil {
		return "", false // also of a broker that is older than the member
	}
	return file, true
}

func checkConfiguration(ctx context.Context, p *patient) (found []finding, applies bool) {
	file, known := p.findConfiguration(ctx)
	switch {
	case !known:
		return one(severeUnknown, "Which configuration the broker uses is not known here.", p.berthCommand("doctor", "--config", "FILE"))
	case file == "":
		return nil, false // it was started without one
	}
	command := p.berthCommand("check-config", "--config", quoteWord(file))
	err := p.readConfiguration(p.app, file)
	if err == nil {
		return nil, true
	}
	if p.o.config == "" { // of a broker whose environment is another one
		if absent := p.absentVariables(file); len(absent) > 0 {
			return one(severeUnknown, "The configuration "+file+" names environment variables that the broker may have and that are not set here: "+strings.Join(absent, ", ")+".", command)
		}
	}
	var f *failure
	if !errors.As(err, &f) {
		return unknownBecause(err, command)
	}
	if len(f.more) == 0 {
		return one(severeError, f.message, command)
	}
	for _, problem := range f.more {
		found = append(found, finding{Severity: severeError, Sentence: problem, Command: command})
	}
	return found, true
}

// absentVariables are those that a configuration names and this environment has
// not, when nothing else is wrong with it.
func (p *patient) absentVariables(file string) (absent []string) {
	guessed := *p.app
	guessed.getenv = func(name string) (string, bool) {
		value, set := p.app.getenv(name)
		if !set && !slices.Contains(absent, name) {
			absent = append(absent, name)
		}
		if !set {
			value = "1"
		}
		return value, true
	}
	if _, _, err := guessed.loadConfig(file); err != nil {
		return nil
	}
	names := slices.Clone(absent)
	guessed.getenv = func(name string) (string, bool) { // of the file alone, not of what a start reads besides
		if slices.Contains(names, name) {
			return "1", true
		}
		return p.app.getenv(name)
	}
	if p.readConfiguration(&guessed, file) != nil {
		return nil
	}
	return names
}

// readConfiguration reads a configuration as a start would, and its catalog.
func (p *patient) readConfiguration(a *app, file string) error {
	cfg, _, err := a.loadConfig(file)
	if err != nil {
		return err
	}
	p.config = cfg
	_, err = a.checkConfig(file)
	return err
}

// A backup needs room for two copies of the journal.
const (
	leastFree = 256 << 20
	copies    = 2
)

func checkDisk(_ context.Context, p *patient) ([]finding, bool) {
	if !p.exists {
		return nil, false
	}
	command := "df -h " + quoteWord(p.dir)
	var st unix.Statfs_t
	if err := unix.Statfs(p.dir, &st); err != nil {
		return unknownBecause(err, command)
	}
	free, need := uint64(st.Bavail)*uint64(st.Bsize), uint64(leastFree)
	if info, err := os.Stat(filepath.Join(p.dir, journalFile)); err == nil {
		need = max(need, copies*uint64(info.Size()))
	}
	switch {
	case free < leastFree/4:
		return one(severeError, fmt.Sprintf("The disk of %s has %d MiB left; writes of the journal will fail.", p.dir, free>>20), command)
	case free < need:
		return one(severeWarning, fmt.Sprintf("The disk of %s has %d MiB left; a backup needs %d.", p.dir, free>>20, need>>20), command)
	}
	return nil, true
}

// clockSlack is how far a file may be ahead of the clock, as a network file
// system's are.
const clockSlack = 5 * time.Minute

// checkClock compares with what was written here: ids, retention and leases go
// by the clock.
func checkClock(_ context.Context, p *patient) ([]finding, bool) {
	if !p.exists {
		return nil, false
	}
	newest, name := time.Time{}, ""
	for _, file := range append(slices.Clone(secretFiles), "berth.lock") {
		if info, err := os.Lstat(filepath.Join(p.dir, file)); err == nil && info.ModTime().After(newest) {
			newest, name = info.ModTime(), file
		}
	}
	if newest.IsZero() {
		return nil, false
	}
	if ahead := newest.Sub(p.now); ahead > clockSlack {
		return one(severeError, fmt.Sprintf("The clock is behind: it says %s, and %s was written %s later. Retention, limits and the order of jobs go by it.",
			p.now.UTC().Format(time.RFC3339), name, age(ahead)), "timedatectl status")
	}
	return nil, true
}
