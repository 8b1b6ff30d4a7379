// Package conformance holds what must be true of the protocol through a whole
// broker: a real front, real actors and journal, real clients of the backends,
// and a backend that answers as a test tells it to, all in this process.
//
// It decodes with its own few lines and no package of Berth, so that an error
// of a decoder is not hidden by the same error here. Each test has a rig of its
// own and ends it.
package conformance

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
