package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/internal/freeport"
)

// gatewayProcess is one of several gateways that a client may ask.
type gatewayProcess struct {
	program, file, port string
	*process
	begun, broken atomic.Int64 // streams through it: that have begun and not ended, and that broke off
}

func (g *gatewayProcess) start(t *testing.T) {
	t.Helper()
	g.process = startProcess(t, exec.Command(g.program, "gateway", "--config", g.file))
}

// errTorn is the end of a stream without its last event.
var errTorn = errors.New("the stream broke off")

// ask sends a request, and returns the answer's text if it came whole.
func (g *gatewayProcess) ask(stream bool) (string, error) {
	body := fmt.Sprintf(`{"model":"kvasir-mini","stream":%t,"max_tokens":64,"temperature":0,"ignore_eos":true,"messages":[{"role":"user","content":"Hello"}]}`, stream)
	res, err := http.Post("http://127.0.0.1:"+g.port+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, err := io.ReadAll(res.Body)
		return "", errors.Join(fmt.Errorf("status %d: %s", res.StatusCode, said), err)
	}
	type part struct{ Content string }
	var answer struct {
		Choices []struct{ Message, Delta part }
	}
	if !stream {
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
			return "", err
		}
		return answer.Choices[0].Message.Content, nil
	}
	text := ""
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if data == "[DONE]" {
			return text, nil
		}
		if answer.Choices = nil; !ok || json.Unmarshal([]byte(data), &answer) != nil || len(answer.Choices) == 0 {
			continue // an empty line, the usage, or an event that is torn in two
		}
		before := text
		if text += answer.Choices[0].Delta.Content; before == "" && text != "" {
			g.begun.Add(1)
			defer g.begun.Add(-1)
		}
	}
	if text != "" {
		g.broken.Add(1)
	}
	return "", errTorn
}

// TestSecondGatewayTakesOver kills each of two gateways in turn, in the middle of streams, while clients ask either of
// them, and the other one where that fails. No request is lost, and no other answer than the whole one is taken for it.
func TestSecondGatewayTakesOver(t *testing.T) {
	program := buildKvasir(t)
	engine := startServer(t, program).address
	var both [2]*gatewayProcess
	for i := range both {
		g := &gatewayProcess{program: program, port: freeport.Port(t), file: filepath.Join(t.TempDir(), "fleet.yaml")}
		config := fmt.Sprintf("listen: 127.0.0.1:%s\nmodels: [{name: kvasir-mini, endpoints: [%q]}]\n", g.port, engine)
		if err := os.WriteFile(g.file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		g.start(t)
		both[i] = g
	}
	whole, err := both[0].ask(false)
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	var answers atomic.Int64
	stop := make(chan struct{})
	client := func(n int) {
		for at := n; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			for deadline := time.Now().Add(2 * time.Minute); ; at++ {
				text, err := both[at%2].ask(n%4 != 0)
				if err == nil && text == whole {
					answers.Add(1)
					break
				}
				if err == nil || time.Now().After(deadline) {
					t.Errorf("%q, %v; want %q", text, err, whole)
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			if n%3 == 0 {
				at++
			}
		}
	}
	for n := range 4 {
		clients.Go(func() { client(n) })
	}
	for i := range 2 {
		g := both[i]
		for g.broken.Load() == 0 && !t.Failed() {
			soon(t, "a stream through the gateway", func() bool { return g.begun.Load() > 0 })
			g.kill()
			before := answers.Load()
			soon(t, "answers through the other gateway", func() bool { return answers.Load() > before+4 || t.Failed() })
			g.start(t)
		}
	}
	close(stop)
	clients.Wait()
	t.Logf("%d answers; %d and %d streams broke off", answers.Load(), both[0].broken.Load(), both[1].broken.Load())
}
