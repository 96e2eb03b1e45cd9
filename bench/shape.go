package bench

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Shape is the size of a Llama-shaped decoder.
type Shape struct {
	Name                                         string
	Layers, Hidden, Width, Heads, KVHeads, Vocab int
}

// Shapes are the models that Random makes. Their heads are not tied to their embeddings.
var Shapes = []Shape{
	{"mini", 8, 512, 1280, 8, 2, 8192},
	{"125m", 12, 768, 2048, 12, 4, 32000},
	{"1.1b", 22, 2048, 5632, 32, 4, 32000},
}

// ShapeNamed returns the shape of that name.
func ShapeNamed(name string) (Shape, error) {
	var names []string
	for _, s := range Shapes {
		if strings.EqualFold(s.Name, name) {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Shape{}, fmt.Errorf("bench: no shape %q; there are %s", name, strings.Join(names, ", "))
}

// periodBlocks is the number of 32-value groups after which a random weight repeats itself: a prime, so that neighbouring
// rows differ, and few enough that a model is written at the speed of memory.
const periodBlocks = 32749

// Random returns a model of a shape with random weights, the same each time, as a checkpoint in memory.
func Random(s Shape, t quant.Type) (*weights.Checkpoint, error) {
	tensors, size, err := s.tensors(t)
	if err != nil {
		return nil, err
	}
	const headers = 1 << 21 // the vocabulary is most of them
	file := bytes.NewBuffer(make([]byte, 0, size+headers))
	if err := weights.WriteGGUF(file, s.metadata(), tensors); err != nil {
		return nil, err
	}
	return weights.OpenBytes(s.Name+".gguf", file.Bytes())
}

// WriteRandom writes the model that Random returns as a GGUF file, for other engines to be measured on.
func WriteRandom(w io.Writer, s Shape, t quant.Type) error {
	tensors, _, err := s.tensors(t)
	if err != nil {
		return err
	}
	return weights.WriteGGUF(w, s.metadata(), tensors)
}

// tensors returns a shape's tensors, and their bytes in all: random matrices of type t, norms of ones.
func (s Shape) tensors(t quant.Type) (tensors []weights.Source, size int, err error) {
	period, err := randomPeriod(t)
	if err != nil {
		return nil, 0, err
	}
	matrix := func(name string, out, in int) {
		row, _ := t.RowBytes(in) // an error comes back from WriteGGUF, which names the tensor
		n := row * out
		at := len(tensors) * 997 % periodBlocks * (len(period) / periodBlocks) // each begins elsewhere in the period
		tensors = append(tensors, weights.Source{Name: name, Type: t, Shape: []int{out, in}, Write: repeat(period, at, n)})
		size += n + 64
	}
	gains := func(name string) {
		tensors = append(tensors, weights.Source{Name: name, Type: quant.F32, Shape: []int{s.Hidden}, Write: ones(s.Hidden)})
		size += 4*s.Hidden + 64
	}
	kv := s.Hidden / s.Heads * s.KVHeads
	matrix("token_embd.weight", s.Vocab, s.Hidden)
	for i := range s.Layers {
		name := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", i, part) }
		gains(name("attn_norm"))
		matrix(name("attn_q"), s.Hidden, s.Hidden)
		matrix(name("attn_k"), kv, s.Hidden)
		matrix(name("attn_v"), kv, s.Hidden)
		matrix(name("attn_output"), s.Hidden, s.Hidden)
		gains(name("ffn_norm"))
		matrix(name("ffn_gate"), s.Width, s.Hidden)
		matrix(name("ffn_up"), s.Width, s.Hidden)
		matrix(name("ffn_down"), s.Hidden, s.Width)
	}
	gains("output_norm.weight")
	matrix("output.weight", s.Vocab, s.Hidden)
	return tensors, size, nil
}

// metadata describes the shape, and a tokenizer that has one token for each of the words that workloads are made of.
func (s Shape) metadata() []weights.KV {
	tokens, scores, types := s.tokens()
	return []weights.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "general.name", Value: s.Name},
		{Key: "llama.block_count", Value: uint32(s.Layers)},
		{Key: "llama.embedding_length", Value: uint32(s.Hidden)},
		{Key: "llama.feed_forward_length", Value: uint32(s.Width)},
		{Key: "llama.attention.head_count", Value: uint32(s.Heads)},
		{Key: "llama.attention.head_count_kv", Value: uint32(s.KVHeads)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
		{Key: "llama.rope.freq_base", Value: float32(10000)},
		{Key: "llama.context_length", Value: uint32(1 << 17)},
		{Key: "llama.vocab_size", Value: uint32(s.Vocab)},
		{Key: "tokenizer.ggml.model", Value: "llama"},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.scores", Value: scores},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(1)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.add_bos_token", Value: true},
		{Key: "tokenizer.chat_template", Value: "{% for m in messages %}{{ m.content }}{% endfor %}"},
	}
}

// tokens returns a SentencePiece vocabulary: three special tokens, the bytes, the words with the beginnings that lead to
// them, and made-up words for the rest.
func (s Shape) tokens() (tokens []string, scores []float32, types []int32) {
	const normal, unknown, control, isByte = 1, 2, 3, 6
	add := func(token string, score float32, kind int32) {
		if len(tokens) < s.Vocab {
			tokens, scores, types = append(tokens, token), append(scores, score), append(types, kind)
		}
	}
	add("<unk>", 0, unknown)
	add("<s>", 0, control)
	add("</s>", 0, control)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), 0, isByte)
	}
	seen := map[string]bool{}
	for _, w := range words {
		for n := range len(w) + 1 {
			if token := "▁" + w[:n]; !seen[token] {
				seen[token] = true
				add(token, -float32(n), normal)
			}
		}
	}
	for c := 'a'; c <= 'z'; c++ {
		add(string(c), -100, normal)
	}
	for len(tokens) < s.Vocab {
		add(fmt.Sprintf("▁q%d", len(tokens)), -1000, normal)
	}
	return tokens, scores, types
}

// randomPeriod returns periodBlocks groups of 32 random values of type t, spread like trained weights.
func randomPeriod(t quant.Type) ([]byte, error) {
	r, values := rand.New(rand.NewPCG(0x6b766173, 0x6972)), make([]float32, periodBlocks*32)
	for i := range values {
		values[i] = float32(r.NormFloat64()) * 0.02
	}
	n, err := t.RowBytes(len(values))
	if err != nil {
		return nil, fmt.Errorf("bench: random weights of type %v: %w", t, err)
	}
	out := make([]byte, n)
	if err := quant.Encode(out, values, t); err != nil {
		return nil, fmt.Errorf("bench: random weights of type %v: %w", t, err)
	}
	return out, nil
}

// repeat writes n bytes of a period from an offset on.
func repeat(period []byte, at, n int) func(io.Writer) error {
	return func(w io.Writer) error {
		for n > 0 {
			piece := period[at:min(at+n, len(period))]
			if _, err := w.Write(piece); err != nil {
				return err
			}
			n, at = n-len(piece), 0
		}
		return nil
	}
}

func ones(n int) func(io.Writer) error {
	return weights.Bytes(bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, n)) // 1 in float32, little-endian
}
