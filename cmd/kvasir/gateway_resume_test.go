package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/freeport"
)

// TestGatewayResumesBySeed kills the server of a stream that draws at random, with SIGKILL, in the middle of the
// answer. The client gets the answer that it gets without that, in one stream.
func TestGatewayResumesBySeed(t *testing.T) {
	program := buildKvasir(t)
	config := "listen: 127.0.0.1:0\nhealth: {interval: 50ms}\nmodels:\n- name: kvasir-mini\n  resume: true\n  endpoints:\n"
	var engines []*engineProcess
	for range 2 {
		e := &engineProcess{program: program, port: freeport.Port(t), events: freeport.Port(t)}
		e.start(t)
		engines = append(engines, e)
		config += fmt.Sprintf("  - %q\n", e.address)
	}
	door, _, _ := startGateway(t, program, config)
	ask := func(body string, after int, then func()) (text string) {
		t.Helper()
		res, err := http.Post(door+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		ids, events := map[string]bool{}, 0
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok || data == "[DONE]" {
				continue
			}
			var e struct {
				ID      string
				Choices []struct{ Delta struct{ Content string } }
				Error   any
			}
			if err := json.Unmarshal([]byte(data), &e); err != nil || e.Error != nil || len(e.Choices) == 0 {
				t.Fatalf("%s: %v", data, err)
			}
			ids[e.ID] = true
			text += e.Choices[0].Delta.Content
			if events++; events == after {
				then()
			}
		}
		if len(ids) != 1 {
			t.Errorf("the stream has the ids %v", ids)
		}
		return text
	}
	for _, seed := range []int{7, 8} {
		body := fmt.Sprintf(`{"model":"kvasir-mini","stream":true,"temperature":1,"seed":%d,"frequency_penalty":0.5,"max_tokens":120,"ignore_eos":true,`+
			`"messages":[{"role":"user","content":"Tell me a story of a fox"}]}`, seed)
		want := ask(body, 0, nil)
		var killed *engineProcess
		got := ask(body, 10, func() {
			busy := busyAt(t, door)
			for _, e := range engines {
				if e.address == busy {
					killed = e
					e.kill()
				}
			}
		})
		if killed == nil {
			t.Fatal("no server was busy")
		}
		if got != want {
			t.Errorf("seed %d: the client got %q; want %q", seed, got, want)
		}
		killed.start(t)
	}
}

// busyAt returns the URL of the endpoint that a gateway sent a request to.
func busyAt(t *testing.T, door string) string {
	t.Helper()
	res, err := http.Get(door + "/gateway/fleet")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var fleet struct {
		Models []struct {
			Endpoints []struct {
				URL      string
				InFlight int `json:"in_flight"`
			}
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&fleet); err != nil {
		t.Fatal(err)
	}
	for _, e := range fleet.Models[0].Endpoints {
		if e.InFlight > 0 {
			return e.URL
		}
	}
	return ""
}
