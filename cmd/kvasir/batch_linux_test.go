package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// killable runs "kvasir serve" on a free port, and returns its address and the process.
func killable(t *testing.T, program, state string) (string, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(program, "serve", "--port", "0", "--state", state, "--max-seqs", "4", "--context", "256")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			go io.Copy(io.Discard, log)
			return m[1], cmd
		}
	}
	t.Fatal("serve ended without an address")
	return "", nil
}

// batchInput returns n requests to the built-in model, and their names.
func batchInput(n int) string {
	var in strings.Builder
	for i := range n {
		fmt.Fprintf(&in, `{"custom_id":"r%d","method":"POST","url":"/v1/chat/completions","body":{"temperature":0,"max_tokens":12,`+
			`"messages":[{"role":"user","content":"What is %d and a KV cache?"}]}}`+"\n", i, i)
	}
	return in.String()
}

// said returns what each line of an output says, by its custom_id.
func said(t *testing.T, data []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		var one struct {
			ID       string `json:"custom_id"`
			Response struct {
				Status int `json:"status_code"`
				Body   struct {
					Choices []struct {
						Message struct{ Content string }
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Response.Status != 200 || len(one.Response.Body.Choices) != 1 {
			t.Fatalf("%q: %v", line, err)
		}
		if _, twice := out[one.ID]; twice {
			t.Errorf("%s is there twice", one.ID)
		}
		out[one.ID] = one.Response.Body.Choices[0].Message.Content
	}
	return out
}

// TestBatchSurvivesKill kills the server in the middle of a batch, three times. The batch goes on where it was, and its
// output is that of a batch that nothing happened to: nothing is lost, nothing twice.
func TestBatchSurvivesKill(t *testing.T) {
	if testing.Short() {
		t.Skip("building the program takes a while; left out by -short")
	}
	const requests = 60
	program, state := buildKvasir(t), t.TempDir()
	var client openai.Client
	var server *exec.Cmd
	start := func() {
		address, cmd := killable(t, program, state)
		server = cmd
		client = openai.NewClient(option.WithBaseURL(address+"/v1"), option.WithAPIKey("none"))
	}
	begin := func() *openai.Batch {
		f, err := client.Files.New(t.Context(), openai.FileNewParams{Purpose: openai.FilePurposeBatch,
			File: openai.File(strings.NewReader(batchInput(requests)), "in.jsonl", "application/jsonl")})
		if err != nil {
			t.Fatal(err)
		}
		b, err := client.Batches.New(t.Context(), openai.BatchNewParams{InputFileID: f.ID,
			Endpoint: openai.BatchNewParamsEndpointV1ChatCompletions, CompletionWindow: openai.BatchNewParamsCompletionWindow24h})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	until := func(b *openai.Batch, done int64) *openai.Batch {
		for b.RequestCounts.Completed < done || done == requests && b.Status != "completed" {
			time.Sleep(time.Millisecond)
			var err error
			if b, err = client.Batches.Get(t.Context(), b.ID); err != nil {
				t.Fatal(err)
			}
			if b.Status == "failed" || b.RequestCounts.Failed > 0 {
				t.Fatalf("the batch is %s", b.RawJSON())
			}
		}
		return b
	}
	content := func(b *openai.Batch) map[string]string {
		r, err := client.Files.Content(t.Context(), b.OutputFileID)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return said(t, data)
	}
	start()
	whole := content(until(begin(), requests))
	b := begin()
	kills := 0
	for _, done := range []int64{3, 15, 30} {
		if b = until(b, done); b.Status != "completed" {
			kills++
		}
		server.Process.Signal(syscall.SIGKILL)
		server.Wait()
		start()
		after, err := client.Batches.Get(t.Context(), b.ID)
		if err != nil || after.RequestCounts.Completed < b.RequestCounts.Completed {
			t.Errorf("%v: %s, and %s before the server was killed", err, after.RawJSON(), b.RawJSON())
		}
	}
	got := content(until(b, requests))
	if len(got) != requests || len(whole) != requests {
		t.Errorf("%d answers, and %d without a kill; want %d", len(got), len(whole), requests)
	}
	for id, text := range whole {
		if got[id] != text {
			t.Errorf("%s: %q, and %q without a kill", id, got[id], text)
		}
	}
	t.Logf("the server was killed %d times before the batch was complete", kills)
}
