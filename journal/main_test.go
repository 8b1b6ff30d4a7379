package journal_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		child()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
