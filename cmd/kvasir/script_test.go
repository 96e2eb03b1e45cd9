package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs testdata/script/*.txtar, which use the program as a user does. Beside testscript's own commands
// they have those of scriptCommands, $TINY, a small safetensors model without a tokenizer, and $ADAPTERS, a folder of
// the built-in model's.
func TestScripts(t *testing.T) {
	tiny, err := filepath.Abs("../../model/testdata/goldens/llama")
	if err != nil {
		t.Fatal(err)
	}
	adapters, err := filepath.Abs("../../engine/text/testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Cmds:               scriptCommands,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HF_HOME", filepath.Join(e.WorkDir, "hf"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("TINY", tiny)
			e.Setenv("ADAPTERS", adapters)
			e.Values[programKey{}] = new(*process)
			return nil
		},
	})
}

var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"exits":   exits,
	"keys":    keys,
	"endless": endless,
	"cut":     cut,
	"hub":     startHub,
	"serve":   serve,
	"port":    port,
	"http":    request,
	"leave":   leave,
	"stream":  stream,
	"refused": refused,
	"awaits":  awaits,
	"signal":  sendSignal,
	"ended":   ended,
}

// exits CODE COMMAND ARGS… runs a command and checks its exit code, and that no stack trace is seen.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		code = ee.ExitCode()
	} else {
		ts.Check(err)
	}
	if neg || args[0] != strconv.Itoa(code) {
		ts.Fatalf("%q exits with code %d, want %s", args[1:], code, args[0])
	}
	if strings.Contains(ts.ReadFile("stderr"), "goroutine ") {
		ts.Fatalf("%q prints a stack trace", args[1:])
	}
}

// keys FILE KEY… checks that the last line of a file, such as stdout, is a JSON object with exactly these keys, in
// order.
func keys(ts *testscript.TestScript, neg bool, args []string) {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile(args[0])), "\n")
	d := json.NewDecoder(strings.NewReader(lines[len(lines)-1]))
	_, err := d.Token()
	ts.Check(err)
	var got []string
	for d.More() {
		key, err := d.Token()
		ts.Check(err)
		got = append(got, fmt.Sprint(key))
		ts.Check(d.Decode(new(json.RawMessage)))
	}
	if want := args[1:]; neg || strings.Join(got, " ") != strings.Join(want, " ") {
		ts.Fatalf("keys are %v, want %v", got, want)
	}
}

// endless writes endless.gguf, a model that never ends an answer by itself.
func endless(ts *testscript.TestScript, neg bool, args []string) {
	_, err := endlessModel(ts.MkAbs("."))
	ts.Check(err)
}

// leave STATUS FILE sends a file to the server as Ollama's clients do, checks the status of its answer, and sets
// $DIGEST.
func leave(ts *testscript.TestScript, neg bool, args []string) {
	data := ts.ReadFile(args[1])
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(data)))
	ts.Setenv("DIGEST", digest)
	answer, err := http.Post(ts.Getenv("URL")+"/api/blobs/"+digest, "application/octet-stream", strings.NewReader(data))
	ts.Check(err)
	answer.Body.Close()
	if neg || strconv.Itoa(answer.StatusCode) != args[0] {
		ts.Fatalf("the server answers %d; want %s", answer.StatusCode, args[0])
	}
}

// cut FILE BYTES shortens a file.
func cut(ts *testscript.TestScript, neg bool, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

// programKey has the kvasir serve that a script has started. Each script has one.
type programKey struct{}

// serve ARGS… starts kvasir serve on a free port, waits until it listens and sets $URL to its address.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	exe, err := os.Executable()
	ts.Check(err)
	cmd := exec.Command(exe)
	cmd.Args = append([]string{"kvasir", "serve", "--port", "0"}, args...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE", "KVASIR_API_KEY", "KVASIR_ADMIN_KEY", "KVASIR_HOST"} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	p, err := launch(cmd)
	ts.Check(err)
	ts.Defer(p.kill)
	*ts.Value(programKey{}).(**process) = p
	ts.Setenv("URL", p.address)
}

func programOf(ts *testscript.TestScript) *process { return *ts.Value(programKey{}).(**process) }

// port URL sets $PORT to the port of a URL.
func port(ts *testscript.TestScript, neg bool, args []string) {
	u, err := url.Parse(args[0])
	ts.Check(err)
	ts.Setenv("PORT", u.Port())
}

// http METHOD URL [BODY [HEADER…]] sends a request and takes the answer for stdout; ! http wants a status of 400 or
// more.
func request(ts *testscript.TestScript, neg bool, args []string) {
	var body io.Reader
	if len(args) > 2 {
		body = strings.NewReader(args[2])
	}
	r, err := http.NewRequest(args[0], args[1], body)
	ts.Check(err)
	for _, header := range args[min(3, len(args)):] {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer response.Body.Close()
	_, err = io.Copy(ts.Stdout(), response.Body)
	ts.Check(err)
	if failed := response.StatusCode >= 400; failed != neg {
		ts.Fatalf("%s %s: %s", args[0], args[1], response.Status)
	}
}

// stream URL BODY sends a request and waits for the first bytes of its answer, which goes on until the script ends.
func stream(ts *testscript.TestScript, neg bool, args []string) {
	response, err := http.Post(args[0], "application/json", strings.NewReader(args[1]))
	ts.Check(err)
	ts.Defer(func() { response.Body.Close() })
	_, err = io.ReadFull(response.Body, make([]byte, 10))
	ts.Check(err)
}

// refused URL waits until connections to a server are refused.
func refused(ts *testscript.TestScript, neg bool, args []string) {
	u, err := url.Parse(args[0])
	ts.Check(err)
	for {
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			return
		}
		conn.Close()
	}
}

// awaits STATUS URL KEY asks with a key until the answer has a status.
func awaits(ts *testscript.TestScript, neg bool, args []string) {
	for status := ""; status != args[0]; {
		r, err := http.NewRequest("GET", args[1], nil)
		ts.Check(err)
		r.Header.Set("Authorization", "Bearer "+args[2])
		resp, err := http.DefaultClient.Do(r)
		ts.Check(err)
		resp.Body.Close()
		status = strconv.Itoa(resp.StatusCode)
	}
}

// signal NAME sends a signal to the server.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": os.Interrupt, "HUP": syscall.SIGHUP}
	ts.Check(programOf(ts).cmd.Process.Signal(signals[args[0]]))
}

// ended CODE waits for the end of the server, checks its exit code and takes its log for stdout.
func ended(ts *testscript.TestScript, neg bool, args []string) {
	p := programOf(ts)
	p.wait()
	fmt.Fprint(ts.Stdout(), p.said())
	if got := strconv.Itoa(p.cmd.ProcessState.ExitCode()); neg || got != args[0] {
		ts.Fatalf("the server ends with %v, want exit code %s", p.cmd.ProcessState, args[0])
	}
}
