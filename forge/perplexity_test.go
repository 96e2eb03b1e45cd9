package forge

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

func TestWindows(t *testing.T) {
	ten := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, test := range []struct {
		o    PerplexityOptions
		want string // each window's tokens, with | before the first that counts
	}{
		{PerplexityOptions{Context: 4, BOS: -1}, "0|123 4|567 8|9"},
		{PerplexityOptions{Context: 10, BOS: -1}, "0|123456789"},
		{PerplexityOptions{Context: 12, BOS: -1}, "0|123456789"},
		{PerplexityOptions{Context: 3, BOS: -1}, "0|12 3|45 6|78"},
		{PerplexityOptions{Context: 4, Stride: 2, BOS: -1}, "0|123 23|45 45|67 67|89"},
		{PerplexityOptions{Context: 4, Stride: 1, BOS: -1}, "0|123 123|4 234|5 345|6 456|7 567|8 678|9"},
		{PerplexityOptions{Context: 4, BOS: 99}, "B|012 B|345 B|678 B|9"},
		{PerplexityOptions{Context: 4, Stride: 2, BOS: 99}, "B|012 B2|34 B4|56 B6|78 B8|9"},
		{PerplexityOptions{Context: 4, SecondHalf: true, BOS: -1}, "012|3 456|7"},
		{PerplexityOptions{Context: 4, SecondHalf: true, BOS: 99}, "B01|2 B45|6"},
	} {
		list, err := test.o.windows(ten)
		if err != nil {
			t.Errorf("%+v: %v", test.o, err)
		}
		var got []string
		for _, w := range list {
			s := ""
			for i, id := range w.ids {
				if i == w.from {
					s += "|"
				}
				s += strings.Replace(fmt.Sprint(id), "99", "B", 1)
			}
			got = append(got, s)
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%+v:\n got %s\nwant %s", test.o, got, test.want)
		}
	}
}

func TestWindowsRefused(t *testing.T) {
	for want, o := range map[string]PerplexityOptions{
		"windows of 1 tokens; want at least 2":         {Context: 1, BOS: -1},
		"windows of 2 tokens; want at least 3":         {Context: 2, BOS: 9},
		"a stride of 5; want 1 to 4":                   {Context: 4, Stride: 5, BOS: -1},
		"a stride of -1; want 1 to 4":                  {Context: 4, Stride: -1, BOS: -1},
		"windows of llama.cpp's definition":            {Context: 4, Stride: 2, SecondHalf: true, BOS: -1},
		"a text of 1 tokens; want at least one window": {Context: 4, SecondHalf: true, BOS: -1},
		"a text of 1 tokens; want at least 2":          {Context: 4, BOS: -1},
	} {
		if _, err := o.windows([]int32{7}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v; want %q", o, err, want)
		}
	}
}

const goldens = "../model/testdata/goldens"

// loaded opens a golden checkpoint, or the file of it that is named, and loads it.
func loaded(t *testing.T, ckpt *weights.Checkpoint) *model.Model {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 2, Wide: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	m, err := loader.Model(ckpt, dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func opened(t *testing.T, path ...string) *weights.Checkpoint {
	t.Helper()
	ckpt, err := weights.Open(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ckpt.Close() })
	return ckpt
}

// expected returns the tokens of golden number i and the logits that transformers computed.
func expected(t *testing.T, name string, i int) ([]int32, [][]float32) {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(goldens, name)
	}
	data := opened(t, name, "golden.safetensors")
	tokens, _ := data.Tensor(fmt.Sprintf("ids_%d", i))
	stored, ok := data.Tensor(fmt.Sprintf("logits_%d", i))
	if !ok {
		t.Fatalf("golden %s has no logits_%d", name, i)
	}
	ids := make([]int32, len(tokens.Data)/4)
	for i := range ids {
		ids[i] = int32(binary.LittleEndian.Uint32(tokens.Data[i*4:]))
	}
	flat := make([]float32, stored.Values())
	if err := quant.Decode(flat, stored.Data, stored.Type); err != nil {
		t.Fatal(err)
	}
	return ids, slices.Collect(slices.Chunk(flat, stored.Shape[len(stored.Shape)-1]))
}

// TestPerplexity holds the result to that of transformers' logits, in one window and in windows of which each token but
// the first counts once.
func TestPerplexity(t *testing.T) {
	for _, name := range []string{"llama", "qwen3", "gemma3"} {
		ids, logits := expected(t, name, 1)
		if len(logits) != len(ids) {
			t.Fatalf("golden %s has %d rows of logits for %d tokens", name, len(logits), len(ids))
		}
		want := 0.0
		for i, id := range ids[1:] {
			want += loss(logits[i], id)
		}
		want /= float64(len(ids) - 1)
		m := loaded(t, opened(t, goldens, name))
		calls := 0
		got, err := MeasurePerplexity(context.Background(), m, ids, PerplexityOptions{Context: len(ids), BOS: -1,
			Progress: func(done, total int, _ Perplexity) { calls++ }})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.NLL-want) > 1e-4 || got.Predicted != len(ids)-1 || got.Windows != 1 || calls == 0 || !(got.Error > 0) {
			t.Errorf("%s: %+v; want an NLL of %g over %d tokens", name, got, want, len(ids)-1)
		}
		got, err = MeasurePerplexity(context.Background(), m, ids, PerplexityOptions{Context: 8, Stride: 3, BOS: -1})
		if err != nil || got.Predicted != len(ids)-1 {
			t.Errorf("%s, overlapping: %+v, %v; want %d tokens", name, got, err, len(ids)-1)
		}
	}
}

func TestPerplexityStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	m := loaded(t, opened(t, goldens, "llama"))
	_, err := MeasurePerplexity(ctx, m, make([]int32, 100), PerplexityOptions{Context: 10, BOS: -1,
		Progress: func(int, int, Perplexity) { cancel() }})
	if err != context.Canceled {
		t.Errorf("error %v; want %v", err, context.Canceled)
	}
}
