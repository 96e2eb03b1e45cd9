package main

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/events"
)

// eventFlags say where an engine tells what its prefix cache holds; docs/format/kv-events.md.
type eventFlags struct {
	Events string `name:"kv-events" help:"Tell on this ZeroMQ endpoint, such as tcp://*:5557, what the prefix cache holds, in vLLM's format." placeholder:"ENDPOINT"`
	Replay string `name:"kv-events-replay" help:"Send again on this endpoint, such as tcp://*:5558, what subscribers missed." placeholder:"ENDPOINT"`
	Topic  string `name:"kv-events-topic" help:"What every message begins with." placeholder:"TEXT"`
	HWM    int    `name:"kv-events-hwm" help:"Batches that may wait for a subscriber; it misses others." default:"100000"`
	Buffer int    `name:"kv-events-buffer" help:"Batches that can be sent again." default:"10000"`
	Hashes string `name:"kv-events-hashes" help:"How blocks are named: int (the last 8 bytes of a name) or bytes (all 32)." enum:"int,bytes" default:"int"`
}

// check refuses flags that would count for nothing.
func (f *eventFlags) check() error {
	if f.Events == "" && (f.Replay != "" || f.Topic != "") {
		return usageError{"--kv-events-replay and --kv-events-topic need --kv-events"}
	}
	if f.HWM < 1 || f.Buffer < 1 {
		return usageError{fmt.Sprintf("--kv-events-hwm is %d and --kv-events-buffer %d; want at least 1", f.HWM, f.Buffer)}
	}
	for _, s := range []string{f.Events, f.Replay} {
		if _, err := events.ParseEndpoint(s); s != "" && err != nil {
			return usageError{err.Error()}
		}
	}
	return nil
}

// publication is a Publisher that is opened once the model is there.
type publication struct{ *events.Publisher }

func (p *publication) tell(e []events.Event) {
	if p.Publisher != nil {
		p.Publish(e)
	}
}

// open begins to publish for the i-th model, whose ports are i higher.
func (f *eventFlags) open(p *publication, i int, m *text.Model, log *slog.Logger) (err error) {
	at, err := shifted(f.Events, i)
	if err != nil {
		return err
	}
	replay, err := shifted(f.Replay, i)
	if err != nil {
		return err
	}
	p.Publisher, err = events.Open(events.Config{
		Endpoint: at, Replay: replay, Topic: f.Topic, HWM: f.HWM, Buffer: f.Buffer, Logger: log,
		Encoding: events.Encoding{BlockTokens: m.BlockTokens, Groups: m.KVGroups, Bytes: f.Hashes == "bytes"},
	})
	if err == nil {
		log.Info("telling of KV blocks", "model", m.Name, "endpoint", at, "replay", replay)
	}
	return err
}

// shifted returns an endpoint whose port, if it has one, is by higher.
func shifted(endpoint string, by int) (string, error) {
	colon := strings.LastIndexByte(endpoint, ':')
	if endpoint == "" || by == 0 || strings.HasSuffix(endpoint, "*") {
		return endpoint, nil
	}
	port, err := strconv.Atoi(endpoint[colon+1:])
	if err != nil {
		return "", fmt.Errorf("endpoint %q: only a TCP endpoint with a number as its port can be for several models", endpoint)
	}
	return endpoint[:colon+1] + strconv.Itoa(port+by), nil
}
