package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/tokenizer"
	"github.com/kvasir-llm/kvasir/weights"
)

type debugCmd struct {
	Logits     logitsCmd     `cmd:"" help:"Print the logits of a sequence of tokens."`
	Tokenize   tokenizeCmd   `cmd:"" help:"Print the tokens of a text."`
	Detokenize detokenizeCmd `cmd:"" help:"Print the text of tokens."`
	Render     renderCmd     `cmd:"" help:"Print what a chat template makes of a conversation."`
	Tensors    tensorsCmd    `cmd:"" help:"List the tensors of a checkpoint."`
}

// printJSON prints one object in one line.
func printJSON(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// open opens a model that is already here: debugging fetches nothing.
func open(name string) (*weights.Checkpoint, error) {
	if name == builtin.Name {
		return builtin.Open()
	}
	path, err := locate(name)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, fmt.Errorf("model %q is not in the local cache; fetch it with: kvasir pull %s", name, name)
	}
	return weights.Open(path)
}

type logitsCmd struct {
	Model   string  `short:"m" required:"" help:"Built-in name, hub name, file or folder." placeholder:"NAME"`
	IDs     []int32 `name:"ids" required:"" help:"The tokens, separated by commas." placeholder:"N,…"`
	Last    int     `help:"Only the last positions; 0 is all." placeholder:"N"`
	JSON    bool    `name:"json" help:"Print JSON: {\"logits\": [[…], …]}, one list for each position."`
	Threads int     `help:"Compute threads; 0 is one for each processor." placeholder:"N"`
	Kernels string  `help:"Instruction set to compute with, such as portable." placeholder:"NAME"`
}

func (logitsCmd) Help() string {
	return "Examples:\n  kvasir debug logits --model kvasir-mini --ids 1,305,210 --last 1 --json\n  kvasir debug logits -m ./model.gguf --ids 1,2,3"
}

func (c *logitsCmd) Run() error {
	if c.Last < 0 || c.Last > len(c.IDs) {
		return usageError{fmt.Sprintf("--last %d of %d positions", c.Last, len(c.IDs))}
	}
	ckpt, err := open(c.Model)
	if err != nil {
		return err
	}
	dev, err := cpu.New(cpu.Options{Threads: c.Threads, Kernels: c.Kernels})
	if err != nil {
		return err
	}
	defer dev.Close()
	m, err := model.Load(ckpt, dev, nil)
	if err != nil {
		return err
	}
	first := 0
	if c.Last > 0 {
		first = len(c.IDs) - c.Last
	}
	out, err := logits(m, c.IDs, first)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(map[string]any{"logits": out})
	}
	for i, row := range out {
		best := 0
		for j, v := range row {
			if v > row[best] {
				best = j
			}
		}
		fmt.Printf("position %d: best token %d with logit %g\n", first+i, best, row[best])
	}
	return nil
}

// logits computes the logits of positions first and after, some hundred tokens at a time.
func logits(m *model.Model, ids []int32, first int) ([][]float32, error) {
	const blockTokens, chunk = 16, 256
	blocks := make([]int32, len(ids)/blockTokens+1)
	for i := range blocks {
		blocks[i] = int32(i)
	}
	r, err := m.NewRunner(min(chunk, len(ids)), len(blocks), blockTokens)
	if err != nil {
		return nil, err
	}
	var out [][]float32
	var b compute.Batch
	for at := 0; at < len(ids); at += chunk {
		part := ids[at:min(at+chunk, len(ids))]
		b.Reset()
		b.Append(part, at, blocks, false)
		for i := max(first-at, 0); i < len(part); i++ {
			b.Logits = append(b.Logits, int32(i))
		}
		if err := r.Forward(&b); err != nil {
			return nil, err
		}
		for i := range b.Logits {
			out = append(out, append([]float32(nil), r.Logits(i)...))
		}
	}
	return out, nil
}

// openTokenizer reads the tokenizer of a model, or a tokenizer's own file.
func openTokenizer(name string) (*tokenizer.Tokenizer, error) {
	info, err := os.Stat(name)
	if err == nil && !info.IsDir() && !strings.HasSuffix(name, ".gguf") {
		return tokenizer.Load(name)
	}
	if err == nil && info.IsDir() {
		return tokenizer.Load(name)
	}
	ckpt, err := open(name)
	if err != nil {
		return nil, err
	}
	return text.OpenTokenizer(ckpt)
}

type tokenizeCmd struct {
	Model   string `short:"m" required:"" help:"A model, or any tokenizer file or GGUF." placeholder:"NAME"`
	Special bool   `help:"Add the tokens that the model wants around a text, and let special tokens in the text be tokens."`
	JSON    bool   `name:"json" help:"Print JSON: {\"ids\": […]}."`
}

