package main

import "runtime/debug"

const (
	// gcPercent lets the heap grow to five times what is in use before garbage
	// is collected. What is in use is small, a few megabytes, and every call
	// leaves garbage: with Go's own 100 a busy broker collects hundreds of times
	// a second.
	gcPercent = 400
	// memoryLimit is where that generosity ends: near it garbage is collected
	// as often as it takes. It is no limit on what may be in use.
	memoryLimit = 1 << 30
)

// tuneMemory sets the collector for a broker, unless the operator did.
func (a *app) tuneMemory() {
	if _, set := a.getenv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
	if _, set := a.getenv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(memoryLimit)
	}
}
