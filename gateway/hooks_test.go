package gateway

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

// TestHooks lets plug-ins see requests and answers, one of which does wrong.
func TestHooks(t *testing.T) {
	if testing.Short() {
		t.Skip("building plug-ins takes a while; left out by -short")
	}
	dir := t.TempDir()
	for _, name := range []string{"redact", "policy", "bad"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "./plugin/testdata/"+name)
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	a := &engine{name: "write to a@b.example"}
	config := fmt.Sprintf(`
models: [{name: m, endpoints: [http://a]}, {name: open, endpoints: [http://a]}, {name: traps, endpoints: [http://a]}]
hooks:
- {file: %[1]s/redact, on: request, models: [m], timeout: 1m}
- {file: %[1]s/policy, on: request, models: [m], timeout: 1m}
- {file: %[1]s/redact, on: response, models: [m], timeout: 1m}
- {file: %[1]s/bad, on: request, models: [traps], timeout: 1m}
`, dir)
	ask := func(model, text string) string {
		return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, text)
	}
	inWorld(t, config, map[string]http.Handler{"a": a}, func(w *world) {
		w.want(w.chat(ask("m", "from c@d.example")), 200, `"content":"write to [email]"`)
		if got := a.got()[0].body; !strings.Contains(got, "Answer in English.") || !strings.Contains(got, "from [email]") {
			t.Errorf("the engine got %s", got)
		}
		w.want(w.chat(ask("m", "Bifrost")), 403, "not to be talked about")
		w.want(w.chat(streamed), 400, "must be whole")
		w.want(w.chat(ask("traps", "x")), 500, "a plug-in failed")
		w.want(w.chat(ask("open", "from c@d.example")), 200, "a@b.example")
		if n := len(a.got()); n != 2 {
			t.Errorf("the engine was asked %d times", n)
		}
		var calls []func() // as many as there may be at once
		for range runtime.GOMAXPROCS(0) {
			done, err := w.g.calls.Acquire(w.t.Context(), aCall)
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, done)
		}
		replies := make(chan reply, 1)
		go func() { replies <- w.chat(ask("m", "x")) }()
		synctest.Wait()
		if len(replies) > 0 {
			t.Error("a call did not wait for its turn")
		}
		for _, done := range calls {
			done()
		}
		w.want(<-replies, 200, "")
		w.apply(strings.Replace(config, "models: [traps]", "models: [traps], on_failure: pass", 1))
		w.want(w.chat(ask("traps", "x")), 200, "")
		w.apply("models: [{name: m, endpoints: [http://a]}]")
		w.want(w.chat(ask("m", "Bifrost")), 200, "a@b.example")
	})
	for text, want := range map[string]string{
		"on: request": "hooks[0].file", "file: x, on: both": "want request or response", "file: x, on: request, memory: -1": "1 to 4095 MiB",
		"file: x, on: request, on_failure: ignore": "want refuse or pass", "file: x, on: request, models: [n]": `no model with the name "n"`,
	} {
		if _, err := Parse("f", []byte("models: [{name: m, endpoints: [http://a]}]\nhooks: [{"+text+"}]\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}
