package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kvasir-llm/kvasir/bench"
)

// peer is another engine, by its llama-bench and the llama-batched-bench in the same folder.
type peer struct {
	name, path string
	flags      []string // that both take
}

// parsePeer reads NAME=PATH [FLAGS].
func parsePeer(s string) (peer, error) {
	name, rest, ok := strings.Cut(s, "=")
	words := strings.Fields(rest)
	if !ok || name == "" || name == ours || len(words) == 0 {
		return peer{}, fmt.Errorf("%q is not NAME=PATH", s)
	}
	p := peer{name, words[0], words[1:]}
	for _, tool := range []string{p.path, p.batched()} {
		if _, err := exec.LookPath(tool); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p peer) batched() string { return filepath.Join(filepath.Dir(p.path), "llama-batched-bench") }

// measure returns tokens per second by the names of tests. It skips tests that begin with a given number of tokens in
// the cache: the tools' defaults are none for prompts and single sequences.
func (p peer) measure(ctx context.Context, model string, threads int, tests []bench.Test) (map[string]float64, error) {
	speeds := map[string]float64{}
	var prompts, decodes, batches []string
	most := 0
	for _, t := range tests {
		var to *[]string
		switch n := 0; {
		case strings.Contains(t.Name, "@"):
			continue
		case t.Rows > 0:
			to, n = &prompts, t.Rows
			*to = append(*to, strconv.Itoa(n))
		case strings.HasPrefix(t.Name, "tg"):
			to, n = &decodes, t.Steps
			*to = append(*to, strconv.Itoa(n))
		default:
			batches, most = append(batches, strconv.Itoa(t.Seqs)), max(most, t.Seqs*(t.Depth+t.Steps))
		}
	}
	list := func(v []string) string {
		if len(v) == 0 {
			return "0"
		}
		return strings.Join(v, ",")
	}
	common := append([]string{"-m", model, "-t", strconv.Itoa(threads)}, p.flags...)
	if len(prompts)+len(decodes) > 0 {
		out, err := runTool(ctx, p.path, append([]string{"-p", list(prompts), "-n", list(decodes), "-r", "1", "-o", "json"}, common...))
		if err == nil {
			err = parseBench(out, speeds)
		}
		if err != nil {
			return speeds, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if len(batches) > 0 {
		args := append([]string{"-c", strconv.Itoa(max(most, 512)), "-npp", "16", "-ntg", "32", "-npl", list(batches), "--output-format", "jsonl"}, common...)
		out, err := runTool(ctx, p.batched(), args)
		if err == nil {
			err = parseBatched(out, speeds)
		}
		if err != nil {
			return speeds, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return speeds, nil
}

// runTool returns a tool's output. The tool's libraries may be in its folder.
func runTool(ctx context.Context, path string, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(path)+":"+os.Getenv("LD_LIBRARY_PATH"))
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		last := said.Bytes()
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(path), err, last[max(0, len(last)-400):])
	}
	return out, nil
}

// parseBench reads the JSON of llama-bench.
func parseBench(out []byte, speeds map[string]float64) error {
	var rows []struct {
		Prompt int     `json:"n_prompt"`
		Gen    int     `json:"n_gen"`
		Speed  float64 `json:"avg_ts"`
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		return fmt.Errorf("llama-bench: %w", err)
	}
	for _, r := range rows {
		if r.Prompt > 0 && r.Gen == 0 {
			speeds[fmt.Sprintf("pp%d", r.Prompt)] = r.Speed
		} else if r.Gen > 0 && r.Prompt == 0 {
			speeds[fmt.Sprintf("tg%d", r.Gen)] = r.Speed
		}
	}
	if len(rows) == 0 {
		return errors.New("llama-bench: no rows")
	}
	return nil
}

// parseBatched reads the JSON lines of llama-batched-bench: decoded tokens/s of all sequences.
func parseBatched(out []byte, speeds map[string]float64) error {
	found := false
	for line := range bytes.Lines(out) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] != '{' {
			continue
		}
		var r struct {
			Seqs  int     `json:"pl"`
			Speed float64 `json:"speed_tg"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("llama-batched-bench: %w", err)
		}
		speeds[fmt.Sprintf("b%d", r.Seqs)], found = r.Speed, true
	}
	if !found {
		return errors.New("llama-batched-bench: no rows")
	}
	return nil
}
