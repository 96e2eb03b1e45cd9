package main

import (
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"
)

func TestBillOfMaterials(t *testing.T) {
	sum := "h1:" + strings.Repeat("AAAA", 10) + "AAA="
	got, err := json.Marshal(billOfMaterials(&debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Path: "example.org/a", Version: "v1.0.0"},
		Deps: []*debug.Module{{Path: "example.org/b", Version: "v2.0.0", Sum: sum}, {Path: "example.org/c", Replace: &debug.Module{Path: "example.org/d", Version: "v3.0.0"}}}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"bomFormat":"CycloneDX","specVersion":"1.6","version":1,`,
		`"component":{"type":"application","name":"example.org/a","version":"v1.0.0","purl":"pkg:golang/example.org/a@v1.0.0"}`,
		`"purl":"pkg:golang/std@1.26.0"`,
		`"purl":"pkg:golang/example.org/b@v2.0.0","hashes":[{"alg":"SHA-256","content":"` + strings.Repeat("0", 64) + `"}]`,
		`"purl":"pkg:golang/example.org/d@v3.0.0"`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
}
