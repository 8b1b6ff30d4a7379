//go:build failpoint

package main

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// failpoint kills this process, as nothing else could be less graceful, when
// the journal reaches the point that BERTH_FAILPOINT names for the n-th time
// , counted by BERTH_FAILPOINT_NTH. It is built into the binary of the crash suite only.
func failpoint() func(point string) {
	at, nth := os.Getenv("BERTH_FAILPOINT"), int64(1)
	if n, err := strconv.ParseInt(os.Getenv("BERTH_FAILPOINT_NTH"), 10, 64); err == nil {
		nth = n
	}
	var seen atomic.Int64
	return func(point string) {
		if point == at && seen.Add(1) == nth {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}