func (tokenizeCmd) Help() string {
	return "The text comes on standard input.\n\nExamples:\n  echo -n \"Hello\" | kvasir debug tokenize --model kvasir-mini --json\n  kvasir debug tokenize -m tokenizer.json < book.txt"
}

func (c *tokenizeCmd) Run() error {
	t, err := openTokenizer(c.Model)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(os.Stdin)
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
	IDs   []int32 `name:"ids" help:"The tokens, separated by commas; read from standard input if not given." placeholder:"N,…"`
	Skip  bool    `name:"skip-special" help:"Leave special tokens out."`
	JSON  bool    `name:"json" help:"Print JSON: {\"text\": …}."`
}

func (detokenizeCmd) Help() string {
	return "Examples:\n  kvasir debug detokenize --model kvasir-mini --ids 52,508,690 --json\n  kvasir debug tokenize -m kvasir-mini --json < a.txt | kvasir debug detokenize -m kvasir-mini"
}

func (c *detokenizeCmd) Run() error {
	t, err := openTokenizer(c.Model)
	if err != nil {
		return err
	}
	if c.IDs == nil {
		if c.IDs, err = readIDs(os.Stdin); err != nil {
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

// readIDs reads tokens as {"ids": […]}, as a JSON list, or separated by commas or blanks.
func readIDs(r io.Reader) ([]int32, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var object struct{ IDs []int32 }
	if json.Unmarshal(data, &object) == nil {
		return object.IDs, nil
	}
	list := "[" + strings.Join(strings.FieldsFunc(string(data), func(r rune) bool { return strings.ContainsRune(", \t\r\n[]", r) }), ",") + "]"
	var ids []int32
	if err := json.Unmarshal([]byte(list), &ids); err != nil {
		return nil, errors.New("standard input holds no tokens: want {\"ids\": […]} or numbers")
	}
	return ids, nil
}

type renderCmd struct {
	Template string `short:"t" required:"" help:"A template's file, or a model whose template to use." placeholder:"FILE"`
	JSON     bool   `name:"json" help:"Print JSON: {\"prompt\": …}."`
}

func (renderCmd) Help() string {
	return "The template's variables come on standard input as one JSON object.\n\nExample:\n  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"add_generation_prompt\": true}' | kvasir debug render --template chat_template.jinja"
}

func (c *renderCmd) Run() error {
	t, err := openTemplate(c.Template)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	vars, err := chat.DecodeVars(data)
	if err != nil {
		return fmt.Errorf("variables on standard input: %w", err)
	}
	prompt, err := t.Render(vars)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(map[string]string{"prompt": prompt})
	}
	_, err = fmt.Print(prompt)
	return err
}

// openTemplate reads a template from its own file, or from a model.
func openTemplate(name string) (*chat.Template, error) {
	info, err := os.Stat(name)
	if err == nil && !info.IsDir() && !strings.HasSuffix(name, ".gguf") && !strings.HasSuffix(name, ".safetensors") {
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		return chat.Parse(name, string(source))
	}
	ckpt, err := open(name)
	if err != nil {
		return nil, err
	}
	t, err := text.OpenTemplate(ckpt)
	if err == nil && t == nil {
		err = fmt.Errorf("%s has no chat template", name)
	}
	return t, err
}

type tensorsCmd struct {
	Path string `arg:"" help:"Built-in name, hub name, file or folder."`
	JSON bool   `name:"json" help:"Print JSON, one object in a list for each tensor."`
}

func (tensorsCmd) Help() string {
	return "Examples:\n  kvasir debug tensors ./model.gguf\n  kvasir debug tensors kvasir-mini --json"
}

func (c *tensorsCmd) Run() error {
	ckpt, err := open(c.Path)
	if err != nil {
		return err
	}
	type row struct {
		Name   string `json:"name"`
		Type   string `json:"type"`
		Shape  []int  `json:"shape"`
		File   string `json:"file"`
		Offset int64  `json:"offset"`
		Size   int64  `json:"size"`
	}
	rows := []row{}
	for _, t := range ckpt.Tensors() {
		rows = append(rows, row{t.Name, t.Type.String(), append([]int{}, t.Shape...), t.File, t.Offset, t.Size})
	}
	if c.JSON {
		return printJSON(rows)
	}
	for _, r := range rows {
		fmt.Printf("%-48s %-8s %-20s %12d %12d\n", r.Name, r.Type, fmt.Sprint(r.Shape), r.Offset, r.Size)
	}
	return nil
}
