//go:build failpoint

package main

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// failpoint kills this process, as nothing else could be less graceful, when
// the journal reaches the point that BERTH_FAILPOINT names for the
// BERTH_FAILPOINT_NTH time. Before that its writer stands still for
// BERTH_FAILPOINT_LINGER (a duration) while everything else goes on, so that
// what is said too early is heard. It is built into the binary of the crash
// suite only.
func failpoint() func(point string) {
	at, nth := os.Getenv("BERTH_FAILPOINT"), int64(1)
	if n, err := strconv.ParseInt(os.Getenv("BERTH_FAILPOINT_NTH"), 10, 64); err == nil {
		nth = n
	}
	linger, err := time.ParseDuration(os.Getenv("BERTH_FAILPOINT_LINGER"))
	if err != nil {
		linger = 0
	}
	var seen atomic.Int64
	return func(point string) {
		if point == at && seen.Add(1) == nth {
			<-time.After(linger)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}
