package resmontest

import (
	"os"
	"path/filepath"
)

// ContractsDir finds the contracts that the surface is checked against, with
// the recorded answers of a real resmon: shared/contracts beside the project, or
// beside the directory of its worktrees. They stay there. A test without them
// skips.
func ContractsDir() (dir string, found bool) {
	at, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			break
		}
		if at == filepath.Dir(at) {
			return "", false
		}
		at = filepath.Dir(at)
	}
	for _, up := range []string{"..", "../.."} {
		dir = filepath.Join(at, up, "shared", "contracts")
		if _, err := os.Stat(dir); err == nil {
			return dir, true
		}
	}
	return "", false
}
