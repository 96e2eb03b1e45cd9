package main

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/kvasir-llm/kvasir/compute"
)

type versionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
	SBOM bool `name:"sbom" help:"Print what the program was built from, as CycloneDX 1.6."`
}

func (versionCmd) Help() string {
	return "Examples:\n  kvasir version\n  kvasir version --json\n  kvasir version --sbom > kvasir.cdx.json"
}

// release is the version of a release, set when it is built: packaging/release.sh.
var release string

// version returns the version of the release or of the module, which for a working copy holds its revision, or "devel"
// if it was built without.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// built returns the commit that the program was built from and its date, "" if it was built without.
func built() (commit, date string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", ""
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)] + commit
		case "vcs.time":
			date, _, _ = strings.Cut(s.Value, "T")
		case "vcs.modified":
			if s.Value == "true" {
				commit += "+changes"
			}
		}
	}
	return commit, date
}

func (c *versionCmd) Run() error {
	if c.SBOM {
		info, ok := debug.ReadBuildInfo()
		if !ok {
			return errors.New("the program was built without information on its build")
		}
		return printJSON(billOfMaterials(info))
	}
	commit, date := built()
	if c.JSON {
		return printJSON(map[string]any{"version": version(), "commit": commit, "date": date, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "devices": compute.Devices()})
	}
	if commit != "" {
		commit = fmt.Sprintf("commit %s of %s, ", commit, date)
	}
	fmt.Printf("kvasir %s (%s%s, %s/%s)\n", version(), commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}
