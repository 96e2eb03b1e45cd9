//go:build abuse

package server

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	soakTime     = flag.Duration("soak", time.Minute, "how long the built program is abused")
	soakClients  = flag.Int("clients", 200, "hostile clients")
	soakKinds    = flag.String("kinds", "", "the kinds of hostile clients whose names have this in them; all if it is empty")
	soakModel    = flag.String("model", "", "the model that the built program serves; the built-in one if it is empty")
	soakKV       = flag.Int64("kv", 64<<20, "bytes of its KV cache")
	soakWords    = flag.Int("words", 0, "words before the honest client's prompt, which no other prompt has")
	soakRequests = flag.Int("requests", 5000, "small requests to the built program")
)

const (
	goodKey, badKey = "an honest client's key", "a hostile client's key"
	soakGrammars    = 128 << 20
	soakSlack       = 512 << 20 // beyond the plan
)

// program is a built kvasir that serves the built-in model.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	at   string
	log  *bytes.Buffer
	done chan struct{} // the log has ended
	idle state         // before the first request
}

// state is what a process takes.
type state struct{ rss, goroutines, files, blocks int64 }

func (s state) String() string {
	return fmt.Sprintf("%d MiB resident, %d goroutines, %d descriptors, %d blocks in use", s.rss>>20, s.goroutines, s.files, s.blocks)
}

// startProgram builds and starts the program. It must end with status 0 when the test does.
func startProgram(t *testing.T, args ...string) *program {
	dir := t.TempDir()
	path, keys := filepath.Join(dir, "kvasir"), filepath.Join(dir, "keys.jsonl")
	if out, err := exec.Command("go", "build", "-o", path, "../cmd/kvasir").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	lines := fmt.Sprintf(`{"name":"good","key":%q}`+"\n"+`{"name":"bad","key":%q,"max_requests":64}`+"\n", goodKey, badKey)
	if err := os.WriteFile(keys, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if *soakModel != "" {
		args = append(args, *soakModel)
	}
	args = append([]string{"serve", "--port", "0", "--api-key-file", keys, "--kv-bytes", strconv.FormatInt(*soakKV, 10), "--grammar-bytes", strconv.Itoa(soakGrammars)}, args...)
	p := &program{t: t, cmd: exec.Command(path, args...), log: new(bytes.Buffer), done: make(chan struct{})}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listening, at := regexp.MustCompile(`msg=serving address=http://(\S+)`), make(chan string, 1)
	go func() {
		defer close(p.done)
		for in := bufio.NewScanner(io.TeeReader(stderr, p.log)); in.Scan(); {
			if m := listening.FindStringSubmatch(in.Text()); m != nil {
				at <- m[1]
			}
		}
	}()
	t.Cleanup(p.end)
	select {
	case p.at = <-at:
	case <-p.done:
		t.Fatalf("the program ended:\n%s", p.log)
	}
	p.idle = p.state()
	return p
}

func (p *program) end() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.done
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the program ended with %v:\n%s", err, p.log)
	}
	if i := bytes.Index(p.log.Bytes(), []byte("panic")); i >= 0 {
		p.t.Errorf("the log tells of a panic: %.4000s", p.log.Bytes()[i:])
	}
}

var metricLine = regexp.MustCompile(`(?m)^(process_resident_memory_bytes|go_goroutines|process_open_fds|kvasir:kv_blocks\{[^}]*state="used"[^}]*\}) (\S+)$`)

// state reads the program's metrics, by a connection of its own.
func (p *program) state() (s state) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	resp, err := client.Get("http://" + p.at + "/metrics")
	if err != nil {
		p.t.Errorf("metrics: %v", err)
		return s
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Errorf("metrics: %v", err)
	}
	for _, m := range metricLine.FindAllStringSubmatch(string(text), -1) {
		v, _ := strconv.ParseFloat(m[2], 64)
		switch m[1] {
		case "process_resident_memory_bytes":
			s.rss = int64(v)
		case "go_goroutines":
			s.goroutines = int64(v)
		case "process_open_fds":
			s.files = int64(v)
		default:
			s.blocks = int64(v)
		}
	}
	return s
}

// first asks for a short answer, and returns how long its first token took, or the status of a refusal.
func first(ctx context.Context, client *http.Client, at, key, prompt string) (took time.Duration, status int, err error) {
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":4,"stream":true,"ignore_eos":true}`, prompt)
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+at+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	_, err = in.ReadString('\n')
	took = time.Since(began)
	io.Copy(io.Discard, in)
	return took, resp.StatusCode, err
}

// honest asks again and again, until the deadline, and returns the times to first tokens in order of length, and how
// often it was refused.
func (p *program) honest(deadline time.Time) (times []time.Duration, refused int) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	for i := 0; time.Now().Before(deadline); i++ {
		prompt := strings.Repeat(fmt.Sprint(i, " and "), *soakWords/2) + fmt.Sprintf("Once upon a time %d", i)
		took, status, err := first(p.t.Context(), client, p.at, goodKey, prompt)
		switch {
		case err != nil:
			p.t.Errorf("the honest client: %v", err)
		case status == http.StatusOK:
			times = append(times, took)
		default:
			refused++
		}
	}
	slices.Sort(times)
	return times, refused
}

func quantile(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[len(times)*percent/100].Round(100 * time.Microsecond)
}

