// Command gpu checks and measures a GPU, and prints one report: what the machine has, the tests that need a device, the
// goldens of every family, a table of speeds as shares of the floor, and one of a server under load.
//
//	go run ./bench/gpu --out report.md
//
// Other servers of the OpenAI API are put under the same load by the same client, one after the other, each started by
// a command and ended after it:
//
//	go run ./bench/gpu --only served --peer 'vllm=vllm serve DIR --load-format dummy --port 8001'
//
// With --report it measures a fixed table, kvasir beside other servers, row by row into a file, from which it makes
// Markdown and plots:
//
//	go run ./bench/gpu --report --rows decode,prompt --data gpu.json
//	go run ./bench/gpu --from gpu.json --docs docs
//
// On a machine without Go, carry the test binaries (go test -c -o DIR ./compute/cuda ./model ./engine) and the program,
// and run it in the repository's root with --tests DIR --kvasir PATH.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "gpu:", err)
		os.Exit(1)
	}
}

// reporter runs the parts and writes the report.
type reporter struct {
	w       io.Writer
	tests   string // folder of test binaries; "" runs go test
	kvasir  string // the program; "" builds it
	device  string
	clients string
	peerURL string
	limit   time.Duration // of one command
	failing []string      // parts that did
	gpu     string        // what the device is
}

// suite is a package whose tests compute on the device when KVASIR_GPU is set.
type suite struct{ pkg, run string }

var suites = []suite{
	{"./compute/cuda", "."},
	{"./model", "Devices"},
	{"./engine", "Device|SameTokens"},
}

func run(ctx context.Context, args []string) error {
	r := &reporter{w: os.Stdout}
	f := flag.NewFlagSet("gpu", flag.ContinueOnError)
	f.StringVar(&r.tests, "tests", "", "run the test binaries of this folder rather than go test")
	f.StringVar(&r.kvasir, "kvasir", "", "the program to measure; it is built if not given")
	f.StringVar(&r.device, "device", "cuda", "the device, by a name that kvasir devices lists")
	f.DurationVar(&r.limit, "limit", 10*time.Minute, "end a command that takes longer")
	out := f.String("out", "", "also write the report to this file")
	shapes := f.String("shapes", "8b", "the models to measure, by shape, with random weights")
	quants := f.String("quants", "bf16,q8_0,q4_k_m,q4_0", "their types")
	measured := f.String("speeds", "tg128,tg64@8192,b8,b32,b64,b128,b256,pp512,pp2048,pp8192", "what is measured of each")
	c := &campaign{reporter: r}
	c.flags(f)
	only := f.String("only", "tests,speeds,served", "the parts to run")
	f.StringVar(&r.clients, "clients", "1,32,64,256", "how many clients are served at once, in turn")
	f.StringVar(&r.peerURL, "peer-url", "http://127.0.0.1:8001/v1", "where a peer serves")
	f.Func("peer", "NAME=COMMAND: also measure a server that this command starts; may be repeated", func(v string) error {
		name, command, ok := strings.Cut(v, "=")
		if !ok || name == "" || command == "" {
			return errors.New("want NAME=COMMAND")
		}
		c.peers = append(c.peers, peer{name, command})
		return nil
	})
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if *out != "" {
		file, err := os.Create(*out)
		if err != nil {
			return err
		}
		defer file.Close()
		r.w = io.MultiWriter(os.Stdout, file)
	}
	if c.from != "" {
		return c.renderFrom()
	}
	if r.kvasir == "" {
		dir, err := os.MkdirTemp("", "kvasir-gpu-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		r.kvasir = filepath.Join(dir, "kvasir")
		if text, err := r.command(ctx, "go", "build", "-o", r.kvasir, "./cmd/kvasir"); err != nil {
			return fmt.Errorf("building kvasir: %w\n%s", err, text)
		}
	}
	if err := r.machine(ctx); err != nil {
		return err
	}
	if c.wanted {
		return c.run(ctx)
	}
	if strings.Contains(*only, "tests") {
		for _, s := range suites {
			r.test(ctx, s)
		}
	}
	if strings.Contains(*only, "speeds") {
		r.speeds(ctx, strings.Split(*shapes, ","), strings.Split(*quants, ","), *measured)
	}
	if strings.Contains(*only, "served") {
		r.served(ctx, strings.Split(*shapes, ",")[0], strings.Split(*quants, ",")[0], c.peers)
	}
	if len(r.failing) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(r.failing, ", "))
	}
	return ctx.Err()
}

