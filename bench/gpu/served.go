package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// peer is another server, and the shell command that starts it.
type peer struct{ name, command string }

// What every request asks for, and how many requests a client makes at least: one client makes more, since it has no
// company whose requests count, too.
const (
	servedInput, servedOutput = 512, 256
	servedEach, servedLeast   = 3, 8
)

// times are what kvasir bench load says of a latency, in milliseconds.
type times struct{ Mean, P50, P99 float64 }

// load is what it says of a load.
type load struct {
	Failed int
	TTFT   times   `json:"ttft_ms"`
	ITL    times   `json:"itl_ms"`
	E2E    times   `json:"e2e_ms"`
	Output float64 `json:"output_tokens_per_second"`
	Found  float64 `json:"cache_hit_rate"` // share of the prompts' tokens that a cache had
	Errors map[string]int
}

// served puts a load on kvasir and on its peers, and prints a table. Output tokens a second are those of a steady
// state, from the mean time of a request: at the end of a run there are fewer clients than before.
func (r *reporter) served(ctx context.Context, shape, quant string, peers []peer) {
	fmt.Fprintf(r.w, "\n## Served: prompts of %d tokens, answers of %d\n\n", servedInput, servedOutput)
	fmt.Fprint(r.w, "| server | clients | output tokens/s | first token, ms | between tokens, ms, p50 | p99 |\n")
	fmt.Fprint(r.w, "| --- | ---: | ---: | ---: | ---: | ---: |\n")
	r.loads(ctx, "kvasir", "--shape", shape, "--quant", quant, "--device", r.device, "--http")
	for _, p := range peers {
		if err := r.peer(ctx, p); err != nil {
			r.fail(p.name, err)
		}
	}
}

// fail notes a server that could not be measured.
func (r *reporter) fail(name string, err error) {
	r.failing = append(r.failing, name)
	fmt.Fprintf(r.w, "| %s | | %v | | | |\n", name, err)
}

// peer measures a server.
func (r *reporter) peer(ctx context.Context, p peer) error {
	return r.started(ctx, p, r.peerURL, func(model string) error {
		r.loads(ctx, p.name, "--url", r.peerURL, model)
		return nil
	})
}

// started starts a server, does something with the model that it lists first, and ends it, with all that it started.
func (r *reporter) started(ctx context.Context, p peer, url string, with func(model string) error) (err error) {
	log, err := os.CreateTemp("", "peer-*.log")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close(), os.Remove(log.Name())) }()
	ctx, cancel := context.WithCancel(ctx)
	c := exec.CommandContext(ctx, "sh", "-c", p.command)
	c.Stdout, c.Stderr = log, log
	alone(c)
	if err := c.Start(); err != nil {
		cancel()
		return err
	}
	ended := make(chan error, 1)
	guard.Go(c.Wait, func(err error) { ended <- err })
	defer func() { cancel(); <-ended }()
	model, err := r.answers(ctx, url, ended)
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(said[max(0, len(said)-500):]))
	}
	return with(model)
}

// pollEvery is how often a server that starts is asked.
const pollEvery = 5 * time.Millisecond

// answers waits until the server lists its models, and returns the first.
func (r *reporter) answers(ctx context.Context, url string, ended chan error) (model string, err error) {
	for start := time.Now(); r.limit <= 0 || time.Since(start) < r.limit; {
		select {
		case err := <-ended:
			ended <- err
			return "", fmt.Errorf("it ended before it served: %v", err)
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pollEvery):
		}
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/models", nil)
		if err != nil {
			return "", err
		}
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			continue
		}
		var models struct{ Data []struct{ ID string } }
		err = errors.Join(json.NewDecoder(a.Body).Decode(&models), a.Body.Close())
		if err == nil && a.StatusCode == http.StatusOK && len(models.Data) > 0 {
			return models.Data[0].ID, nil
		}
	}
	return "", fmt.Errorf("%s lists no model", url)
}

// loads measures a server with every number of clients.
func (r *reporter) loads(ctx context.Context, name string, server ...string) {
	for _, clients := range strings.Split(r.clients, ",") {
		n, err := strconv.Atoi(clients)
		if err != nil {
			r.fail(name, err)
			return
		}
		args := append([]string{"bench", "load", "--json", "-c", clients, "-n", strconv.Itoa(max(servedLeast, servedEach*n)),
			"--input", strconv.Itoa(servedInput), "--output", strconv.Itoa(servedOutput)}, server...)
		text, err := r.command(ctx, r.kvasir, args...)
		var l load
		if at := bytes.IndexByte(text, '{'); err == nil && at >= 0 {
			err = json.NewDecoder(bytes.NewReader(text[at:])).Decode(&l)
		}
		if err == nil && l.Failed > 0 {
			err = fmt.Errorf("%d requests failed", l.Failed)
		} else if err == nil && l.E2E.Mean == 0 {
			err = errors.New("no request was answered")
		}
		if err != nil {
			r.fail(name, fmt.Errorf("%d clients: %w: %s", n, err, bytes.TrimSpace(text[max(0, len(text)-300):])))
			continue
		}
		rate := float64(n*servedOutput) / l.E2E.Mean * 1e3
		fmt.Fprintf(r.w, "| %s | %d | %.0f | %.1f | %.2f | %.1f |\n", name, n, rate, l.TTFT.P50, l.ITL.P50, l.ITL.P99)
	}
}
