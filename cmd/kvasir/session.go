package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// session is a conversation with one model.
type session struct {
	model   *text.Model
	cmd     *runCmd
	system  string
	history []chat.Message
	capped  bool // an answer gets what tokens the context has left, if they are fewer than max_tokens
}

// answer is what a prompt led to, as --json prints it.
type answer struct {
	Text    string  `json:"text"`
	IDs     []int32 `json:"ids"`
	Finish  string  `json:"finish_reason"`
	Usage   usage   `json:"usage"`
	Timings timings `json:"timings"`
}

type usage struct {
	Prompt    int `json:"prompt_tokens"`
	Cached    int `json:"cached_tokens"`
	Generated int `json:"completion_tokens"`
	Total     int `json:"total_tokens"`
}

type timings struct {
	TTFT            float64 `json:"ttft_ms"`           // from the request to the first token
	TokensPerSecond float64 `json:"tokens_per_second"` // of the tokens after the first
	PromptPerSecond float64 `json:"prompt_tokens_per_second"`
	Total           float64 `json:"total_ms"`
}

func (a answer) printTimings(w io.Writer) {
	fmt.Fprintf(w, "prompt: %d tokens (%d cached), first token after %.1f ms; answer: %d tokens, %.1f tokens/s\n",
		a.Usage.Prompt, a.Usage.Cached, a.Timings.TTFT, a.Usage.Generated, a.Timings.TokensPerSecond)
}

// templated reports whether prompts are turns of a conversation, rather than text to continue.
func (s *session) templated() bool { return s.model.Template != nil && !s.cmd.Raw }

// tell sets what the model is told before the conversation.
func (s *session) tell(system string) error {
	if system != "" && !s.templated() {
		return usageError{"a system message needs a chat template, and there is none (or --raw leaves it out)"}
	}
	s.system = system
	return nil
}

// ask sends a prompt, streams the answer to w and adds both to the history. An answer that ends early is returned, and
// stays in the history, as far as it came: the model knows what the user has seen.
func (s *session) ask(ctx context.Context, prompt string, w io.Writer) (answer, error) {
	request, err := s.request(prompt)
	if err != nil {
		return answer{}, err
	}
	begin, first := time.Now(), time.Time{}
	p, err := s.model.Prepare(ctx, request)
	if long := new(text.LengthError); s.capped && errors.As(err, &long) && long.Prompt < long.Context {
		request.MaxTokens = 0 // what is left of the context
		p, err = s.model.Prepare(ctx, request)
	}
	if err != nil {
		return answer{}, err
	}
	g, err := s.model.Generate(ctx, p)
	if err != nil {
		return answer{}, err
	}
	defer g.Close()
	a := answer{IDs: []int32{}}
	for {
		var d text.Delta
		if d, err = g.Next(ctx); err != nil {
			break
		}
		if first.IsZero() {
			first = time.Now()
		}
		a.Text += d.Text
		a.IDs = append(a.IDs, d.IDs...)
		a.Finish = d.Finish
		a.Usage = usage{d.Usage.Prompt, d.Usage.Cached, d.Usage.Generated, d.Usage.Prompt + d.Usage.Generated}
		if _, err = io.WriteString(w, d.Text); err != nil {
			break
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	a.Timings = measure(begin, first, time.Now(), a.Usage)
	if err == nil || a.Text != "" {
		s.history = append(s.history, chat.Message{Role: "user", Content: prompt}, chat.Message{Role: "assistant", Content: a.Text})
	}
	return a, err
}

func measure(begin, first, end time.Time, u usage) timings {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	t := timings{TTFT: ms(first.Sub(begin)), Total: ms(end.Sub(begin))}
	if s := end.Sub(first).Seconds(); s > 0 && u.Generated > 1 {
		t.TokensPerSecond = float64(u.Generated-1) / s
	}
	if s := first.Sub(begin).Seconds(); s > 0 {
		t.PromptPerSecond = float64(u.Prompt-u.Cached) / s
	}
	return t
}

// request puts the conversation so far and a prompt together.
func (s *session) request(prompt string) (text.Request, error) {
	p, err := s.cmd.params(s.model)
	if err != nil {
		return text.Request{}, err
	}
	if err := checkText("the prompt", prompt); err != nil {
		return text.Request{}, err
	}
	_, adapter := s.cmd.answerer()
	r := text.Request{Stop: s.cmd.Stop, Params: engine.Params{
		Sampling: p, MaxTokens: s.cmd.MaxTokens, Adapter: adapter, Logprobs: -1, PromptLogprobs: -1,
	}}
	if !s.templated() {
		if s.cmd.Think {
			return r, usageError{"thinking needs a chat template, and there is none (or --raw leaves it out)"}
		}
		r.Prompt = prompt
		return r, nil
	}
	in := &chat.Input{AddGenerationPrompt: true, Now: time.Now}
	if s.cmd.Think {
		in.Extra = chat.NewDict()
		in.Extra.Set("enable_thinking", true)
	}
	if s.system != "" {
		in.Messages = append(in.Messages, chat.Message{Role: "system", Content: s.system})
	}
	in.Messages = append(append(in.Messages, s.history...), chat.Message{Role: "user", Content: prompt})
	r.Chat = in
	return r, nil
}
