package text_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/hub/builtin"
)

// A request is prepared once, which checks all of it, and may then be answered any number of times.
func Example() {
	ctx := context.Background()
	ckpt, err := builtin.Open()
	if err != nil {
		log.Fatal(err)
	}
	m, err := text.Open(ckpt, text.Options{Name: builtin.Name, Context: 256, KVBytes: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	params := engine.Params{Sampling: m.Defaults, MaxTokens: 10, Logprobs: -1, PromptLogprobs: -1}
	params.Sampling.Temperature = 0
	prompt, err := m.Prepare(ctx, text.Request{
		Chat:   &chat.Input{AddGenerationPrompt: true, Messages: []chat.Message{{Role: "user", Content: "What is a KV cache?"}}},
		Params: params,
	})
	if err != nil { // a *fault.Error names the field that cannot be used
		log.Fatal(err)
	}
	answer, err := m.Generate(ctx, prompt)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Close()
	for {
		piece, err := answer.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece.Text)
	}
	// Output: The KV cache stores the keys and values of all
}
