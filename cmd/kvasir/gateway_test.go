package main

import (
	"bufio"
	"fmt"
	"io"
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
// and a function that tells it to read the file again and waits until it has.
func startGateway(t *testing.T, program, config string) (address, file string, reload func()) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "gateway", "--config", file)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("gateway ended with %v", err)
		}
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
			break
		}
	}
	if address == "" {
		t.Fatal("gateway ended without an address")
	}
	reloads := make(chan string, 16)
	go func() {
		for lines.Scan() {
			if strings.Contains(lines.Text(), "configuration") {
				reloads <- lines.Text()
			}
		}
		io.Copy(io.Discard, log)
	}()
	return address, file, func() {
		cmd.Process.Signal(syscall.SIGHUP)
		if line := <-reloads; !strings.Contains(line, "read the configuration again") {
			t.Error(line)
		}
	}
}

// TestGatewayBeforeTwoServers asks the built program's gateway, with OpenAI's own client, for what two of its servers
// answer: in whole and as a stream, while one of them is killed, and under another name after a reload.
func TestGatewayBeforeTwoServers(t *testing.T) {
	if testing.Short() {
		t.Skip("building the program takes a while; left out by -short")
	}
	program := buildKvasir(t)
	stays := startServer(t, program)
	dies := exec.Command(program, "serve", "--port", "0")
	log, err := dies.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dies.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill := func() {
		if !killed {
			killed = true
			dies.Process.Kill()
			dies.Wait()
		}
	}
	defer kill()
	gone := ""
	for lines := bufio.NewScanner(log); gone == "" && lines.Scan(); {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			gone = m[1]
		}
	}
	config := fmt.Sprintf("listen: 127.0.0.1:0\nmodels:\n- name: kvasir-mini\n  endpoints: [%s, %s]\n", stays, gone)
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
			kill()
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
