package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

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

// batchClient is a client of a server's batches.
type batchClient struct{ openai.Client }

func newBatchClient(address string, o ...option.RequestOption) batchClient {
	return batchClient{openai.NewClient(append(o, option.WithBaseURL(address+"/v1"), option.WithAPIKey("none"))...)}
}

// begin begins a batch of n requests.
func (c batchClient) begin(t *testing.T, n int) *openai.Batch {
	t.Helper()
	f, err := c.Files.New(t.Context(), openai.FileNewParams{Purpose: openai.FilePurposeBatch,
		File: openai.File(strings.NewReader(batchInput(n)), "in.jsonl", "application/jsonl")})
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Batches.New(t.Context(), openai.BatchNewParams{InputFileID: f.ID,
		Endpoint: openai.BatchNewParamsEndpointV1ChatCompletions, CompletionWindow: openai.BatchNewParamsCompletionWindow24h})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// until waits until so many requests of a batch are done, and with the last one the batch.
func (c batchClient) until(t *testing.T, b *openai.Batch, done int64) *openai.Batch {
	t.Helper()
	for b.RequestCounts.Completed < done || done == b.RequestCounts.Total && b.Status != "completed" {
		time.Sleep(time.Millisecond)
		var err error
		if b, err = c.Batches.Get(t.Context(), b.ID); err != nil {
			t.Fatal(err)
		}
		if b.Status == "failed" || b.RequestCounts.Failed > 0 {
			t.Fatalf("the batch is %s", b.RawJSON())
		}
	}
	return b
}

// said returns what the answers of a batch say.
func (c batchClient) said(t *testing.T, b *openai.Batch) map[string]string {
	t.Helper()
	r, err := c.Files.Content(t.Context(), b.OutputFileID)
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

// compareBatches wants that a batch to which something happened says what an undisturbed one says: n answers.
func compareBatches(t *testing.T, got, undisturbed map[string]string, n int) {
	t.Helper()
	if len(got) != n || len(undisturbed) != n {
		t.Errorf("%d answers, and %d of the undisturbed batch; want %d", len(got), len(undisturbed), n)
	}
	for id, text := range undisturbed {
		if got[id] != text {
			t.Errorf("%s: %q, and %q of the undisturbed batch", id, got[id], text)
		}
	}
}

// TestBatchSurvivesKill kills the server in the middle of a batch, three times. The batch goes on where it was, and its
// output is that of a batch that nothing happened to: nothing is lost, nothing twice.
func TestBatchSurvivesKill(t *testing.T) {
	const requests = 60
	program, state := buildKvasir(t), t.TempDir()
	var client batchClient
	var server *process
	start := func() {
		server = startProcess(t, exec.Command(program, "serve", "--port", "0", "--state", state, "--max-seqs", "4", "--context", "256"))
		client = newBatchClient(server.address)
	}
	start()
	whole := client.said(t, client.until(t, client.begin(t, requests), requests))
	b := client.begin(t, requests)
	kills := 0
	for _, done := range []int64{3, 15, 30} {
		if b = client.until(t, b, done); b.Status != "completed" {
			kills++
		}
		server.kill()
		start()
		after, err := client.Batches.Get(t.Context(), b.ID)
		if err != nil || after.RequestCounts.Completed < b.RequestCounts.Completed {
			t.Errorf("%v: %s, and %s before the server was killed", err, after.RawJSON(), b.RawJSON())
		}
	}
	compareBatches(t, client.said(t, client.until(t, b, requests)), whole, requests)
	t.Logf("the server was killed %d times before the batch was complete", kills)
}
