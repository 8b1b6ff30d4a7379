//go:build profile

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
)

// profile writes what the process spends its time and memory on to files whose
// names begin with BERTH_PROFILE: .cpu and .allocs when it stops, and a
// .heap-N for the n-th SIGUSR2, for which the garbage is collected first. It is
// built into the binary of the bench only.
func profile() (stop func(), err error) {
	prefix := os.Getenv("BERTH_PROFILE")
	if prefix == "" {
		return func() {}, nil
	}
	cpu, err := os.Create(prefix + ".cpu")
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(fmt.Errorf("profile: %w", err), cpu.Close())
	}
	asked, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(asked, syscall.SIGUSR2)
	go func() {
		defer close(done)
		for n := 1; ; n++ {
			if _, ok := <-asked; !ok {
				return
			}
			runtime.GC()
			debug.FreeOSMemory()
			report(snapshot(fmt.Sprintf("%s.heap-%d", prefix, n), "heap"))
		}
	}()
	return func() {
		signal.Stop(asked)
		close(asked)
		<-done
		pprof.StopCPUProfile()
		report(cpu.Close())
		report(snapshot(prefix+".allocs", "allocs"))
	}, nil
}

// snapshot writes one profile; the file appears whole.
func snapshot(name, kind string) error {
	f, err := os.Create(name + ".part")
	if err != nil {
		return err
	}
	if err := errors.Join(pprof.Lookup(kind).WriteTo(f, 0), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func report(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
	}
}
