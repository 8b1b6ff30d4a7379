package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"

	"berth/broker"
	"berth/broker/native"
	codeverbs "berth/broker/native/codeindex"
	"berth/broker/native/dispatch"
	"berth/transport/codeindex"
	"berth/transport/git"
	"berth/transport/statedir"
)

// vessels is what the broker has of vessels: their verbs, and the index of their
// code.
type vessels struct {
	family *dispatch.Family
	code   *codeverbs.Family
	// nil at a look at the configuration
	secrets *statedir.Secrets
	engine  *codeindex.Engine
}

// openPlaces opens what vessels have in the state directory.
func (b *running) openPlaces() (err error) {
	if b.vessels.secrets, err = b.dir.Secrets(); err != nil {
		return err
	}
	b.vessels.engine, err = codeindex.New(codeindex.Options{Root: b.dir.Path("index"), Repos: b.dir.Path("repos"),
		Git: git.New(git.Options{Env: os.Environ(), Ledger: b.ledger})})
	return err
}

// openVessels makes the families. At a look at the configuration nothing of the
// state directory is open: they are listed and never called.
func (b *running) openVessels(shared native.Options) {
	v := &b.vessels
	v.family = dispatch.NewVessels(b.journal, dispatch.Options{Options: shared, Random: rand.Reader, Secrets: v.secrets, Places: places{v.engine, b.log}})
	v.code = codeverbs.New(b.journal, v.family, v.engine, codeverbs.Options{Options: shared, Counter: b.counter, Within: context.WithTimeout})
}

// admit judges a call that becomes a job.
func (v *vessels) admit(call *broker.Call, record *broker.Job) *broker.Refusal {
	return cmp.Or(v.family.Admit(call, record), v.code.Admit(call, record))
}

func (v *vessels) close() {
	if v.engine != nil {
		v.engine.Close()
	}
}

// places answers what the verbs of vessels ask of the file system.
type places struct {
	engine *codeindex.Engine
	log    *slog.Logger
}

// LocalClone finds the repository that an address on this host leads to: a
// directory with .git, or a bare one.
func (places) LocalClone(url string) (dir string, ok bool) {
	dir = codeindex.LocalPath(url)
	if dir == "" {
		return "", false
	}
	there := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	return dir, there(".git") || there("HEAD") && there("hooks")
}

// RemoveClone removes the bare clone of a vessel and what was indexed of it.
func (p places) RemoveClone(ctx context.Context, vesselID string) (warning string) {
	if err := p.engine.Drop(ctx, vesselID); err != nil {
		p.log.Warn("a vessel's clone or index could not be removed", slog.String("cause", err.Error()))
		return "Its clone or its code index could not be removed from the state directory."
	}
	return ""
}
