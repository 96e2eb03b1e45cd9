package hub

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const childPulls = "KVASIR_TEST_PULL" // name of a model: this process is a child of the tests, and pulls it

// childPull prints the events of the pull and then its result.
func childPull(name string) int {
	c, err := FromEnv(os.Getenv)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	n, err := ParseName(name)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	path, err := c.Pull(context.Background(), n, func(e Event) { fmt.Println(e.State, e.File, e.Done, e.Total) })
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("path", path)
	return 0
}

// child is a process that pulls o/m. Its lines are read as they come.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	seen  bytes.Buffer
}

func startChild(t *testing.T, c *Client) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &child{t: t, cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), childPulls+"=o/m", "HF_ENDPOINT="+c.Endpoint, "HF_HUB_CACHE="+c.CacheDir,
		"HF_TOKEN=", "HF_HUB_OFFLINE=", "TRANSFORMERS_OFFLINE=", "http_proxy=", "HTTP_PROXY=")
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// until reads to the first line that begins so, or else to the end.
func (p *child) until(prefix string) string {
	p.t.Helper()
	for p.lines.Scan() {
		fmt.Fprintln(&p.seen, p.lines.Text())
		if strings.HasPrefix(p.lines.Text(), prefix) {
			return p.lines.Text()
		}
	}
	p.t.Errorf("no line %q in what the process said:\n%s", prefix, &p.seen)
	return ""
}

// wait lets the process finish and returns the path it pulled to.
func (p *child) wait() string {
	p.t.Helper()
	line := p.until("path ")
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%v after\n%s", err, &p.seen)
	}
	return strings.TrimPrefix(line, "path ")
}

// newRealHub is newHub with servers that other processes reach, serving files of small.
func newRealHub(t *testing.T, onCDN func(http.ResponseWriter, *http.Request) bool) (*fakeHub, *Client) {
	h := &fakeHub{files: small, commit: testCommit, onCDN: onCDN}
	cdn := httptest.NewServer(http.HandlerFunc(h.serveCDN))
	h.cdnURL = cdn.URL
	hub := httptest.NewServer(http.HandlerFunc(h.serveHub))
	t.Cleanup(func() { hub.Close(); cdn.Close() })
	return h, &Client{Endpoint: hub.URL, CacheDir: t.TempDir()}
}

// Of two processes that pull one model, the second waits for the first and downloads nothing.
func TestTwoProcesses(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	h, c := newRealHub(t, func(w http.ResponseWriter, r *http.Request) bool {
		close(asked) // a second request would panic here
		<-release
		return false
	})
	first := startChild(t, c)
	<-asked
	second := startChild(t, c)
	second.until("waiting model.safetensors")
	close(release)
	if a, b := first.wait(), second.wait(); a != b || a != c.snapshot("o/m", testCommit) {
		t.Errorf("paths %q and %q", a, b)
	}
	if strings.Contains(second.seen.String(), "downloading") || !strings.Contains(second.seen.String(), "cached model.safetensors") {
		t.Errorf("the second process said\n%s", &second.seen)
	}
	if gets := h.asked("GET /o/m/resolve/"); gets != 3 || len(h.ranges()) != 1 {
		t.Errorf("%d downloads of 3 files, %d of the weights", gets, len(h.ranges()))
	}
}

// A killed process leaves a part that the next one continues, and no lock.
func TestKilledProcess(t *testing.T) {
	data := small["model.safetensors"]
	_, c := newRealHub(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Range") != "" {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		w.Write([]byte(data[:500]))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	})
	first := startChild(t, c)
	first.until("downloading model.safetensors 500 7000")
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.cmd.Wait() // it was killed
	second := startChild(t, c)
	path := second.wait()
	if strings.Contains(second.seen.String(), "waiting") || !strings.Contains(second.seen.String(), "resuming model.safetensors 500 7000") {
		t.Errorf("the second process said\n%s", &second.seen)
	}
	if found, ok, err := c.Lookup(Name{Repo: "o/m"}); !ok || err != nil || found != path {
		t.Errorf("Lookup = %q, %v, %v", found, ok, err)
	}
}