// restored waits until a program that nobody asks takes what it took before.
func (p *program) restored() {
	deadline := time.Now().Add(2 * time.Minute)
	var s state
	for time.Now().Before(deadline) {
		s = p.state()
		if s.goroutines <= p.idle.goroutines+4 && s.files <= p.idle.files+1 && s.blocks == 0 {
			p.t.Logf("afterwards %v", s)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	p.t.Errorf("left behind: %v; before: %v", s, p.idle)
}

// hostileAt is the environment variable that has the address for TestHostileClients.
const hostileAt = "KVASIR_HOSTILE_AT"

// TestHostileClients is the other side of TestSoak, in a process of its own.
func TestHostileClients(t *testing.T) {
	at := os.Getenv(hostileAt)
	if at == "" {
		t.Skip("it is a part of TestSoak")
	}
	deadline := time.Now().Add(*soakTime)
	all := attacks(badKey)
	var kinds []string
	for kind := range all {
		if strings.Contains(kind, *soakKinds) {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		t.Fatalf("no kind has %q in its name", *soakKinds)
	}
	slices.Sort(kinds)
	var wg sync.WaitGroup
	for i := range *soakClients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for time.Now().Before(deadline) {
				all[kinds[i%len(kinds)]](r, at)
			}
		})
	}
	wg.Wait()
}

// cpu returns the time that processors have spent for the program.
func (p *program) cpu() time.Duration {
	resp, err := http.Get("http://" + p.at + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^process_cpu_seconds_total (\S+)$`).FindSubmatch(text)
	if m == nil {
		p.t.Fatal("/metrics has no process_cpu_seconds_total")
	}
	seconds, _ := strconv.ParseFloat(string(m[1]), 64)
	return time.Duration(seconds * float64(time.Second)).Round(time.Second)
}

// TestSoak lets 200 hostile clients at the built program beside an honest one. What it takes stays within its weights,
// its KV cache, what grammars may find, and 512 MiB; afterwards no goroutine, descriptor or block is left. How long the
// honest client waits depends on the machine, and is only printed. The hostile clients have processors only while
// nobody else wants them (SCHED_IDLE), as if they were on other machines.
//
//	go test -tags abuse -run Soak -timeout 30m ./server -soak 10m -v
func TestSoak(t *testing.T) {
	p := startProgram(t, "--max-seqs", "16")
	alone, _ := p.honest(time.Now().Add(min(*soakTime/6, 20*time.Second)))
	deadline := time.Now().Add(*soakTime)
	cpu := p.cpu()
	hostile := exec.Command("chrt", "--idle", "0", os.Args[0], "-test.run", "^TestHostileClients$", "-test.timeout", "0",
		"-soak", soakTime.String(), "-clients", strconv.Itoa(*soakClients), "-kinds", *soakKinds)
	hostile.Env = append(os.Environ(), hostileAt+"="+p.at)
	var wg sync.WaitGroup
	wg.Go(func() {
		if out, err := hostile.CombinedOutput(); err != nil {
			t.Errorf("the hostile clients: %v\n%s", err, out)
		}
	})
	var most state
	wg.Go(func() {
		for time.Now().Before(deadline) {
			s := p.state()
			most.rss, most.goroutines = max(most.rss, s.rss), max(most.goroutines, s.goroutines)
			most.files, most.blocks = max(most.files, s.files), max(most.blocks, s.blocks)
			time.Sleep(200 * time.Millisecond)
		}
	})
	beside, refused := p.honest(deadline)
	wg.Wait()
	t.Logf("%d hostile clients for %v: at first %v; at most %v", *soakClients, *soakTime, p.idle, most)
	used := hostile.ProcessState.UserTime() + hostile.ProcessState.SystemTime()
	t.Logf("processors' time: the program %v, the hostile clients %v, of %d processors for %v", p.cpu()-cpu, used.Round(time.Second),
		runtime.NumCPU(), *soakTime)
	t.Logf("the honest client's first token: p50 %v, p99 %v alone; p50 %v, p99 %v beside them, of %d requests, and %d refused",
		quantile(alone, 50), quantile(alone, 99), quantile(beside, 50), quantile(beside, 99), len(beside), refused)
	if len(beside) == 0 {
		t.Error("the honest client has no answer")
	}
	if plan := p.idle.rss + *soakKV + soakGrammars; most.rss > plan+soakSlack {
		t.Errorf("%d MiB are resident; the plan is %d", most.rss>>20, plan>>20)
	}
	p.restored()
}

// TestManyRequests asks many small requests. Once the KV cache is touched, memory stays flat, and nothing is left.
//
//	go test -tags abuse -run ManyRequests -timeout 2h ./server -requests 100000 -v
func TestManyRequests(t *testing.T) {
	p := startProgram(t)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: time.Minute}
	parts, n := 10, 0
	var rss []int64
	began := time.Now()
	for range parts {
		var wg sync.WaitGroup
		for range 16 {
			numbers := n
			n += *soakRequests / parts / 16
			wg.Go(func() {
				for i := range *soakRequests / parts / 16 {
					if _, status, err := first(t.Context(), client, p.at, goodKey, fmt.Sprintf("Number %d", numbers+i)); err != nil || status != http.StatusOK {
						t.Errorf("request %d: %d %v", numbers+i, status, err)
						return
					}
				}
			})
		}
		wg.Wait()
		rss = append(rss, p.state().rss>>20)
	}
	client.CloseIdleConnections()
	t.Logf("%d requests in %v: %v; MiB resident after each tenth: %d", n, time.Since(began).Round(time.Second), p.idle, rss)
	if last, bound := rss[parts-1], (p.idle.rss+*soakKV)>>20+300; last > bound { // 256 MiB of garbage
		t.Errorf("%d MiB are resident; want at most %d", last, bound)
	}
	p.restored()
}
