package main

import (
	"io"
	"net/http"
	"net/http/httptest"
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
case "$1 $2" in
devices*) echo '[{"name":"cuda:0","what":"a GPU","memory":1073741824},{"name":"cpu","what":"2 threads","memory":0}]' ;;
"bench load") echo "$*" >> "$(dirname "$0")/loads"; echo '{"failed":0,"ttft_ms":{"p50":20},"itl_ms":{"p50":5,"p99":9},"e2e_ms":{"mean":2000}}' ;;
bench*) echo '[{"model":"8b","quant":"BF16","test":"tg128","tokens_per_second":200,"floor_tokens_per_second":400,"share":0.5}]' ;;
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
		"no test ran", "| 8b | BF16 | tg128 | 200.0 | 50% |",
		"| kvasir | 1 | 128 | 20.0 | 5.00 | 9.0 |", "| kvasir | 256 | 32768 | 20.0 | 5.00 | 9.0 |"} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	if err := run(t.Context(), []string{"--kvasir", program, "--device", "cuda:1"}); err == nil || err.Error() != "no cuda:1 can be used" {
		t.Errorf("a device that is not there: %v", err)
	}
}

// TestPeer measures a server that a command starts, and tells of those that do not serve.
func TestPeer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			io.WriteString(w, `{"data":[{"id":"theirs"}]}`)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	program := pretend(t, dir, "kvasir", `
case "$1 $2" in
devices*) echo '[{"name":"cuda:0","what":"a GPU","memory":1073741824}]' ;;
*) echo "$*" >> "$(dirname "$0")/loads"; echo '{"failed":'$(case "$*" in *"-c 2"*) echo 1 ;; *) echo 0 ;; esac)',"e2e_ms":{"mean":1000}}' ;;
esac`)
	out := filepath.Join(dir, "report.md")
	err := run(t.Context(), []string{"--kvasir", program, "--only", "served", "--clients", "1,2", "--peer-url", server.URL + "/v1", "--out", out,
		"--peer", "theirs=sleep 600", "--peer", "gone=echo no room; exit 3"})
	if err == nil || err.Error() != "failed: kvasir, theirs, gone" {
		t.Errorf("the report of failing servers: %v", err)
	}
	report, _ := os.ReadFile(out)
	for _, want := range []string{"| kvasir | 1 | 256 |", "| theirs | 1 | 256 |", "| theirs | | 2 clients: 1 requests failed", "| gone | | it ended before it served: exit status 3: no room"} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	loads, _ := os.ReadFile(filepath.Join(dir, "loads"))
	if want := "bench load --json -c 1 -n 8 --input 512 --output 256 --url " + server.URL + "/v1 theirs\n"; !strings.Contains(string(loads), want) {
		t.Errorf("the program was asked for\n%s; want among them %s", loads, want)
	}
	if err := run(t.Context(), []string{"--peer", "vllm"}); err == nil || !strings.Contains(err.Error(), "want NAME=COMMAND") {
		t.Errorf("a peer without a command: %v", err)
	}
}
