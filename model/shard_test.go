package model_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestShards divides models, adds up on the host what the mixers and the feed-forwards of all parts yield, and joins
// the logits of their heads: they are those of the whole, but for the order of summation.
func TestShards(t *testing.T) {
	for _, test := range []struct {
		name string
		of   int
		ckpt func(*weights.Checkpoint) *weights.Checkpoint // nil is as it is
	}{
		{"llama", 2, nil},
		{"llama_biases", 2, nil},
		{"qwen3", 2, nil}, // tied, with norms of heads
		{"qwen2", 4, nil}, // with more parts than KV heads
		{"mixtral", 2, nil},
		{"gpt_oss", 2, nil}, // with sinks and biases of experts
		{"deepseek_v3", 2, nil},
		{"llama", 2, func(c *weights.Checkpoint) *weights.Checkpoint { return golden.AsGGUF(t, c, quant.Q8_0) }},
	} {
		t.Run(fmt.Sprint(test.name, "/", test.of, test.ckpt != nil), func(t *testing.T) {
			g := golden.Open(t, test.name)
			ckpt := g.Ckpt
			if test.ckpt != nil {
				ckpt = test.ckpt(ckpt)
			}
			ids := g.Ints(t, "ids_1")
			ids = ids[:min(len(ids), 32)]
			want, got := divided(t, ckpt, test.of, ids)
			if test.ckpt == nil && test.name == "llama_biases" { // in whose GGUF the halves of heads alternate
				whole, again := divided(t, golden.AsGGUF(t, ckpt, quant.F32), test.of, ids)
				golden.SameBits(t, "GGUF", whole, want)
				golden.SameBits(t, "divided GGUF", again, got)
			}
			e := golden.Relative(got, want)
			t.Logf("relative error %.2g", e)
			bound := 1e-5
			if test.ckpt != nil { // activations are quantised, in blocks that are divided too
				bound = 0.05
			}
			if !(e < bound) {
				t.Errorf("relative error of the logits is %g; want at most %g", e, bound)
			}
		})
	}
}

// divided computes the logits of ids by a model and by its parts.
func divided(t *testing.T, ckpt *weights.Checkpoint, of int, ids []int32) (want, got [][]float32) {
	t.Helper()
	whole := golden.NewRunner(t, ckpt, "")
	want = whole.Run(t, ids, 0)
	spec, dev := whole.Model.Spec, whole.Device
	var parts []*model.Model
	for rank := range of {
		m, err := loader.Part(ckpt, dev, rank, of, nil)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, m)
	}
	x, _ := piece(t, dev, whole.Model, model.Piece{}, nil, ids)
	sum := func(p model.Piece) {
		before := x
		x = nil
		for _, row := range before {
			x = append(x, append([]float32(nil), row...))
		}
		for _, part := range parts {
			out, _ := piece(t, dev, part, p, before, ids)
			for r, row := range out {
				for i, v := range row {
					x[r][i] += v * spec.ResidualScale
				}
			}
		}
	}
	for i, l := range spec.Layers {
		if !l.PreNorm || l.PostNorm || l.Parallel || l.SumNorm {
			t.Fatalf("layer %d has another residual scheme than this test", i)
		}
		sum(model.Piece{Layer: i})
		sum(model.Piece{Layer: i, FFN: true})
	}
	logits := make([][]float32, len(ids))
	for _, part := range parts {
		_, own := piece(t, dev, part, model.Piece{Head: true}, x, ids)
		for r := range own {
			logits[r] = append(logits[r], own[r]...)
		}
	}
	return want, logits
}

// piece runs a piece of a model over a sequence: on rows, or on the embeddings of ids if there are none.
func piece(t *testing.T, dev compute.Device, m *model.Model, p model.Piece, rows [][]float32, ids []int32) (hidden, logits [][]float32) {
	t.Helper()
	var b compute.Batch
	if rows != nil {
		src := compute.Source{Name: "rows", Type: quant.F32, Out: len(rows), In: len(rows[0])}
		ids = nil
		for r, row := range rows {
			ids = append(ids, int32(r))
			for _, v := range row {
				src.Data = binary.LittleEndian.AppendUint32(src.Data, math.Float32bits(v))
			}
		}
		var err error
		if p.Inputs, err = dev.Matrix(src); err != nil {
			t.Fatal(err)
		}
	}
	cache, err := dev.Cache(m.Spec.Cache(32, 16, 1))
	if err != nil {
		t.Fatal(err)
	}
	program, err := dev.Compile(p.Graph(m, len(rows)), cache, compute.Limits{Rows: len(ids), Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	b.Append(ids, 0, false, cache.Spec().Spread(golden.OneSequence[:4])...)
	for r := range ids {
		if b.Hidden = append(b.Hidden, int32(r)); p.Head {
			b.Logits = append(b.Logits, int32(r))
		}
	}
	b.ReadAll()
	step, err := program.Start(&b)
	if err == nil {
		err = step.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	for r := range ids {
		if hidden = append(hidden, append([]float32(nil), step.Hidden(r)...)); p.Head {
			logits = append(logits, append([]float32(nil), step.Logits(r)...))
		}
	}
	return hidden, logits
}

// TestShardRefuses divides what cannot be divided.
func TestShardRefuses(t *testing.T) {
	for _, test := range []struct {
		name     string
		rank, of int
		want     string
	}{
		{"llama", 2, 2, "llama: part 2 of 2"},
		{"llama", -1, 2, "llama: part -1 of 2"},
		{"llama_3heads", 0, 2, "cannot be divided by 2"},
		{"llama", 0, 3, "cannot be divided by 3"},
		{"qwen3_small", 0, 2, "a vocabulary of 93 cannot be divided by 2"},
		{"qwen3_next", 0, 2, "layer 0: a gated delta net cannot be divided by 2: that is not supported"},
		{"olmo2", 0, 2, "has gains for more than one head; such norms cannot be divided by 2"},
	} {
		dev, err := cpu.New(cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := loader.Part(golden.Open(t, test.name).Ckpt, dev, test.rank, test.of, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s, part %d of %d: error %v; want %q", test.name, test.rank, test.of, err, test.want)
		}
		dev.Close()
	}
	a, spec := model.GQA{Heads: 12, KVHeads: 6, HeadDim: 8, ValueDim: 8}, model.Spec{Family: "test", Vocab: 8, Hidden: 8, Context: 8}
	spec.Layers = []model.Layer{{Mixer: a, FFN: model.FeedForward{Width: 8}}}
	for of, want := range map[int]string{
		4: "layer 0: 6 KV heads cannot be divided by 4, nor repeated evenly", 8: "layer 0: 12 query heads cannot be divided by 8",
		3: "a vocabulary of 8 cannot be divided by 3",
	} {
		if _, err := spec.Shard(0, of); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of %d: error %v; want %q", of, err, want)
		}
	}
	part, err := spec.Shard(1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got := part.Layers[0].Mixer.(model.GQA); got.Heads != 6 || got.KVHeads != 3 || part.Layers[0].FFN.Width != 4 || part.Outputs() != 4 || spec.Layers[0].Mixer != a {
		t.Errorf("%+v", part)
	}
	if _, err := part.Shard(0, 2); err == nil || !strings.Contains(err.Error(), "it is part 1 of 2 already") {
		t.Errorf("error %v", err)
	}
}
