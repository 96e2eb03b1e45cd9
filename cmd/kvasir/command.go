package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"

	"github.com/kvasir-llm/kvasir/chat"
)

const chatHelp = `  /help                   this list
  /system TEXT            what the model is told before the conversation;
                          without TEXT, nothing
  /set NAME VALUE         temperature, top_p, top_k, min_p, repetition_penalty,
                          seed, max_tokens, think, verbose;
                          without VALUE, as the model recommends
  /show                   the model, the settings and the conversation's length
  /clear                  forget the conversation
  /regenerate             answer the last prompt again
  /edit TEXT              put TEXT in place of the last prompt, and answer it;
                          without TEXT, edit the prompt
  /model NAME             go on with another model
  /save FILE, /load FILE  the conversation as JSON
  /bye                    leave (also Ctrl-D)
Begin and end a prompt of several lines with """. Ctrl-C stops an answer.`

// command runs a line that begins with "/".
func (s *session) command(ctx context.Context, t *terminal, line string) (leave bool, err error) {
	name, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch name {
	case "/help", "/?":
		fmt.Println(chatHelp)
	case "/bye", "/exit", "/quit":
		return true, nil
	case "/system":
		return false, s.tell(rest)
	case "/clear":
		s.history = nil
	case "/regenerate", "/retry":
		return false, s.again(ctx, "")
	case "/edit":
		return false, s.edit(ctx, t, rest)
	case "/model":
		return false, s.use(ctx, rest)
	case "/set":
		if rest == "" {
			return false, s.show()
		}
		key, value, _ := strings.Cut(rest, " ")
		return false, s.set(key, strings.TrimSpace(value))
	case "/show":
		return false, s.show()
	case "/save":
		return false, s.save(rest)
	case "/load":
		return false, s.load(rest)
	default:
		return false, fmt.Errorf("no command %s; /help lists them", name)
	}
	return false, nil
}

// last returns the last prompt of the conversation, "" if there is none.
func (s *session) last() string {
	if n := len(s.history); n >= 2 && s.history[n-2].Role == "user" {
		return s.history[n-2].Content
	}
	return ""
}

// again puts a prompt in place of the last one, which stays if prompt is "", and answers it.
func (s *session) again(ctx context.Context, prompt string) error {
	if s.last() == "" {
		return errors.New("there is no prompt yet")
	}
	if prompt == "" {
		prompt = s.last()
	}
	s.history = s.history[:len(s.history)-2]
	s.turn(ctx, prompt)
	return nil
}

// edit lets the user change the last prompt, if it is not given, and answers it.
func (s *session) edit(ctx context.Context, t *terminal, prompt string) error {
	if prompt == "" && s.last() != "" {
		var err error
		if prompt, err = t.edit(s.last()); err != nil || prompt == "" {
			return nil // the user thought better of it
		}
	}
	return s.again(ctx, prompt)
}

// use goes on with another model. The conversation stays.
func (s *session) use(ctx context.Context, name string) error {
	if name == "" {
		return errors.New("/model wants the name of a model; `kvasir list` shows those that need no download")
	}
	found, err := openModel(ctx, name)
	if err != nil {
		return err
	}
	o := s.cmd.options(found.name)
	o.MaxSeqs = 1
	s.cmd.draftFlags.apply(&o) // a --draft-model goes with the first model only
	m, err := load(ctx, found, o)
	if err != nil {
		return err
	}
	if m.Template == nil && s.system != "" {
		return errors.Join(fmt.Errorf("%s has no chat template for the system message; /system removes it", name), m.Close())
	}
	old := s.model
	s.model = m
	fmt.Printf("%s, %d tokens of context.\n", m.Name, m.Context)
	return old.Close()
}

// settings are what /set changes, by name. The value "" is the model's own choice.
func (s *session) settings() map[string]func(string) error {
	c := s.cmd
	return map[string]func(string) error{
		"temperature":        choice(&c.Temperature, parseFloat),
		"top_p":              choice(&c.TopP, parseFloat),
		"top_k":              choice(&c.TopK, strconv.Atoi),
		"min_p":              choice(&c.MinP, parseFloat),
		"repetition_penalty": choice(&c.Repetition, parseFloat),
		"seed":               choice(&c.Seed, func(v string) (uint64, error) { return strconv.ParseUint(v, 10, 64) }),
		"max_tokens":         plain(&c.MaxTokens, strconv.Atoi),
		"think":              plain(&c.Think, strconv.ParseBool),
		"verbose":            plain(&c.Verbose, strconv.ParseBool),
	}
}

