package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// pretend writes a program that answers as kvasir and a test binary would.
func pretend(t *testing.T, dir, name, script string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell to stand in for the program")
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReport makes sure that the report has every part, and that a part that fails is told.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	program := pretend(t, dir, "kvasir", `
case "$1" in
devices) echo '[{"name":"cuda:0","what":"a GPU","memory":1073741824},{"name":"cpu","what":"2 threads","memory":0}]' ;;
bench) echo '[{"model":"8b","quant":"BF16","test":"tg128","tokens_per_second":200,"floor_tokens_per_second":400,"share":0.5}]' ;;
esac`)
	pretend(t, dir, "cuda.test", `echo "--- PASS: TestOne (0.1s)"; echo "    --- PASS: TestOne/a (0.1s)"; [ "$KVASIR_GPU" = 1 ]`)
	pretend(t, dir, "model.test", `echo "--- FAIL: TestTwo (0.1s)"; echo "two is not one"; exit 1`)
	pretend(t, dir, "engine.test", `echo "nothing"`)
	t.Chdir("../..") // where the packages are
	out := filepath.Join(dir, "report.md")
	err := run(t.Context(), []string{"--kvasir", program, "--tests", dir, "--quants", "bf16", "--out", out})
	if err == nil || err.Error() != "failed: ./model, ./engine" {
		t.Errorf("the report of a failing part: %v", err)
	}
	report, _ := os.ReadFile(out)
	for _, want := range []string{"| cuda:0 | a GPU | 1.0 GiB |", "2 passed, 0 failed", "0 passed, 1 failed", "two is not one",
		"no test ran", "| 8b | BF16 | tg128 | 200.0 | 50% |"} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	if err := run(t.Context(), []string{"--kvasir", program, "--device", "cuda:1"}); err == nil || err.Error() != "no cuda:1 can be used" {
		t.Errorf("a device that is not there: %v", err)
	}
}
