package main

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// leaves returns the commands that do something, by name.
func leaves(n *kong.Node, path string, out map[string]*kong.Node) map[string]*kong.Node {
	if len(n.Children) == 0 {
		out[path] = n
	}
	for _, child := range n.Children {
		leaves(child, strings.TrimSpace(path+" "+child.Name), out)
	}
	return out
}

// words splits a command line as a shell does, if it has neither variables nor escapes.
func words(line string) []string {
	var out []string
	word, quote, open := "", rune(0), false
	for _, r := range line + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '"' || r == '\'':
			quote, open = r, true
		case r != ' ':
			word, open = word+string(r), true
		case open:
			out, word, open = append(out, word), "", false
		}
	}
	return out
}

// TestHelpHasExamples checks that every command's help ends with examples, and that these are lines which parse.
func TestHelpHasExamples(t *testing.T) {
	all := leaves(newParser(new(cli)).Model.Node, "", map[string]*kong.Node{})
	if len(all) < 14 {
		t.Fatalf("found only %d commands", len(all))
	}
	for name, node := range all {
		detail := strings.Replace("\n"+node.Detail, "\nExample:\n", "\nExamples:\n", 1)
		_, examples, ok := strings.Cut(detail, "\nExamples:\n")
		if !ok {
			t.Errorf("%s: no examples in its help", name)
			continue
		}
		own := false
		for _, line := range strings.Split(examples, "\n") {
			_, command, ok := strings.Cut(line, "kvasir ")
			if !ok {
				t.Errorf("%s: the example %q does not run kvasir", name, line)
				continue
			}
			own = own || strings.HasPrefix(command, name)
			command = strings.TrimRight(command, ")")
			for _, end := range []string{" | ", " > ", " < "} {
				command, _, _ = strings.Cut(command, end)
			}
			_, err := newParser(new(cli)).Parse(words(command))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // a file of an example need not exist

				t.Errorf("%s: the example %q: %v", name, line, err)
			}
		}
		if !own {
			t.Errorf("%s: no example runs %q", name, name)
		}
	}
}

// TestHelpOfFlags checks that every flag and argument says what it is for.
func TestHelpOfFlags(t *testing.T) {
	for name, node := range leaves(newParser(new(cli)).Model.Node, "", map[string]*kong.Node{}) {
		if node.Help == "" {
			t.Errorf("%s: no help", name)
		}
		for _, f := range node.Flags {
			if !strings.HasSuffix(f.Help, ".") {
				t.Errorf("%s --%s: its help is %q; want a sentence", name, f.Name, f.Help)
			}
		}
		for _, arg := range node.Positional {
			if arg.Help == "" {
				t.Errorf("%s %s: no help", name, arg.Name)
			}
		}
	}
}

func TestSize(t *testing.T) {
	for in, want := range map[string]size{"0": 0, "512": 512, "2k": 2048, "3M": 3 << 20, "1G": 1 << 30, "1GiB": 1 << 30, "4GB": 4 << 30, "2T": 2 << 40} {
		var got size
		if err := got.UnmarshalText([]byte(in)); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "K", "-1", "1.5G", "12Q", "1 G", "0x10", "9999999T", "99999999999999999999", "NaN"} {
		var got size
		if err := got.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("%q: %d; want an error", in, got)
		}
	}
}
