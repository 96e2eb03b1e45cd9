package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// TestGatewaySplitsBetweenServers asks the built program's gateway for what one of its servers goes on with after
// another one has computed the prompt, and once more when that one is gone.
func TestGatewaySplitsBetweenServers(t *testing.T) {
	if testing.Short() {
		t.Skip("building the program takes a while; left out by -short")
	}
	program := buildKvasir(t)
	prefill := startProcess(t, exec.Command(program, "serve", "--port", "0", "--kv-give"))
	goesOn := startServer(t, program, "--kv-take-from", "127.0.0.1", "--kv-take-bytes", "64M").address
	alone := startServer(t, program).address
	address, _, _ := startGateway(t, program, fmt.Sprintf("listen: 127.0.0.1:0\nmodels:\n- name: kvasir-mini\n  transfer: nixl\n"+
		"  endpoints:\n  - {url: '%s', role: prefill}\n  - {url: '%s', role: decode}\n", prefill.address, goesOn))
	ask := func(at string, n int) *openai.ChatCompletion {
		t.Helper()
		client := openai.NewClient(option.WithBaseURL(at+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
		whole, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
			Model: "kvasir-mini", MaxTokens: openai.Int(20), Temperature: openai.Float(0),
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(fmt.Sprint(n, strings.Repeat(" Once upon a time there was a king.", 20)))},
		})
		if err != nil {
			t.Fatal(err)
		}
		return whole
	}
	const loaded = `kvasir:tier_loaded_blocks_total{engine="0",model_name="kvasir-mini",tier="transfer"} `
	blocks := func() (n int) {
		res, err := http.Get(goesOn + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if value, ok := strings.CutPrefix(lines.Text(), loaded); ok {
				fmt.Sscan(value, &n)
			}
		}
		return n
	}
	for n := range 3 {
		before := blocks()
		got, want := ask(address, n), ask(alone, n)
		if got.Choices[0].Message.Content != want.Choices[0].Message.Content {
			t.Errorf("split: %q; want %q", got.Choices[0].Message.Content, want.Choices[0].Message.Content)
		}
		cached, came := int(got.Usage.PromptTokensDetails.CachedTokens), blocks()-before
		if full := (int(got.Usage.PromptTokens) - 1) / 16 * 16; cached != full || came < full/16-2 {
			t.Errorf("request %d: %d tokens of %d are cached, and %d blocks came", n, cached, got.Usage.PromptTokens, came)
		}
	}
	prefill.kill()
	before := blocks()
	if got, want := ask(address, 7), ask(alone, 7); got.Choices[0].Message.Content != want.Choices[0].Message.Content || blocks() != before {
		t.Errorf("without the prefill server: %q, %d blocks", got.Choices[0].Message.Content, blocks()-before)
	}
}
