package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/kvasir-llm/kvasir/compute/cpu"
)

type versionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (versionCmd) Help() string { return "Examples:\n  kvasir version\n  kvasir version --json" }

// version returns the module's version, which for a working copy holds its revision, or "devel" if it was built without.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

func (c *versionCmd) Run() error {
	if c.JSON {
		return printJSON(map[string]any{"version": version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "kernels": cpu.Kernels()})
	}
	fmt.Printf("kvasir %s (%s, %s/%s; kernels: %s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(cpu.Kernels(), ", "))
	return nil
}