// command runs a command and returns all that it printed.
func (r *reporter) command(ctx context.Context, name string, args ...string) ([]byte, error) {
	if r.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.limit)
		defer cancel()
	}
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "KVASIR_GPU=1")
	return c.CombinedOutput()
}

// machine says what devices there are. Without the one asked for there is nothing to do.
func (r *reporter) machine(ctx context.Context) error {
	text, err := r.command(ctx, r.kvasir, "devices", "--json")
	if err != nil {
		return fmt.Errorf("kvasir devices: %w\n%s", err, text)
	}
	var found []struct {
		Name, What, Unused string
		Memory             int64
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return fmt.Errorf("kvasir devices: %w\n%s", err, text)
	}
	fmt.Fprintf(r.w, "# %s\n\n| device | | memory | |\n| --- | --- | ---: | --- |\n", r.device)
	usable := false
	for _, d := range found {
		if d.Unused == "" && (d.Name == r.device || strings.HasPrefix(d.Name, r.device+":")) && !usable {
			usable, r.gpu = true, d.What
		}
		fmt.Fprintf(r.w, "| %s | %s | %.1f GiB | %s |\n", d.Name, d.What, float64(d.Memory)/(1<<30), d.Unused)
	}
	if !usable {
		return fmt.Errorf("no %s can be used", r.device)
	}
	return nil
}

// verdict matches what a test says of itself when it is over.
var verdict = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+)`)

// test runs a suite and tells how many tests passed, and all that those which did not said.
func (r *reporter) test(ctx context.Context, s suite) {
	fmt.Fprintf(r.w, "\n## %s\n\n", s.pkg)
	var text []byte
	var err error
	if r.tests == "" {
		text, err = r.command(ctx, "go", "test", "-count=1", "-v", "-run", s.run, s.pkg)
	} else {
		var binary string
		if binary, err = filepath.Abs(filepath.Join(r.tests, filepath.Base(s.pkg)+".test")); err == nil {
			text, err = r.command(ctx, "sh", "-c", `cd "$0" && exec "$1" -test.v -test.run "$2"`, s.pkg, binary, s.run)
		}
	}
	count := map[string]int{}
	for _, m := range verdict.FindAllSubmatch(text, -1) {
		count[string(m[1])]++
	}
	fmt.Fprintf(r.w, "%d passed, %d failed, %d skipped.\n", count["PASS"], count["FAIL"], count["SKIP"])
	if count["PASS"]+count["FAIL"] == 0 && err == nil {
		err = errors.New("no test ran")
	}
	if err != nil {
		r.failing = append(r.failing, s.pkg)
		fmt.Fprintf(r.w, "\n%v\n\n```\n%s```\n", err, failures(text))
	}
}

// failures returns the last lines of a suite's output, without those of tests that passed.
func failures(text []byte) string {
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "--- PASS") && !strings.HasPrefix(line, "=== ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-60):], "")
}

// row is what kvasir bench model says of one test.
type row struct {
	Model, Quant, Test string
	Speed              float64 `json:"tokens_per_second"`
	Floor              float64 `json:"floor_tokens_per_second"`
	Share              float64 `json:"share"`
	Tokens             int     // of the test
	Operations         float64 `json:"floor_gigaoperations"`
}

// speeds measures models and prints a table.
func (r *reporter) speeds(ctx context.Context, shapes, quants []string, tests string) {
	fmt.Fprintf(r.w, "\n## Speed\n\n| model | type | test | tokens/s | share of the floor |\n| --- | --- | --- | ---: | ---: |\n")
	for _, shape := range shapes {
		for _, quant := range quants {
			text, err := r.command(ctx, r.kvasir, "bench", "model", "--device", r.device, "--shape", shape, "--quant", quant,
				"--tests", tests, "--json")
			var rows []row
			if at := bytes.IndexByte(text, '['); err == nil && at >= 0 {
				err = json.Unmarshal(text[at:], &rows)
			}
			if err != nil {
				r.failing = append(r.failing, shape+" "+quant)
				fmt.Fprintf(r.w, "| %s | %s | | %v: %s | |\n", shape, quant, err, bytes.TrimSpace(text))
				continue
			}
			for _, x := range rows {
				fmt.Fprintf(r.w, "| %s | %s | %s | %.1f | %.0f%% |\n", x.Model, x.Quant, x.Test, x.Speed, 100*x.Share)
			}
		}
	}
}
