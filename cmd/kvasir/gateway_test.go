package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// startGateway runs "kvasir gateway" with a configuration in front of some servers, and returns its address, the file
// and a function that tells it to read the file again and waits until it has. When the test ends the gateway is told
// to stop, and must leave with status 0.
func startGateway(t *testing.T, program, config string) (address, file string, reload func()) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, exec.Command(program, "gateway", "--config", file))
	t.Cleanup(func() { p.ends(t) })
	return p.address, file, func() {
		const again = "read the configuration again"
		before := p.says(again)
		p.cmd.Process.Signal(syscall.SIGHUP)
		soon(t, "the configuration", func() bool { return p.says(again) > before })
	}
}

// TestGatewayBeforeTwoServers asks the built program's gateway, with OpenAI's own client, for what two of its servers
// answer: in whole and as a stream, while one of them is killed, and under another name after a reload.
func TestGatewayBeforeTwoServers(t *testing.T) {
	program := buildKvasir(t)
	stays := startServer(t, program)
	dies := startProcess(t, exec.Command(program, "serve", "--port", "0"))
	config := fmt.Sprintf("listen: 127.0.0.1:0\nmodels:\n- name: kvasir-mini\n  endpoints: [%s, %s]\n", stays.address, dies.address)
	address, file, reload := startGateway(t, program, config)
	client := openai.NewClient(option.WithBaseURL(address+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
	ask := openai.ChatCompletionNewParams{
		Model: "kvasir-mini", MaxTokens: openai.Int(40), Temperature: openai.Float(0),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is a KV cache?")},
	}
	whole, err := client.Chat.Completions.New(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	answer := whole.Choices[0].Message.Content
	errs := make(chan error)
	const askers, each = 4, 4
	for range askers {
		go func() {
			for range each {
				stream := client.Chat.Completions.NewStreaming(t.Context(), ask)
				var sum openai.ChatCompletionAccumulator
				for stream.Next() {
					sum.AddChunk(stream.Current())
				}
				switch err := stream.Err(); {
				case err != nil && len(sum.Choices) > 0: // it had begun when the server died
					errs <- nil
				case err != nil:
					errs <- err
				case sum.Choices[0].Message.Content != answer:
					errs <- fmt.Errorf("streamed %q; whole %q", sum.Choices[0].Message.Content, answer)
				default:
					errs <- nil
				}
			}
		}()
	}
	for i := range askers * each {
		if i == askers {
			dies.kill()
		}
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	config = strings.Replace(config, "name: kvasir-mini", "name: small\n  upstream: kvasir-mini", 1)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	reload()
	checkError(t, &client, ask, 404, "model")
	ask.Model = "small"
	if whole, err = client.Chat.Completions.New(t.Context(), ask); err != nil || whole.Choices[0].Message.Content != answer {
		t.Errorf("after the reload: %v, %+v", err, whole)
	}
}
