//go:build unix

package brokerproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BuildOptions say how the binaries are built. The zero value needs only Go.
type BuildOptions struct {
	Race bool   // with the race detector, which needs a C compiler
	Tags string // build tags, separated by commas
}

// Build builds commands of this module, by their names below cmd, into dir. It
// must run somewhere inside the module.
func Build(ctx context.Context, dir string, o BuildOptions, commands ...string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	// The flags of a plain `go run` or `go test`, so that what those have
	// compiled is used again.
	args := []string{"build", "-buildvcs=false", "-o", dir + string(filepath.Separator)}
	if o.Race {
		args = append(args, "-race")
	}
	if o.Tags != "" {
		args = append(args, "-tags", o.Tags)
	}
	for _, name := range commands {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", strings.Join(commands, ", "), err, out)
	}
	return nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", errors.New("find the module: not inside one")
	}
	return filepath.Dir(mod), nil
}
