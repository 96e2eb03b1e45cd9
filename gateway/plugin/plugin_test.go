package plugin

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// built compiles a program of testdata for the WASI.
func built(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("building plug-ins takes a while; left out by -short")
	}
	file := filepath.Join(t.TempDir(), name+".wasm")
	cmd := exec.Command("go", "build", "-o", file, "./testdata/"+name)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

func opened(t *testing.T, name string) *Plugin {
	t.Helper()
	p, err := Open(built(t, name), Options{Timeout: 10 * time.Second, Memory: 32, Output: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestExamples runs the two plug-ins that are examples.
func TestExamples(t *testing.T) {
	redact, policy := opened(t, "redact"), opened(t, "policy")
	for _, c := range []struct {
		p          *Plugin
		body, want string
	}{
		{redact, `{"messages":[{"content":"I am ann.b@mail.example.org, you?"}]}`, `{"messages":[{"content":"I am [email], you?"}]}`},
		{redact, `{"x":1}`, `{"x":1}`},
		{policy, `{"messages":[{"role":"user","content":"What of BIFROST?"}]}`, "this project is not to be talked about"},
		{policy, `{"messages":[{"role":"user","content":"hi"}]}`, `{"messages":[{"content":"Answer in English.","role":"system"},{"content":"hi","role":"user"}]}`},
		{policy, `{"input":"hi"}`, ""},
	} {
		v, err := c.p.Run(t.Context(), Call{Hook: "request", Body: json.RawMessage(c.body)})
		if got := string(v.Body) + v.Refuse; err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.body, got, err, c.want)
		}
	}
}

// TestHarm lets a plug-in do wrong, several times at once, while another call of it does well.
func TestHarm(t *testing.T) {
	p := opened(t, "bad")
	p.o.Timeout = 2 * time.Second
	var all sync.WaitGroup
	for model, want := range map[string]string{
		"loops": "took more than", "traps": "failed", "eats": "out of memory", "talks": "more than 10000 bytes",
		"lies": "bodi", "exits": "no more", "reads": "", "nothing": "",
	} {
		all.Go(func() {
			v, err := p.Run(t.Context(), Call{Model: model})
			late := err != nil && want != "" && model != "loops" && strings.Contains(err.Error(), "took more than") // on a busy machine
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) && !late || v.Refuse != "" {
				t.Errorf("%s: %v, %+v; want %q", model, err, v, want)
			}
		})
	}
	all.Wait()
	if _, err := p.Run(t.Context(), Call{Model: "nothing"}); err != nil {
		t.Error(err)
	}
	if _, err := Open("plugin.go", Options{Memory: 1}); err == nil {
		t.Error("a Go file is a module")
	}
}

func BenchmarkRun(b *testing.B) {
	file := filepath.Join(b.TempDir(), "x.wasm")
	cmd := exec.Command("go", "build", "-o", file, "./testdata/redact")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	p, err := Open(file, Options{Timeout: time.Minute, Memory: 32, Output: 10_000})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for b.Loop() {
		if _, err := p.Run(b.Context(), Call{Body: json.RawMessage(`{"x":"a@b.c"}`)}); err != nil {
			b.Fatal(err)
		}
	}
}
