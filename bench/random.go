package bench

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"

	"github.com/kvasir-llm/kvasir/forge"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Random returns a model of a shape with random weights in the types of a recipe of forge, as a checkpoint in memory.
// Equal arguments give equal weights.
func Random(s Shape, recipe string) (*weights.Checkpoint, error) {
	meta, tensors, err := s.contents(recipe)
	if err != nil {
		return nil, err
	}
	size := 64 * s.Vocab // the vocabulary is most of the headers
	for _, t := range tensors {
		n, _ := t.Type.RowBytes(t.Shape[len(t.Shape)-1])
		size += n*t.Shape[0] + 256
	}
	file := bytes.NewBuffer(make([]byte, 0, size))
	if err := weights.WriteGGUF(file, meta, tensors); err != nil {
		return nil, err
	}
	return weights.OpenBytes(s.Name+".gguf", file.Bytes())
}

// WriteRandom writes the model that Random returns as a GGUF file, so that other engines can be measured on it.
func WriteRandom(w io.Writer, s Shape, recipe string) error {
	meta, tensors, err := s.contents(recipe)
	if err != nil {
		return err
	}
	return weights.WriteGGUF(w, meta, tensors)
}

// contents returns the contents of a file of a shape: random matrices of the recipe's types, norms of ones.
func (s Shape) contents(recipe string) ([]weights.KV, []weights.Source, error) {
	spec := &model.Spec{Layers: make([]model.Layer, s.Layers)}
	for i := range spec.Layers {
		spec.Layers[i].Mixer = model.GQA{Heads: s.Heads, KVHeads: s.KVHeads}
	}
	list := s.weights()
	types, fileType, err := forge.RecipeTypes(recipe, spec, list)
	if err != nil {
		return nil, nil, err
	}
	periods := map[quant.Type]period{}
	var tensors []weights.Source
	for i, w := range list {
		t := types[i]
		if len(w.Shape) == 1 {
			tensors = append(tensors, weights.Source{Name: w.Name, Type: quant.F32, Shape: w.Shape, Write: ones(w.Shape[0])})
			continue
		}
		if periods[t].data == nil {
			if periods[t], err = randomPeriod(t); err != nil {
				return nil, nil, err
			}
		}
		row, err := t.RowBytes(w.Shape[1])
		if err != nil {
			return nil, nil, fmt.Errorf("bench: random weights: tensor %q: %w", w.Name, err)
		}
		tensors = append(tensors, weights.Source{Name: w.Name, Type: t, Shape: w.Shape, Write: periods[t].repeat(i*997, row*w.Shape[0])})
	}
	return s.metadata(fileType), tensors, nil
}

// weights lists a shape's tensors with the properties that recipes depend on.
func (s Shape) weights() []forge.Translated {
	var list []forge.Translated
	q, kv := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	add := func(name, slot string, layer int, shape ...int) {
		list = append(list, forge.Translated{Name: name + ".weight", Slot: slot, Layer: layer, Shape: shape})
	}
	add("token_embd", "embed", 0, s.Vocab, s.Hidden)
	for i := range s.Layers {
		in := func(part, slot string, shape ...int) { add(fmt.Sprintf("blk.%d.%s", i, part), slot, i, shape...) }
		in("attn_norm", "attn.norm", s.Hidden)
		in("attn_q", "q", q, s.Hidden)
		in("attn_k", "k", kv, s.Hidden)
		in("attn_v", "v", kv, s.Hidden)
		in("attn_output", "o", s.Hidden, q)
		in("ffn_norm", "ffn.norm", s.Hidden)
		in("ffn_gate", "gate", s.Width, s.Hidden)
		in("ffn_up", "up", s.Width, s.Hidden)
		in("ffn_down", "down", s.Hidden, s.Width)
	}
	add("output_norm", "norm", 0, s.Hidden)
	add("output", "head", 0, s.Vocab, s.Hidden)
	return list
}

// metadata describes the shape, and a tokenizer with one token for each word of the workloads.
func (s Shape) metadata(fileType uint32) []weights.KV {
	tokens, scores, types := s.tokens()
	return []weights.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "general.name", Value: s.Name},
		{Key: "general.file_type", Value: fileType},
		{Key: "general.quantization_version", Value: uint32(2)},
		{Key: "llama.block_count", Value: uint32(s.Layers)},
		{Key: "llama.embedding_length", Value: uint32(s.Hidden)},
		{Key: "llama.feed_forward_length", Value: uint32(s.Width)},
		{Key: "llama.attention.head_count", Value: uint32(s.Heads)},
		{Key: "llama.attention.head_count_kv", Value: uint32(s.KVHeads)},
		{Key: "llama.attention.key_length", Value: uint32(s.HeadDim)},
		{Key: "llama.attention.value_length", Value: uint32(s.HeadDim)},
		{Key: "llama.rope.dimension_count", Value: uint32(s.HeadDim)},
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

// tokens returns a SentencePiece vocabulary: three special tokens, the bytes, the words with the prefixes that merge
// into them, and synthetic words for the rest.
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

// period is the random blocks of one type after which random weights repeat. Their number is prime, so that
// neighbouring rows differ, and small enough that a model is written at the speed of memory.
type period struct {
	data  []byte
	block int // bytes of one block
}

// randomPeriod returns a quarter of a million random values, spread like trained weights, encoded on all processors.
func randomPeriod(t quant.Type) (period, error) {
	blocks, values := 8191, 32
	if t.BlockValues() > values {
		blocks, values = 1021, t.BlockValues()
	}
	n, err := t.RowBytes(values)
	if err != nil {
		return period{}, fmt.Errorf("bench: random weights of type %v: %w", t, err)
	}
	p := period{make([]byte, blocks*n), n}
	workers := runtime.GOMAXPROCS(0)
	var all guard.Group
	for w := range workers {
		all.Start(func() error {
			block := make([]float32, values)
			for b := w; b < blocks; b += workers {
				r := rand.New(rand.NewPCG(0x6b766173, uint64(b)))
				for i := range block {
					block[i] = float32(r.NormFloat64()) * 0.02
				}
				if err := encode(p.data[b*n:][:n], block, t); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return p, fmt.Errorf("bench: random weights of type %v: %w", t, err)
	}
	return p, nil
}

// encode encodes a block. For types with zero points it rounds codes between -0.08 and 0.08.
func encode(dst []byte, block []float32, t quant.Type) error {
	for bits, types := range quant.ZeroTypes {
		if types[len(block)] == t {
			codes, most := make([]uint8, len(block)), float32(int(1)<<bits-1)
			for i, v := range block {
				codes[i] = uint8(min(max((v/0.16+0.5)*most, 0), most))
			}
			quant.PutZeroBlock(dst, 0.16/most, uint8(most/2), codes, bits)
			return nil
		}
	}
	return quant.Encode(dst, block, t)
}

// repeat writes n bytes of the period, starting at a block.
func (p period) repeat(block, n int) func(io.Writer) error {
	return func(w io.Writer) error {
		at := block * p.block % len(p.data)
		for left := n; left > 0; {
			piece := p.data[at:min(at+left, len(p.data))]
			if _, err := w.Write(piece); err != nil {
				return err
			}
			left, at = left-len(piece), 0
		}
		return nil
	}
}

func ones(n int) func(io.Writer) error {
	return weights.Bytes(bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, n)) // 1 in float32, little-endian
}
