package main

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/freeport"
)

// engineProcess is a server that tells on fixed ports what it holds.
type engineProcess struct {
	program, port, events string
	*process
}

func (e *engineProcess) start(t *testing.T) {
	t.Helper()
	e.process = startProcess(t, exec.Command(e.program, "serve", "--port", e.port, "--kv-events", "@tcp://127.0.0.1:"+e.events))
}

// TestGatewayFollowsEvents asks servers behind a gateway's back, so that it knows only by their KV events what they
// hold, also of one that is killed and started again.
func TestGatewayFollowsEvents(t *testing.T) {
	program := buildKvasir(t)
	config := "listen: 127.0.0.1:0\nhealth: {interval: 50ms}\nmodels:\n- name: kvasir-mini\n  policy: prefix\n  endpoints:\n"
	var engines []*engineProcess
	for range 2 {
		e := &engineProcess{program: program, port: freeport.Port(t), events: freeport.Port(t)}
		e.start(t)
		engines = append(engines, e)
		config += fmt.Sprintf("  - {url: %q, events: %q}\n", e.address, "tcp://127.0.0.1:"+e.events)
	}
	ask := func(url, topic string) (why string) {
		text := strings.Repeat("Tell me more of "+topic+", and of nothing else. ", 60)
		body := fmt.Sprintf(`{"model":"kvasir-mini","max_tokens":1,"messages":[{"role":"user","content":%q}]}`, text)
		r, _ := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
		r.Header.Set("X-Kvasir-Explain", "1")
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		said, _ := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", res.StatusCode, said)
		}
		return res.Header.Get("X-Kvasir-Explain")
	}
	ask(engines[0].address, "salt") // which only a snapshot tells of
	door, _, _ := startGateway(t, program, config)
	known := regexp.MustCompile(`"kv_blocks":(\d+)`)
	// wait waits until the gateway knows of more blocks of an engine.
	wait := func(who int, more string) {
		t.Helper()
		soon(t, "events", func() bool {
			res, err := http.Get(door + "/gateway/fleet")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			said, _ := io.ReadAll(res.Body)
			return known.FindAllStringSubmatch(string(said), -1)[who][1] != more
		})
	}
	depth := regexp.MustCompile(`(\d+) of \d+ blocks`)
	held := func(topic string, who int) {
		t.Helper()
		why := ask(door, topic)
		all := depth.FindAllStringSubmatch(why, -1)
		if len(all) != 2 || all[who][1] == "0" || all[1-who][1] != "0" || !strings.Contains(why, engines[who].address+"*") {
			t.Errorf("%s is held by engine %d alone: %s", topic, who, why)
		}
	}
	wait(0, "0")
	held("salt", 0)
	ask(engines[1].address, "honey")
	wait(1, "0")
	held("honey", 1)
	engines[0].kill()
	ask(door, "trade") // finds that it is gone
	engines[0].start(t)
	ask(engines[0].address, "ships")
	wait(0, "0")
	held("ships", 0)
	if all := depth.FindAllStringSubmatch(ask(door, "salt"), -1); len(all) != 2 || all[0][1] != "0" {
		t.Errorf("the engine that was restarted is thought to hold what it held before: %q", all)
	}
}
