package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/sampling"
)

// sampleFlags are how an answer is drawn. What is not given is as the model recommends.
type sampleFlags struct {
	Temperature *float32 `help:"0 always takes the likeliest token." placeholder:"T"`
	TopP        *float32 `name:"top-p" help:"Draw from the likeliest tokens that hold this much probability." placeholder:"P"`
	TopK        *int     `name:"top-k" help:"Draw from this many of the likeliest tokens." placeholder:"K"`
	MinP        *float32 `name:"min-p" help:"Draw from tokens at least this likely, relative to the likeliest." placeholder:"P"`
	Repetition  *float32 `name:"repetition-penalty" help:"Above 1 discourages what was said." placeholder:"R"`
	Seed        *uint64  `help:"The same seed gives the same answer." placeholder:"N"`
	MaxTokens   int      `help:"Most tokens of the answer; 0 is the rest of the context." placeholder:"N"`
	Stop        []string `help:"End the answer before this text. May be repeated." placeholder:"TEXT" sep:"none"`
}

// params fills in what the model recommends.
func (f sampleFlags) params(m *text.Model) (sampling.Params, error) {
	p := m.Defaults
	override(&p.Temperature, f.Temperature)
	override(&p.TopP, f.TopP)
	override(&p.TopK, f.TopK)
	override(&p.MinP, f.MinP)
	override(&p.RepetitionPenalty, f.Repetition)
	p.Seed = rand.Uint64()
	override(&p.Seed, f.Seed)
	return p, p.Check(m.Spec.Vocab)
}

func override[T any](dst, src *T) {
	if src != nil {
		*dst = *src
	}
}

type runCmd struct {
	Args []string `arg:"" optional:"" name:"model> [<prompt" help:"A model (built-in name, hub name, file or folder) and a prompt. Either may be left out."`

	Model   string `short:"m" help:"The model, if the first argument is not to be taken for one." placeholder:"NAME"`
	System  string `help:"What the model is told before the conversation." placeholder:"TEXT"`
	Raw     bool   `help:"Continue the prompt as it is, without the chat template."`
	Think   bool   `help:"Ask the model to think first, where its template knows how."`
	Verbose bool   `short:"v" help:"Print timings after each answer."`
	JSON    bool   `name:"json" help:"Print one JSON object instead of text."`
	sampleFlags
	engineFlags
}

func (runCmd) Help() string {
	return `Without a prompt and on a terminal it is a chat: /help lists its commands. A prompt is also read from standard input.

Examples:
  kvasir run "What is a KV cache?"
  kvasir run Qwen/Qwen3-0.6B-GGUF:Q8_0 "Write a haiku about caches." --verbose
  kvasir run ./model.gguf
  echo "What is a KV cache?" | kvasir run --json`
}

// split tells the model from the prompt.
func (c *runCmd) split() (model, prompt string, err error) {
	args := c.Args
	model = c.Model
	if model == "" && len(args) > 0 && (len(args) > 1 || isModel(args[0])) {
		model, args = args[0], args[1:]
	}
	if len(args) > 1 {
		return "", "", usageError{fmt.Sprintf("%d prompts; want one (put it in quotes)", len(args))}
	}
	if len(args) == 1 {
		prompt = args[0]
	}
	return model, prompt, nil
}

func (c *runCmd) Run(ctx context.Context) error {
	name, prompt, err := c.split()
	if err != nil {
		return err
	}
	interactive := prompt == "" && term.IsTerminal(int(os.Stdin.Fd())) && !c.JSON
	if prompt == "" && !interactive {
		data, err := io.ReadAll(os.Stdin)
		if err != nil {
			return fmt.Errorf("reading the prompt from standard input: %w", err)
		}
		if prompt = strings.TrimSpace(string(data)); prompt == "" {
			return usageError{"no prompt: give one as an argument or on standard input"}
		}
	}
	found, err := openModel(ctx, name)
	if err != nil {
		return err
	}
	o := c.options(found.name)
	o.MaxSeqs = 1
	m, err := text.Open(found.ckpt, o)
	if err != nil {
		return err
	}
	defer m.Close()
	s := session{model: m, cmd: c, system: c.System}
	if interactive {
		return s.chat(ctx)
	}
	a, err := s.ask(ctx, prompt, os.Stdout)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(a)
	}
	if !strings.HasSuffix(a.Text, "\n") {
		fmt.Println()
	}
	if c.Verbose {
		a.printTimings(os.Stderr)
	}
	return nil
}

// session is a conversation with one model.
type session struct {
	model   *text.Model
	cmd     *runCmd
	system  string
	history []chat.Message
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

// ask sends a prompt, streams the answer to w (not with --json) and adds both to the history. An answer that ctx ends
// early is returned as far as it came.
func (s *session) ask(ctx context.Context, prompt string, w io.Writer) (answer, error) {
	request, err := s.request(prompt)
	if err != nil {
		return answer{}, err
	}
	begin := time.Now()
	g, err := s.model.Generate(ctx, request)
	if err != nil {
		return answer{}, err
	}
	defer g.Close()
	out := bufio.NewWriter(w)
	a, first := answer{IDs: []int32{}}, time.Time{}
	for {
		d, err := g.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return a, err
		}
		if first.IsZero() {
			first = time.Now()
		}
		a.Text += d.Text
		a.IDs = append(a.IDs, d.IDs...)
		a.Finish = d.Finish
		a.Usage = usage{d.Usage.Prompt, d.Usage.Cached, d.Usage.Generated, d.Usage.Prompt + d.Usage.Generated}
		if !s.cmd.JSON {
			out.WriteString(d.Text)
			if err := out.Flush(); err != nil {
				return a, err
			}
		}
	}
	a.Timings = measure(begin, first, time.Now(), a.Usage)
	s.history = append(s.history, chat.Message{Role: "user", Content: prompt}, chat.Message{Role: "assistant", Content: a.Text})
	return a, nil
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
	r := text.Request{Params: p, MaxTokens: s.cmd.MaxTokens, Stop: s.cmd.Stop, Logprobs: -1, PromptLogprobs: -1}
	if s.cmd.Raw || s.model.Template == nil {
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