func plain[T any](dst *T, parse func(string) (T, error)) func(string) error {
	return func(v string) (err error) {
		var value T
		if v != "" {
			value, err = parse(v)
		}
		if err == nil {
			*dst = value
		}
		return err
	}
}

func choice[T any](dst **T, parse func(string) (T, error)) func(string) error {
	return plain(dst, func(v string) (*T, error) {
		value, err := parse(v)
		return &value, err
	})
}

func parseFloat(v string) (float32, error) {
	f, err := strconv.ParseFloat(v, 32)
	return float32(f), err
}

// set changes a setting, and puts it back if the result is not valid.
func (s *session) set(key, value string) error {
	all := s.settings()
	if all[key] == nil {
		var names []string
		for name := range all {
			names = append(names, name)
		}
		sort.Strings(names)
		return fmt.Errorf("no setting %q; there are %s", key, strings.Join(names, ", "))
	}
	before := *s.cmd
	err := all[key](value)
	if err == nil {
		_, err = s.cmd.params(s.model)
	}
	if most := s.model.Context - 1; err == nil && s.cmd.MaxTokens > most {
		fmt.Printf("max_tokens is %d: the context has %d tokens\n", most, s.model.Context)
		s.cmd.MaxTokens = most
	}
	if errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange) {
		err = fmt.Errorf("%q is no value of %s; want %s", value, key, valueOf(key))
	}
	if err != nil {
		*s.cmd = before
	}
	return err
}

// valueOf says what a setting takes.
func valueOf(key string) string {
	switch key {
	case "think", "verbose":
		return "true or false"
	case "top_k", "seed", "max_tokens":
		return "a whole number"
	}
	return "a number"
}

func (s *session) show() error {
	p, err := s.cmd.params(s.model)
	if err != nil {
		return err
	}
	seed, most := "another one each time", "the rest of the context"
	if s.cmd.Seed != nil {
		seed = strconv.FormatUint(*s.cmd.Seed, 10)
	}
	if s.cmd.MaxTokens > 0 {
		most = strconv.Itoa(s.cmd.MaxTokens)
	}
	fmt.Printf("model         %s (%s, %d layers), %s\n", s.model.Name, s.model.Spec.Family, len(s.model.Spec.Layers), s.model.Device)
	fmt.Printf("sampling      temperature %g, top_p %g, top_k %d, min_p %g, repetition_penalty %g\n",
		p.Temperature, p.TopP, p.TopK, p.MinP, p.RepetitionPenalty)
	fmt.Printf("seed          %s\n", seed)
	fmt.Printf("max_tokens    %s\n", most)
	fmt.Printf("system        %q\n", s.system)
	fmt.Printf("conversation  %d messages\n", len(s.history))
	return nil
}

// saved is a conversation as it is kept in a file.
type saved struct {
	Model    string         `json:"model"`
	System   string         `json:"system,omitempty"`
	Messages []savedMessage `json:"messages"`
}

type savedMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func (s *session) save(path string) error {
	if path == "" {
		return errors.New("/save wants a file")
	}
	out := saved{Model: s.model.Name, System: s.system, Messages: []savedMessage{}}
	for _, m := range s.history {
		out.Messages = append(out.Messages, savedMessage{m.Role, m.Content})
	}
	data, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return err
	}
	fmt.Printf("saved %d messages\n", len(s.history))
	return nil
}

func (s *session) load(path string) error {
	if path == "" {
		return errors.New("/load wants a file")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var in saved
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var history []chat.Message
	for i, m := range in.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return fmt.Errorf("%s: message %d has role %q; want user or assistant", path, i, m.Role)
		}
		history = append(history, chat.Message{Role: m.Role, Content: m.Content})
	}
	if err := s.tell(in.System); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s.history = history
	fmt.Printf("loaded %d messages\n", len(history))
	return nil
}
