package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

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
	if f.MaxTokens < 0 {
		return p, usageError{fmt.Sprintf("max_tokens is %d; want at least 0", f.MaxTokens)}
	}
	if err := p.Check(m.Spec.Vocab); err != nil {
		return p, usageError{err.Error()}
	}
	return p, nil
}

func override[T any](dst, src *T) {
	if src != nil {
		*dst = *src
	}
}

type runCmd struct {
	First *string  `arg:"" optional:"" name:"model" help:"Built-in name, hub name, file or folder; may be left out."`
	Rest  []string `arg:"" optional:"" name:"prompt" help:"What to answer."`

	Model   string `short:"m" help:"The model; then all arguments are the prompt." placeholder:"NAME"`
	System  string `help:"What the model is told before the conversation." placeholder:"TEXT"`
	Raw     bool   `help:"Continue the prompt as it is, without the chat template."`
	Think   bool   `help:"Ask the model to think first, where its template knows how."`
	Verbose bool   `short:"v" help:"Print timings after each answer."`
	JSON    bool   `name:"json" help:"Print one JSON object instead of text."`
	sampleFlags
	Adapter string `help:"A LoRA adapter that answers: a PEFT folder, a GGUF file or a hub name." placeholder:"[NAME=]PATH"`
	draftFlags
	engineFlags
}

func (runCmd) Help() string {
	return `Without a prompt it is a chat if the terminal is free for it (/help lists its commands), or else the prompt is read from standard input.
Without a model the built-in one answers.

Examples:
  kvasir run "What is a KV cache?"
  kvasir run
  kvasir run Qwen/Qwen3-0.6B-GGUF:Q8_0 "Write a haiku about caches." --verbose
  kvasir run ./model.gguf --system "Answer in one sentence." < question.txt
  echo "What is a KV cache?" | kvasir run --json`
}

// split tells the model from the prompt. given is false if no argument is the prompt; an argument may be an empty
// prompt.
func (c *runCmd) split() (model, prompt string, given bool) {
	prompt = strings.Join(c.Rest, " ")
	switch {
	case c.First == nil:
		return c.Model, "", false
	case c.Model != "":
		return c.Model, strings.TrimSpace(*c.First + " " + prompt), true
	case prompt == "" && (*c.First == "" || !isModel(*c.First)):
		return "", *c.First, true
	}
	return *c.First, prompt, len(c.Rest) > 0
}

func (c *runCmd) Run(ctx context.Context) error {
	name, prompt, given := c.split()
	given = given && (prompt != "" || c.Raw) // a template has no use for an empty prompt
	terminal := term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
	interactive := !given && terminal && !c.JSON
	if !given && !interactive {
		data, err := readInput(ctx)
		if err != nil {
			return err
		}
		if prompt = string(data); !c.Raw {
			prompt = strings.TrimSpace(prompt)
		}
		if prompt == "" {
			return usageError{"no prompt: give one as an argument or on standard input"}
		}
	}
	found, err := openModel(ctx, name)
	if err != nil {
		if c.Model == "" && len(c.Rest) > 0 && !strings.Contains(*c.First, "/") {
			err = fmt.Errorf("%w\nif all of it is the prompt, put it in quotes: kvasir run %q", err, *c.First+" "+prompt)
		}
		return err
	}
	o := c.options(found.name)
	o.MaxSeqs = 1
	if err := c.draftFlags.openDraft(ctx, &o); err != nil {
		return err
	}
	if arg, _ := c.answerer(); arg != "" {
		one := adapterFlags{Adapter: []string{arg}, MaxLoRAs: 1}
		if err := one.apply(ctx, &o); err != nil {
			return err
		}
	}
	m, err := load(ctx, found, o)
	if err != nil {
		return err
	}
	s := session{model: m, cmd: c, capped: interactive}
	defer func() { s.model.Close() }()
	if err := s.tell(c.System); err != nil {
		return err
	}
	if interactive {
		return s.chat(ctx)
	}
	return s.once(ctx, prompt)
}

// once answers one prompt.
func (s *session) once(ctx context.Context, prompt string) error {
	if s.cmd.JSON {
		a, err := s.ask(ctx, prompt, io.Discard)
		if err != nil {
			return err
		}
		return printJSON(a)
	}
	w := newWrapper()
	a, err := s.ask(ctx, prompt, w)
	w.flush()
	if a.Text != "" && !strings.HasSuffix(a.Text, "\n") {
		fmt.Println()
	}
	if err == nil && s.cmd.Verbose {
		a.printTimings(os.Stderr)
	}
	return err
}

// readInput reads all of standard input.
func readInput(ctx context.Context) ([]byte, error) {
	data, err := await(ctx, func() ([]byte, error) { return io.ReadAll(os.Stdin) })
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return data, nil
}

// checkText refuses what is not text, such as a binary file that was meant to be something else.
func checkText(name, s string) error {
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return fmt.Errorf("%s is not UTF-8: byte %d is 0x%02x", name, i, s[i])
		}
	}
	return nil
}
