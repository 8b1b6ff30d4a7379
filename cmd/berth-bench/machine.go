package main

import (
	"runtime"
	"time"
)

// machine is what a number means nothing without.
type machine struct {
	cores     int
	processor string
	system    string
	goVersion string
	load      string // before the run
}

func readMachine() machine {
	return machine{cores: runtime.NumCPU(), processor: processor(), system: runtime.GOOS + "/" + runtime.GOARCH, goVersion: runtime.Version(), load: busy()}
}

// cpuBetween waits and gives the processor time that the processes used
// between the two times; zero where that is not known.
func cpuBetween(pids []int, from, to time.Time) time.Duration {
	if len(pids) == 0 {
		return 0
	}
	sum := func() (d time.Duration) {
		for _, pid := range pids {
			d += cpuOf(pid)
		}
		return d
	}
	time.Sleep(time.Until(from))
	first := sum()
	time.Sleep(time.Until(to))
	return sum() - first
}
