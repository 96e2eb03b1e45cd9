package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/gateway/prompt"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// isCheckpoint reports whether a model lies there, rather than a file or folder of a tokenizer or a template alone.
func (p place) isCheckpoint() bool {
	if p.path == "" || strings.HasSuffix(p.path, ".safetensors") || strings.HasSuffix(p.path, ".safetensors.index.json") {
		return true
	}
	info, err := os.Stat(p.path)
	switch {
	case err != nil:
		return false
	case info.IsDir():
		ckpt, err := p.open()
		if err == nil {
			ckpt.Close()
		}
		return err == nil
	case strings.HasSuffix(p.path, ".gguf"):
		return true
	case !info.Mode().IsRegular():
		return false // a pipe, which can be read only once
	}
	f, err := os.Open(p.path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	f.Read(magic[:])
	return string(magic[:]) == "GGUF"
}

// openTokenizer reads the tokenizer of a model, or a tokenizer's own file or folder.
func openTokenizer(name string) (*tokenizer.Tokenizer, error) {
	p, err := find(name)
	if err != nil {
		return nil, err
	}
	if !p.isCheckpoint() {
		return tokenizer.Load(p.path)
	}
	ckpt, err := p.open()
	if err != nil {
		return nil, err
	}
	return text.OpenTokenizer(ckpt)
}

// openTemplate reads the chat template of a model, or a template's own file.
func openTemplate(name string) (*chat.Template, error) {
	p, err := find(name)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(p.path); err == nil && !info.IsDir() && !p.isCheckpoint() {
		source, err := os.ReadFile(p.path)
		if err != nil {
			return nil, err
		}
		if err := checkText(p.path, string(source)); err != nil {
			return nil, err
		}
		return chat.Parse(p.path, string(source))
	}
	t, err := p.template()
	if err == nil && t == nil {
		err = fmt.Errorf("%s has no chat template", name)
	}
	return t, err
}

// template reads the chat template of a model, or of a folder with a tokenizer; nil if there is none.
func (p place) template() (*chat.Template, error) {
	if p.isCheckpoint() {
		ckpt, err := p.open()
		if err != nil {
			return nil, err
		}
		return text.OpenTemplate(ckpt)
	}
	var files [3][]byte
	for i, name := range []string{"tokenizer_config.json", "chat_template.jinja", "chat_template.json"} {
		data, err := os.ReadFile(filepath.Join(p.path, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, err
		}
		files[i] = data
	}
	source, err := chat.FromConfig(files[0], files[1], files[2])
	if errors.Is(err, chat.ErrNoTemplate) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return chat.Parse(p.path, source)
}

// openPrompts reads the tokenizer and the chat template, if there is one, of a model or of a folder with a tokenizer.
func openPrompts(name string) (*prompt.Model, error) {
	t, err := openTokenizer(name)
	if err != nil {
		return nil, err
	}
	p, err := find(name)
	if err != nil {
		return nil, err
	}
	template, err := p.template()
	return &prompt.Model{Tokenizer: t, Template: template}, err
}

type tokenizeCmd struct {
	Model   string `short:"m" required:"" help:"A model, or any tokenizer file or GGUF." placeholder:"NAME"`
	Special bool   `help:"Add the tokens that the model wants around a text, and let special tokens in the text be tokens."`
	JSON    bool   `name:"json" help:"Print JSON: {\"ids\": […]}."`
}

func (tokenizeCmd) Help() string {
	return `The text comes on standard input.

Examples:
  echo -n "Hello" | kvasir debug tokenize --model kvasir-mini --json
  kvasir debug tokenize -m tokenizer.json < book.txt`
}

func (c *tokenizeCmd) Run(ctx context.Context) error {
	t, err := openTokenizer(c.Model)
	if err != nil {
		return err
	}
	data, err := readInput(ctx)
	if err != nil {
		return err
	}
	ids := t.Encode(string(data), tokenizer.EncodeOptions{AddSpecial: c.Special, ParseSpecial: c.Special})
	if c.JSON {
		return printJSON(map[string]any{"ids": append([]int32{}, ids...)})
	}
	for _, id := range ids {
		fmt.Printf("%d\t%q\n", id, t.Token(id))
	}
	return nil
}

type detokenizeCmd struct {
	Model string  `short:"m" required:"" help:"A model, or any tokenizer file or GGUF." placeholder:"NAME"`
	IDs   []int32 `name:"ids" help:"The tokens, separated by commas; read from standard input if not given." placeholder:"N"`
	Skip  bool    `name:"skip-special" help:"Leave special tokens out."`
	JSON  bool    `name:"json" help:"Print JSON: {\"text\": …}."`
}

func (detokenizeCmd) Help() string {
	return `Standard input may be numbers, a JSON list of them, or what debug tokenize --json prints.

Examples:
  kvasir debug detokenize --model kvasir-mini --ids 52,508,690 --json
  kvasir debug detokenize -m kvasir-mini < ids.json`
}

func (c *detokenizeCmd) Run(ctx context.Context) error {
	t, err := openTokenizer(c.Model)
	if err != nil {
		return err
	}
	if c.IDs == nil {
		data, err := readInput(ctx)
		if err != nil {
			return err
		}
		if c.IDs, err = parseIDs(data); err != nil {
			return err
		}
	}
	for _, id := range c.IDs {
		if id < 0 || int(id) >= t.VocabSize() {
			return fmt.Errorf("token %d is outside the vocabulary of %d", id, t.VocabSize())
		}
	}
	out := t.Decode(c.IDs, c.Skip)
	if c.JSON {
		return printJSON(map[string]string{"text": out})
	}
	fmt.Println(out)
	return nil
}

// parseIDs reads tokens as {"ids": […]}, as a JSON list, or separated by commas or blanks.
func parseIDs(data []byte) ([]int32, error) {
	var object struct{ IDs *[]int32 }
	if json.Unmarshal(data, &object) == nil && object.IDs != nil {
		return *object.IDs, nil
	}
	blank := func(r rune) bool { return strings.ContainsRune(", \t\r\n[]", r) }
	list := "[" + strings.Join(strings.FieldsFunc(string(data), blank), ",") + "]"
	var ids []int32
	if err := json.Unmarshal([]byte(list), &ids); err != nil {
		return nil, errors.New(`standard input holds no tokens: want {"ids": […]} or numbers`)
	}
	return ids, nil
}

type renderCmd struct {
	Template string `short:"t" required:"" help:"A template's file, or a model whose template to use." placeholder:"FILE"`
	JSON     bool   `name:"json" help:"Print JSON: {\"prompt\": …}."`
}

func (renderCmd) Help() string {
	return `The template's variables come on standard input as one JSON object.

Examples:
  kvasir debug render --template chat_template.jinja < variables.json
  echo '{"messages": [{"role": "user", "content": "Hi"}]}' | kvasir debug render -t kvasir-mini --json`
}

func (c *renderCmd) Run(ctx context.Context) error {
	t, err := openTemplate(c.Template)
	if err != nil {
		return err
	}
	data, err := readInput(ctx)
	if err != nil {
		return err
	}
	vars, err := chat.DecodeVars(data)
	if err != nil {
		return fmt.Errorf("variables on standard input: %w", err)
	}
	prompt, err := t.Render(ctx, vars)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(map[string]string{"prompt": prompt})
	}
	_, err = fmt.Print(prompt)
	return err
}
