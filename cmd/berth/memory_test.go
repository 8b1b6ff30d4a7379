package main

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestCollectorIsTunedUnlessTheOperatorDidIt(t *testing.T) {
	for name, c := range map[string]struct {
		env     map[string]string
		percent int
		limit   int64
	}{
		"nothing is set":     {nil, gcPercent, memoryLimit},
		"GOGC is set":        {map[string]string{"GOGC": "100"}, 100, memoryLimit},
		"GOMEMLIMIT is set":  {map[string]string{"GOMEMLIMIT": "1TiB"}, gcPercent, math.MaxInt64},
		"set to nothing too": {map[string]string{"GOGC": "", "GOMEMLIMIT": ""}, 100, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
			defer func() {
				debug.SetGCPercent(percent)
				debug.SetMemoryLimit(limit)
			}()
			a := &app{getenv: func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }}
			a.tuneMemory()
			if got := debug.SetGCPercent(100); got != c.percent {
				t.Errorf("GC percent %d", got)
			}
			if got := debug.SetMemoryLimit(-1); got != c.limit {
				t.Errorf("memory limit %d", got)
			}
		})
	}
}
