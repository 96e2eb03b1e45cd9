package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/peterh/liner"

	"github.com/kvasir-llm/kvasir/chat"
)

const chatHelp = `  /help                   this list
  /system TEXT            what the model is told before the conversation; without TEXT, none
  /set NAME VALUE         temperature, top_p, top_k, min_p, seed, max_tokens, think, verbose
  /show                   the model, the settings and the conversation's length
  /clear                  forget the conversation
  /save FILE, /load FILE  the conversation as JSON
  /bye                    leave (also Ctrl-D)
Begin and end a prompt of several lines with """. Ctrl-C stops an answer.`

// chat talks in the terminal until the user leaves.
func (s *session) chat(ctx context.Context) error {
	signal.Reset(os.Interrupt) // from here on Ctrl-C stops an answer, not the program
	line := liner.NewLiner()
	defer line.Close()
	line.SetCtrlCAborts(true)
	line.SetMultiLineMode(true)
	history := historyFile()
	if f, err := os.Open(history); err == nil {
		line.ReadHistory(f)
		f.Close()
	}
	defer func() {
		if os.MkdirAll(filepath.Dir(history), 0o700) != nil {
			return
		}
		if f, err := os.OpenFile(history, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err == nil {
			line.WriteHistory(f)
			f.Close()
		}
	}()
	fmt.Printf("%s, %d tokens of context. /help lists commands.\n", s.model.Name, s.model.Context)
	for ctx.Err() == nil {
		prompt, err := readPrompt(line)
		switch {
		case errors.Is(err, liner.ErrPromptAborted):
			continue
		case errors.Is(err, io.EOF):
			fmt.Println()
			return nil
		case err != nil:
			return err
		case prompt == "":
			continue
		}
		if strings.HasPrefix(prompt, "/") {
			leave, err := s.command(prompt)
			if leave {
				return nil
			}
			if err != nil {
				fmt.Println("error:", err)
			}
			continue
		}
		s.turn(ctx, prompt)
	}
	return nil
}

// historyFile is where the prompts of earlier chats are kept.
func historyFile() string {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, _ := os.UserHomeDir()
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "kvasir", "history")
}

// readPrompt reads a line, or the lines between a pair of """.
func readPrompt(line *liner.State) (string, error) {
	text, err := line.Prompt(">>> ")
	if err != nil {
		return "", err
	}
	if rest, ok := strings.CutPrefix(strings.TrimSpace(text), `"""`); ok {
		for !strings.HasSuffix(rest, `"""`) {
			next, err := line.Prompt("... ")
			if err != nil {
				return "", err
			}
			rest += "\n" + next
		}
		text = strings.TrimSuffix(rest, `"""`)
	}
	text = strings.TrimSpace(text)
	if text != "" {
		line.AppendHistory(strings.ReplaceAll(text, "\n", " "))
	}
	return text, nil
}

// turn asks one prompt. Ctrl-C ends the answer.
func (s *session) turn(ctx context.Context, prompt string) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	a, err := s.ask(ctx, prompt, os.Stdout)
	fmt.Println()
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Println("(stopped; this turn is forgotten)")
	case err != nil:
		fmt.Println("error:", err)
	case s.cmd.Verbose:
		a.printTimings(os.Stdout)
	}
	fmt.Println()
}

// command runs a line that begins with "/".
func (s *session) command(text string) (leave bool, err error) {
	name, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	switch name {
	case "/help", "/?":
		fmt.Println(chatHelp)
	case "/bye", "/exit", "/quit":
		return true, nil
	case "/system":
		s.system = rest
	case "/clear":
		s.history = nil
	case "/set":
		key, value, _ := strings.Cut(rest, " ")
		return false, s.set(key, strings.TrimSpace(value))
	case "/show":
		s.show()
	case "/save":
		return false, s.save(rest)
	case "/load":
		return false, s.load(rest)
	default:
		return false, fmt.Errorf("no command %s; /help lists them", name)
	}
	return false, nil
}

// settings are what /set changes, by name.
func (s *session) settings() map[string]func(string) error {
	c := s.cmd
	return map[string]func(string) error{
		"temperature": setter(&c.Temperature, parseFloat), "top_p": setter(&c.TopP, parseFloat), "min_p": setter(&c.MinP, parseFloat),
		"top_k": setter(&c.TopK, strconv.Atoi),
		"seed":  setter(&c.Seed, func(v string) (uint64, error) { return strconv.ParseUint(v, 10, 64) }),
		"max_tokens": func(v string) (err error) {
			n, err := strconv.Atoi(v)
			if err == nil && n < 0 {
				err = errors.New("want at least 0")
			}
			if err == nil {
				c.MaxTokens = n
			}
			return err
		},
		"think":   func(v string) (err error) { c.Think, err = strconv.ParseBool(v); return err },
		"verbose": func(v string) (err error) { c.Verbose, err = strconv.ParseBool(v); return err },
	}
}

func setter[T any](dst **T, parse func(string) (T, error)) func(string) error {
	return func(v string) error {
		x, err := parse(v)
		if err == nil {
			*dst = &x
		}
		return err
	}
}

func parseFloat(v string) (float32, error) {
	f, err := strconv.ParseFloat(v, 32)
	return float32(f), err
}

// set changes a setting, and puts it back if the result is not valid.
func (s *session) set(key, value string) error {
	set := s.settings()[key]
	if set == nil {
		var names []string
		for name := range s.settings() {
			names = append(names, name)
		}
		sort.Strings(names)
		return fmt.Errorf("no setting %q; there are %s", key, strings.Join(names, ", "))
	}
	before := *s.cmd
	if err := set(value); err != nil {
		return fmt.Errorf("%s %q: %w", key, value, err)
	}
	if _, err := s.cmd.params(s.model); err != nil {
		*s.cmd = before
		return err
	}
	return nil
}

func (s *session) show() {
	p, _ := s.cmd.params(s.model)
	fmt.Printf("model        %s (%s, %d layers), %s\n", s.model.Name, s.model.Spec.Family, len(s.model.Spec.Layers), s.model.Device)
	fmt.Printf("sampling     temperature %g, top_p %g, top_k %d, min_p %g\n", p.Temperature, p.TopP, p.TopK, p.MinP)
	fmt.Printf("system       %q\n", s.system)
	fmt.Printf("conversation %d messages\n", len(s.history))
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
	out := saved{Model: s.model.Name, System: s.system}
	for _, m := range s.history {
		out.Messages = append(out.Messages, savedMessage{m.Role, m.Content})
	}
	data, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o600)
}

func (s *session) load(path string) error {
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
	s.system, s.history = in.System, history
	fmt.Printf("loaded %d messages\n", len(history))
	return nil
}
