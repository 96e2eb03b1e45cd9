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

func (versionCmd) Help() string { return "Example:\n  kvasir version --json" }

// version returns the module's version, or the revision that a working copy was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}

func (c *versionCmd) Run() error {
	if c.JSON {
		return printJSON(map[string]any{"version": version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "kernels": cpu.Kernels()})
	}
	fmt.Printf("kvasir %s (%s, %s/%s; kernels: %s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(cpu.Kernels(), ", "))
	return nil
}
