package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/peterh/liner"
	"golang.org/x/term"
)

// chat talks in the terminal until the user leaves.
func (s *session) chat(ctx context.Context) error {
	signal.Reset(os.Interrupt) // from here on Ctrl-C ends an answer, not the program
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, os.Interrupt)
	defer signal.Stop(ignored)

	t := openTerminal()
	defer t.Close()
	fmt.Printf("%s, %d tokens of context. /help lists commands.\n", s.model.Name, s.model.Context)
	if !s.templated() {
		fmt.Println("There is no chat template: each prompt is text to continue, by itself.")
	}
	for {
		prompt, err := await(ctx, t.read)
		switch {
		case errors.Is(err, liner.ErrPromptAborted):
			fmt.Println("(/bye or Ctrl-D leaves)")
			continue
		case errors.Is(err, io.EOF):
			fmt.Println()
			return nil
		case err != nil:
			return err
		case prompt == "":
			continue
		}
		if !strings.HasPrefix(prompt, "/") {
			s.turn(ctx, prompt)
			continue
		}
		leave, err := s.command(ctx, t, prompt)
		if err != nil {
			complain(err)
		}
		if leave {
			return nil
		}
	}
}

// turn asks one prompt. Ctrl-C ends the answer.
func (s *session) turn(ctx context.Context, prompt string) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	w := newWrapper()
	a, err := s.ask(ctx, prompt, w)
	w.flush()
	fmt.Println()
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Println("(stopped)")
	case err != nil:
		complain(err)
	case s.cmd.Verbose:
		a.printTimings(os.Stdout)
	}
	fmt.Println()
}

// complain shows an error, broken between words.
func complain(err error) {
	w := newWrapper()
	w.plain = true // an error is no Markdown
	fmt.Fprintf(w, "error: %s\n", forPeople(err))
	w.flush()
}

// terminal reads prompts, with line editing and a history that outlives the program. Only while it reads is the
// terminal in raw mode, so that whatever ends the program leaves it as it was.
type terminal struct {
	line        *liner.State
	cooked, raw *term.State
	history     string // file
	pastes      *pastes
}

func openTerminal() *terminal {
	fd := int(os.Stdin.Fd())
	t := &terminal{history: historyFile()}
	t.cooked, _ = term.GetState(fd)
	t.pastes = newPastes(os.Stdin)
	stdin := os.Stdin
	os.Stdin = t.pastes.out // which liner reads
	t.line = liner.NewLiner()
	os.Stdin = stdin
	t.raw, _ = term.GetState(fd)
	t.line.SetCtrlCAborts(true)
	t.line.SetMultiLineMode(true)
	if f, err := os.Open(t.history); err == nil {
		t.line.ReadHistory(f)
		f.Close()
	}
	term.Restore(fd, t.cooked)
	return t
}

// Close leaves the terminal as openTerminal found it, also while read waits.
func (t *terminal) Close() error {
	t.pastes.Close()
	return t.line.Close()
}

func (t *terminal) prompt(mark string) (string, error) {
	fd := int(os.Stdin.Fd())
	term.Restore(fd, t.raw)
	defer term.Restore(fd, t.cooked)
	line, err := t.line.Prompt(mark)
	return t.pastes.expand(strings.ReplaceAll(line, newline, "\n")), err
}

// newline stands for the end of a line in the line editor and the history, which have texts of one line.
const newline = "⏎"

// edit lets the user change a text.
func (t *terminal) edit(text string) (string, error) {
	fd := int(os.Stdin.Fd())
	term.Restore(fd, t.raw)
	defer term.Restore(fd, t.cooked)
	text, err := t.line.PromptWithSuggestion(">>> ", strings.ReplaceAll(text, "\n", newline), -1)
	return t.pastes.expand(strings.ReplaceAll(text, newline, "\n")), err
}

// read reads a line, or the lines between a pair of """.
func (t *terminal) read() (string, error) {
	text, err := t.prompt(">>> ")
	if err != nil {
		return "", err
	}
	if rest, ok := strings.CutPrefix(strings.TrimSpace(text), `"""`); ok {
		for !strings.HasSuffix(rest, `"""`) {
			next, err := t.prompt("... ")
			if err != nil {
				return "", err
			}
			rest += "\n" + strings.TrimRight(next, " \t")
		}
		text = strings.TrimSuffix(rest, `"""`)
	}
	if text = strings.TrimSpace(text); text != "" {
		t.line.AppendHistory(strings.ReplaceAll(text, "\n", newline))
		t.save()
	}
	return text, nil
}

// save writes the history. A history that cannot be kept is no reason to bother the user.
func (t *terminal) save() {
	if os.MkdirAll(filepath.Dir(t.history), 0o700) != nil {
		return
	}
	if f, err := os.OpenFile(t.history, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err == nil {
		t.line.WriteHistory(f)
		f.Close()
	}
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
