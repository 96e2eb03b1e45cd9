package loader_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// BenchmarkLoad takes four layers and both vocabulary matrices of a BF16 Llama of 1.1 billion parameters over to the
// device, 0.6 GB of its 2.2. It reports MB/s of the checkpoint, and the device's memory as a multiple of the
// checkpoint's size.
func BenchmarkLoad(b *testing.B) {
	if testing.Short() {
		b.Skip("writes a file of 0.6 GB and needs twice that in memory; left out by -short")
	}
	ckpt := largeGGUF(b, 2048, 5632, 4, 32, 4, 32000)
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	b.SetBytes(ckpt.Size())
	for b.Loop() {
		m, err := loader.Model(ckpt, dev, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(m.Bytes)/float64(ckpt.Size()), "bytes/byte")
	}
}

// largeGGUF writes a Llama of zeros in BF16.
func largeGGUF(b *testing.B, hidden, width, layers, heads, kvHeads, vocab int) *weights.Checkpoint {
	b.Helper()
	meta := []weights.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.embedding_length", Value: uint32(hidden)},
		{Key: "llama.block_count", Value: uint32(layers)},
		{Key: "llama.attention.head_count", Value: uint32(heads)},
		{Key: "llama.attention.head_count_kv", Value: uint32(kvHeads)},
		{Key: "llama.feed_forward_length", Value: uint32(width)},
		{Key: "llama.context_length", Value: uint32(2048)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
	}
	names := llamaNames(weights.GGUF)
	var tensors []weights.Source
	zeros := make([]byte, 2*max(vocab, width)*hidden)
	add := func(slot string, i int, shape ...int) {
		typ, size := quant.BF16, 2
		if len(shape) == 1 {
			typ, size = quant.F32, 4
		}
		for _, n := range shape {
			size *= n
		}
		tensors = append(tensors, weights.Source{Name: names.Name(slot, i) + ".weight", Type: typ, Shape: shape, Write: weights.Bytes(zeros[:size])})
	}
	add("embed", 0, vocab, hidden)
	add("norm", 0, hidden)
	add("head", 0, vocab, hidden)
	kv := hidden / heads * kvHeads
	for i := range layers {
		add("attn.norm", i, hidden)
		add("q", i, hidden, hidden)
		add("k", i, kv, hidden)
		add("v", i, kv, hidden)
		add("o", i, hidden, hidden)
		add("ffn.norm", i, hidden)
		add("gate", i, width, hidden)
		add("up", i, width, hidden)
		add("down", i, hidden, width)
	}
	path := filepath.Join(b.TempDir(), "large.gguf")
	file, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	if err := weights.WriteGGUF(file, meta, tensors); err != nil {
		b.Fatal(err)
	}
	return golden.Checkpoint(b, path)
}
