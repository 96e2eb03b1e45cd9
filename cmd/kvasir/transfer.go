package main

import (
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/server"
)

// transferFlags say which servers KV blocks go to and come from; docs/gateway.md, "Prefill and decode apart".
type transferFlags struct {
	GiveKV      bool     `name:"kv-give" help:"Let other servers fetch the KV blocks of prompts whose requests ask for it (kv_transfer_params). Not with --tls-cert."`
	TakeKVFrom  []string `name:"kv-take-from" help:"Fetch KV blocks from a server where requests say that it has computed the prompt: a host, host:port, or a network such as 10.0.0.0/16. May be repeated." placeholder:"SERVER"`
	TakeKVBytes size     `name:"kv-take-bytes" help:"Memory for such blocks until they are in the KV cache, for each model." default:"1G" placeholder:"SIZE"`
}

// apply sets what a server does with KV blocks of others.
func (f *transferFlags) apply(cfg *server.Config, tlsCert string, noPrefix bool) error {
	switch {
	case f.GiveKV && tlsCert != "":
		return usageError{"--kv-give is over plain HTTP, which a server with --tls-cert does not speak"}
	case noPrefix && (f.GiveKV || len(f.TakeKVFrom) > 0):
		return usageError{"--kv-give and --kv-take-from are for what the prefix cache has, and --no-prefix-cache leaves it out"}
	case len(f.TakeKVFrom) > 0 && f.TakeKVBytes == 0:
		return usageError{"--kv-take-from needs --kv-take-bytes"}
	}
	cfg.GiveKV, cfg.TakeKVFrom = f.GiveKV, f.TakeKVFrom
	return nil
}

// room sets the memory for blocks of others.
func (f *transferFlags) room(o *text.Options) {
	if len(f.TakeKVFrom) > 0 {
		o.TakeKVBytes = int64(f.TakeKVBytes)
	}
}
