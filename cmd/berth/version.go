package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker in a release; else the module's own is shown.
var version = ""

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this binary",
		Args:  exactly(),
		RunE:  a.runE(func(*cobra.Command, []string) error { return a.runVersion() }),
	}
}

func (a *app) runVersion() error {
	if a.json {
		return a.printJSON(struct{ Version, GoVersion, Platform string }{buildVersion(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
	}
	_, err := fmt.Fprintf(a.out, "berth %s (%s, %s/%s)\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return fmt.Errorf("print the version: %w", err)
	}
	return nil
}
