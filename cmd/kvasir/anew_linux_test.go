package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/openai/openai-go/v3/option"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/brittle"
)

// brittleVariable names a file with a line for each process to come, where the device is the processor as one that is
// lost as a GPU is, for the whole process: the step that loses it. What the device opens, a program that this one
// becomes inherits.
const brittleVariable = "KVASIR_TEST_BRITTLE"

func init() {
	plan := os.Getenv(brittleVariable)
	if plan == "" {
		return
	}
	brittle.Register(true, func() (compute.Device, error) {
		if brittle.Lost() {
			return nil, errors.New("the driver refuses the process")
		}
		lines, err := os.ReadFile(plan)
		if err != nil {
			return nil, err
		}
		first, rest, _ := strings.Cut(string(lines), "\n")
		if n, err := strconv.ParseInt(first, 10, 64); err == nil {
			brittle.Left.Store(n)
		}
		if _, err := syscall.Open(plan+".device", syscall.O_RDWR|syscall.O_CREAT, 0o600); err != nil {
			return nil, err
		}
		d, err := cpu.New(cpu.Options{Threads: 1})
		return d, errors.Join(err, os.WriteFile(plan, []byte(rest), 0o600))
	})
}

// brittleKvasir returns the program, with what its environment needs for a device that is lost in the steps that are
// given, one for each process.
func brittleKvasir(t *testing.T, steps string) (program, variable string) {
	t.Helper()
	plan := filepath.Join(t.TempDir(), "steps")
	if err := os.WriteFile(plan, []byte(strings.ReplaceAll(steps, " ", "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return linkKvasir(t), brittleVariable + "=" + plan
}

// anewServer is a server whose device is brittle, and a client of it.
type anewServer struct {
	*process
	client *http.Client
	url    string
}

// startAnewServer starts a server that loses its device in the steps that are given, one for each process. change may
// be nil.
func startAnewServer(t *testing.T, steps string, change func(*exec.Cmd), args ...string) *anewServer {
	t.Helper()
	program, plan := brittleKvasir(t, steps)
	cmd := exec.Command(program, append([]string{"serve", "kvasir-mini", "--device", "brittle", "--kv-bytes", "16M", "--context", "512", "--port", "0"}, args...)...)
	cmd.Env = append(os.Environ(), plan)
	if change != nil {
		change(cmd)
	}
	p := startProcess(t, cmd)
	// Without kept connections, none is closed while a request comes.
	return &anewServer{process: p, url: p.address, client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
}

// startAnewOnUnix is startAnewServer on a Unix socket.
func startAnewOnUnix(t *testing.T, steps, socket string) *anewServer {
	t.Helper()
	s := startAnewServer(t, steps, nil, "--uds", socket)
	s.url = "http://localhost"
	s.client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", socket)
	}
	return s
}

// gone wants that nothing is left of a Unix socket.
func gone(t *testing.T, socket string) {
	t.Helper()
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// health returns the status of /health.
func (s *anewServer) health(t *testing.T) int {
	t.Helper()
	res, err := s.client.Get(s.url + "/health")
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// chat asks for an answer of 20 tokens.
func (s *anewServer) chat() (status int, text, retry string, err error) {
	res, err := s.client.Post(s.url+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"kvasir-mini","messages":[{"role":"user","content":"Tell me a story"}],"max_tokens":20,"temperature":0,"ignore_eos":true}`))
	if err != nil {
		return 0, "", "", err
	}
	defer res.Body.Close()
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err = json.NewDecoder(res.Body).Decode(&answer); err == nil && len(answer.Choices) == 1 {
		text = answer.Choices[0].Message.Content
	}
	return res.StatusCode, text, res.Header.Get("Retry-After"), err
}

// descriptors returns how many files a process has open, and how often its device.
func descriptors(t *testing.T, pid int) (files, devices int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		to, _ := os.Readlink(filepath.Join(dir, f.Name())) // of one that is closed meanwhile: ""
		if strings.HasSuffix(to, ".device") {
			devices++
		}
		if to != "" && !strings.HasPrefix(to, "socket:") {
			files++
		}
	}
	return files, devices
}

// TestDeviceLostForGood loses the device four times under load. Three times the process starts its program anew: no
// connection is refused, requests either get the answer that they always get or are told to come back, and nothing of
// the program before is left. The fourth time it stays unwell.
func TestDeviceLostForGood(t *testing.T) {
	s := startAnewServer(t, "300 300 300 300", nil, "--state", t.TempDir())
	pid := s.cmd.Process.Pid
	files, _ := descriptors(t, pid)
	_, want, _, err := s.chat()
	if err != nil || want == "" {
		t.Fatal(want, err)
	}
	var clients sync.WaitGroup
	var mu sync.Mutex
	answers, refusals := 0, map[int]int{}
	for range 4 {
		clients.Go(func() {
			for s.says("must be by hand") == 0 {
				status, text, retry, err := s.chat()
				mu.Lock()
				switch {
				case err != nil:
					t.Errorf("a request got no answer: %v", err)
				case status == http.StatusOK && text == want:
					answers++
				case status == http.StatusServiceUnavailable && retry != "":
					refusals[int(s.says("msg=serving"))]++
				default:
					t.Errorf("status %d, %q; want %q", status, text, want)
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	t.Logf("%d answers; requests that were told to come back, by process: %v", answers, refusals)
	if n := s.says("msg=serving"); n != 4 || answers < 20 {
		t.Errorf("%d programs served, with %d answers", n, answers)
	}
	if s.health(t) != http.StatusServiceUnavailable {
		t.Error("after the fourth loss the server is well")
	}
	if status, _, _, _ := s.chat(); status != http.StatusServiceUnavailable {
		t.Errorf("after the fourth loss a request gets status %d", status)
	}
	res, err := s.client.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || !strings.Contains(string(page), "\nkvasir:device_restarts_total 3\n") {
		t.Errorf("the metrics do not count three restarts: %v", err)
	}
	if f, n := descriptors(t, pid); f > files+2 || n != 1 {
		t.Errorf("%d files are open, %d of them the device's; at first %d", f, n, files)
	}
	if children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)); err != nil || len(children) > 0 {
		t.Errorf("the children are %q, %v", children, err)
	}
	s.ends(t)
}

// TestSocketsLiveOn starts the program anew on each kind of socket.
func TestSocketsLiveOn(t *testing.T) {
	dir := t.TempDir()
	cert := &connectionFlags{TLSCert: filepath.Join(dir, "cert.pem"), TLSKey: filepath.Join(dir, "key.pem")}
	writeCertificate(t, cert, 1)
	socket := filepath.Join(dir, "kvasir.sock")
	lives := func(t *testing.T, s *anewServer) {
		for range 50 {
			if status, _, _, err := s.chat(); err != nil || status != http.StatusOK && status != http.StatusServiceUnavailable {
				t.Fatal(status, err)
			}
			if s.says("msg=serving") == 2 {
				break
			}
		}
		soon(t, "the next program", func() bool { return s.says("msg=serving") == 2 && s.health(t) == http.StatusOK })
		if status, _, _, err := s.chat(); err != nil || status != http.StatusOK {
			t.Errorf("of the next program: %d, %v", status, err)
		}
	}
	t.Run("TLS", func(t *testing.T) {
		s := startAnewServer(t, "60", nil, "--tls-cert", cert.TLSCert, "--tls-key", cert.TLSKey)
		lives(t, s)
		s.ends(t)
	})
	t.Run("unix", func(t *testing.T) {
		s := startAnewOnUnix(t, "60", socket)
		lives(t, s)
		s.ends(t)
		gone(t, socket)
	})
	t.Run("a model on demand", func(t *testing.T) {
		s := startAnewServer(t, "60", func(cmd *exec.Cmd) {
			cmd.Args = slices.DeleteFunc(cmd.Args, func(arg string) bool { return arg == "kvasir-mini" })
		})
		lives(t, s)
		s.ends(t)
	})
	t.Run("systemd", func(t *testing.T) {
		manager := startSystemd(t)
		s := startAnewServer(t, "60", manager.starts)
		lives(t, s)
		if s.url != manager.url {
			t.Errorf("it serves %s", s.url)
		}
		s.ends(t)
		manager.hears(t, "READY=1", "READY=1", "STOPPING=1")
	})
}

// TestToldToEndMeanwhile tells a server to end while it lets a request end before it starts anew.
func TestToldToEndMeanwhile(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kvasir.sock")
	s := startAnewOnUnix(t, "60", socket)
	slow, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 19\r\nConnection: close\r\n\r\n{")
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { // until a connection finds nobody
		for _, _, _, err := s.chat(); err == nil; _, _, _, err = s.chat() {
		}
	})
	soon(t, "the loss", func() bool { return s.says("started anew, since") > 0 })
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	soon(t, "the signal", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
		return err == nil && strings.Contains(string(status), "ShdPnd:\t0000000000000000")
	})
	fmt.Fprintf(slow, `"prompt": "a fox"}`)
	if _, err := io.ReadAll(slow); err != nil {
		t.Error(err)
	}
	if err := s.wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if n := s.says("msg=serving"); n != 1 {
		t.Errorf("%d programs served", n)
	}
	gone(t, socket)
}

// TestOnDeviceLoss lets a server end, or stay, when its device is lost.
func TestOnDeviceLoss(t *testing.T) {
	s := startAnewServer(t, "60", nil, "--on-device-loss", "exit")
	for {
		if _, _, _, err := s.chat(); err != nil {
			break
		}
	}
	if s.wait(); s.cmd.ProcessState.ExitCode() != exitFailure || s.says("a device is lost") == 0 {
		t.Errorf("it ended with %v", s.cmd.ProcessState)
	}
	s = startAnewServer(t, "60", nil, "--on-device-loss", "stay")
	for s.says("the device is lost") == 0 {
		s.chat()
	}
	if got := s.health(t); got != http.StatusServiceUnavailable {
		t.Errorf("it stays with a health of %d", got)
	}
	s.ends(t)
}

// TestGatewayResumesAnewServer loses the device of a gateway's only endpoint in the middle of streams, greedy and drawn
// at random. Each client gets the answer that it gets without that, in one stream, and so does a request that waited.
func TestGatewayResumesAnewServer(t *testing.T) {
	s := startAnewServer(t, "120 120", nil)
	door, _, _ := startGateway(t, s.cmd.Path, fmt.Sprintf(
		"listen: 127.0.0.1:0\nhealth: {interval: 50ms}\nqueue: {down_wait: 1m}\nmodels:\n- {name: kvasir-mini, resume: true, endpoints: [%q]}\n", s.url))
	ask := func(temperature int) (text string) {
		t.Helper()
		res, err := http.Post(door+"/v1/chat/completions", "application/json", strings.NewReader(fmt.Sprintf(
			`{"model":"kvasir-mini","stream":true,"temperature":%d,"seed":7,"frequency_penalty":0.5,"max_tokens":50,"ignore_eos":true,`+
				`"messages":[{"role":"user","content":"Tell me a story of a fox"}]}`, temperature)))
		if err != nil {
			t.Error(err)
			return ""
		}
		defer res.Body.Close()
		all, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK || !strings.HasSuffix(string(all), "data: [DONE]\n\n") {
			t.Errorf("status %d, %v: %s", res.StatusCode, err, all)
		}
		for line := range strings.Lines(string(all)) {
			var e struct {
				Choices []struct{ Delta struct{ Content string } }
			}
			if data, ok := strings.CutPrefix(line, "data: {"); ok && json.Unmarshal([]byte("{"+data), &e) == nil && len(e.Choices) > 0 {
				text += e.Choices[0].Delta.Content
			}
		}
		return text
	}
	want := []string{ask(0), ask(1)}
	if s.says("started anew, since") > 0 || want[0] == "" || want[1] == "" {
		t.Fatalf("the device was lost too soon; %q", want)
	}
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() {
			for s.says("msg=serving") < 3 {
				if got := ask(i % 2); got != want[i%2] {
					t.Errorf("got %q; want %q", got, want[i%2])
				}
			}
		})
	}
	clients.Wait()
	s.ends(t)
}

// TestBatchOutlivesDevices loses the device three times in the middle of a batch. Its output is that of a batch that
// nothing happened to: nothing is lost, nothing twice.
func TestBatchOutlivesDevices(t *testing.T) {
	const requests = 60
	answers := func(steps string, programs int) map[string]string {
		s := startAnewServer(t, steps, nil, "--state", t.TempDir(), "--max-seqs", "4")
		client := newBatchClient(s.url, option.WithHTTPClient(s.client))
		all := client.said(t, client.until(t, client.begin(t, requests), requests))
		if n := s.says("msg=serving"); n != programs {
			t.Errorf("%d programs served; want %d", n, programs)
		}
		s.ends(t)
		return all
	}
	whole := answers("", 1)
	compareBatches(t, answers("40 40 40", 4), whole, requests)
}

// TestCommandsWhoseDeviceIsLost holds that commands that serve nobody end and say why, and that a batch goes on when it
// is started again.
func TestCommandsWhoseDeviceIsLost(t *testing.T) {
	program, plan := brittleKvasir(t, "10 10")
	in, out := filepath.Join(t.TempDir(), "in.jsonl"), filepath.Join(t.TempDir(), "out.jsonl")
	if err := os.WriteFile(in, []byte(batchInput(20)), 0o600); err != nil {
		t.Fatal(err)
	}
	device := []string{"--device", "brittle", "--kv-bytes", "16M", "--context", "512"}
	batch := append([]string{"batch", in, out, "--max-seqs", "2"}, device...)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{append([]string{"run", "--max-tokens", "100", "Tell me a story of a fox and a KV cache"}, device...), exitFailure, "the device is lost: it could not be set up again"},
		{batch, exitFailure, "the device is lost; the same command goes on where the answers end"},
		{batch, exitOK, ""},
	} {
		cmd := exec.CommandContext(t.Context(), program, c.args...)
		cmd.Env = append(os.Environ(), plan)
		said, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(said), c.says) {
			t.Errorf("%v ended with %v and said %s; want %d and %q", c.args, err, said, c.code, c.says)
		}
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(said(t, data)); n != 20 {
		t.Errorf("%d answers; want 20", n)
	}
}
