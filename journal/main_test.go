package journal_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		child()
		os.Exit(0)
	}
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		// Each history waits for the disk at each step: fewer than the usual
		// hundred unless the command line asks for more.
		if err := flag.Set("rapid.checks", "25"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
