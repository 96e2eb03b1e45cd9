//go:build ignore

// Command generate quantises a Llama checkpoint from a folder (config.json, tokenizer.json, tokenizer_config.json,
// generation_config.json, model.safetensors) to Q8_0 and writes it as one GGUF with its tokenizer and chat template.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

var (
	dir = flag.String("model", "", "folder of the checkpoint")
	out = flag.String("out", "kvasir-mini-q8_0.gguf", "file to write")
)

type config struct {
	Hidden  uint32  `json:"hidden_size"`
	Layers  uint32  `json:"num_hidden_layers"`
	Heads   uint32  `json:"num_attention_heads"`
	KVHeads uint32  `json:"num_key_value_heads"`
	HeadDim uint32  `json:"head_dim"`
	Width   uint32  `json:"intermediate_size"`
	Context uint32  `json:"max_position_embeddings"`
	Eps     float32 `json:"rms_norm_eps"`
	Theta   float32 `json:"rope_theta"`
	Vocab   uint32  `json:"vocab_size"`
}

func main() {
	flag.Parse()
	log.SetFlags(0)
	var c config
	read("config.json", &c)
	ckpt, err := weights.Open(*dir)
	check(err)
	var tensors []weights.Source
	for _, t := range ckpt.Tensors() {
		tensors = append(tensors, convert(ckpt, t, c))
	}
	f, err := os.Create(*out)
	check(err)
	check(weights.WriteGGUF(f, metadata(c), tensors))
	check(f.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func read(name string, into any) {
	data, err := os.ReadFile(filepath.Join(*dir, name))
	check(err)
	check(json.Unmarshal(data, into))
}

func metadata(c config) []weights.KV {
	return append([]weights.KV{
		{"general.architecture", "llama"},
		{"general.name", "kvasir-mini"},
		{"general.license", "apache-2.0"},
		{"general.file_type", uint32(7)}, // mostly Q8_0
		{"general.quantization_version", uint32(2)},
		{"general.sampling.temp", float32(0)}, // generation_config.json says do_sample: false
		{"llama.block_count", c.Layers},
		{"llama.context_length", c.Context},
		{"llama.embedding_length", c.Hidden},
		{"llama.feed_forward_length", c.Width},
		{"llama.attention.head_count", c.Heads},
		{"llama.attention.head_count_kv", c.KVHeads},
		{"llama.attention.key_length", c.HeadDim},
		{"llama.attention.value_length", c.HeadDim},
		{"llama.attention.layer_norm_rms_epsilon", c.Eps},
		{"llama.rope.freq_base", c.Theta},
		{"llama.rope.dimension_count", c.HeadDim},
		{"llama.vocab_size", c.Vocab},
	}, tokenizerMetadata(c)...)
}

// Token types of GGUF.
const (
	tokenNormal  = 1
	tokenControl = 3
	tokenUser    = 4
)

func tokenizerMetadata(c config) []weights.KV {
	var t struct {
		Added []struct {
			ID      int
			Content string
			Special bool
		} `json:"added_tokens"`
		Model struct {
			Vocab  map[string]int
			Merges []json.RawMessage
		}
	}
	read("tokenizer.json", &t)
	tokens, types := make([]string, c.Vocab), make([]int32, c.Vocab)
	for s, id := range t.Model.Vocab {
		tokens[id], types[id] = s, tokenNormal
	}
	for _, a := range t.Added {
		tokens[a.ID], types[a.ID] = a.Content, tokenUser
		if a.Special {
			types[a.ID] = tokenControl
		}
	}
	var merges []string
	for _, m := range t.Model.Merges {
		var pair []string
		var joined string
		if json.Unmarshal(m, &pair) == nil {
			joined = strings.Join(pair, " ")
		} else {
			check(json.Unmarshal(m, &joined))
		}
		merges = append(merges, joined)
	}
	var tc struct {
		Template string `json:"chat_template"`
	}
	read("tokenizer_config.json", &tc)
	var g struct {
		BOS uint32   `json:"bos_token_id"`
		EOS []uint32 `json:"eos_token_id"`
		PAD uint32   `json:"pad_token_id"`
	}
	read("generation_config.json", &g)
	return []weights.KV{
		{"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.pre", "qwen2"},
		{"tokenizer.ggml.tokens", tokens},
		{"tokenizer.ggml.token_type", types},
		{"tokenizer.ggml.merges", merges},
		{"tokenizer.ggml.bos_token_id", g.BOS},
		{"tokenizer.ggml.eos_token_id", g.EOS[0]},
		{"tokenizer.ggml.eot_token_id", g.EOS[0]},
		{"tokenizer.ggml.eos_token_ids", g.EOS},
		{"tokenizer.ggml.padding_token_id", g.PAD},
		{"tokenizer.ggml.add_bos_token", false},
		{"tokenizer.ggml.add_eos_token", false},
		{"tokenizer.chat_template", tc.Template},
	}
}

var names = strings.NewReplacer("model.embed_tokens", "token_embd", "model.norm", "output_norm", "lm_head", "output",
	"model.layers", "blk", "input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm",
	"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output",
	"mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down")

// convert renames a tensor, puts rotated rows in pairs of neighbours, and quantises matrices.
func convert(ckpt *weights.Checkpoint, info weights.Info, c config) weights.Source {
	t, _ := ckpt.Tensor(info.Name)
	v := make([]float32, t.Values())
	check(quant.Decode(v, t.Data, t.Type))
	switch {
	case strings.Contains(t.Name, "q_proj"):
		v = neighbours(v, int(c.Heads), t.Shape[1])
	case strings.Contains(t.Name, "k_proj"):
		v = neighbours(v, int(c.KVHeads), t.Shape[1])
	}
	s := weights.Source{Name: names.Replace(t.Name), Type: quant.Q8_0, Shape: t.Shape}
	if len(t.Shape) == 1 {
		s.Type = quant.F32
	}
	n, err := s.Type.RowBytes(len(v))
	check(err)
	data := make([]byte, n)
	check(quant.Encode(data, v, s.Type))
	s.Write = weights.Bytes(data)
	fmt.Println(s.Name, s.Type, s.Shape)
	return s
}

// neighbours reorders the rows of each head: row i of its first half and row i of its second half become rows 2i and
// 2i+1.
func neighbours(v []float32, heads, in int) []float32 {
	out := make([]float32, 0, len(v))
	half := len(v) / heads / in / 2
	for h := range heads {
		head := v[h*2*half*in:]
		for i := range half {
			out = append(out, head[i*in:][:in]...)
			out = append(out, head[(half+i)*in:][:in]...)
		}
	}
	return out
}
