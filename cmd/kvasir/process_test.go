package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// buildKvasir builds the program as a user would.
func buildKvasir(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("building the program takes a while; left out by -short")
	}
	path := filepath.Join(t.TempDir(), "kvasir")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// linkKvasir returns a name by which the test is the program (TestMain).
func linkKvasir(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kvasir")
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// process is a kvasir that serves beside a test.
type process struct {
	cmd     *exec.Cmd
	address string        // that it serves, such as http://127.0.0.1:8000
	serving chan struct{} // closed once there is address
	ended   chan struct{} // closed once there is err
	err     error         // of cmd.Wait

	mu  sync.Mutex
	log strings.Builder
}

var servingLine = regexp.MustCompile(`msg=serving address=(\S+)\n`)

// Write takes what the process logs.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.log.Write(text)
	if p.address == "" {
		if m := servingLine.FindStringSubmatch(p.log.String()); m != nil {
			p.address = m[1]
			close(p.serving)
		}
	}
	return n, err
}

// said returns the log.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// says returns how often the log has a text.
func (p *process) says(text string) int { return strings.Count(p.said(), text) }

// begin starts a command.
func begin(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, serving: make(chan struct{}), ended: make(chan struct{})}
	cmd.Stderr = p
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// launch starts a command, and waits until it serves.
func launch(cmd *exec.Cmd) (*process, error) {
	p, err := begin(cmd)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.serving:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%v ended before it served: %v\n%s", cmd.Args, p.err, p.said())
	}
}

// startProcess launches a command. At the test's end it is killed, if it has not ended.
func startProcess(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p, err := launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%v said:\n%s", cmd.Args, p.said())
		}
	})
	return p
}

// startServer runs "kvasir serve" on a free port. When the test ends it is told to stop, and must leave with status 0.
func startServer(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := startProcess(t, exec.Command(program, append([]string{"serve", "--port", "0"}, args...)...))
	t.Cleanup(func() { p.ends(t) })
	return p
}

// wait returns the error that the process ends with.
func (p *process) wait() error {
	<-p.ended
	return p.err
}

// ends tells the process to end, and wants status 0.
func (p *process) ends(t *testing.T) {
	t.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.wait(); err != nil {
		t.Errorf("%v ended with %v", p.cmd.Args, err)
	}
}

// kill ends the process as it is.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// soon waits until something is true.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for " + what)
		}
	}
}
