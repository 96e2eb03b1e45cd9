package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/reference"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// golden holds what transformers computed in float32 for one of the random-weight checkpoints in testdata/goldens.
type golden struct {
	ckpt, data *weights.Checkpoint
}

// borrowed are the goldens that are read from the reference data.
var borrowed = []string{"mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "glm4_moe", "gpt_oss", "deepseek_v2", "deepseek_v3", "qwen3_next"}

// goldenDir returns the folder of a golden. It skips the test where that is part of the reference data, and there is none.
func goldenDir(t testing.TB, name string) string {
	t.Helper()
	if slices.Contains(borrowed, name) {
		return reference.Path(t, "goldens", name)
	}
	return filepath.Join("testdata", "goldens", name)
}

func openGolden(t *testing.T, name string) golden {
	t.Helper()
	dir := goldenDir(t, name)
	return golden{openCheckpoint(t, dir), openCheckpoint(t, dir, "golden.safetensors")}
}

func openCheckpoint(t testing.TB, path ...string) *weights.Checkpoint {
	t.Helper()
	c, err := weights.Open(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (g golden) ints(t *testing.T, name string) []int32 {
	t.Helper()
	tensor, ok := g.data.Tensor(name)
	if !ok || tensor.Type != quant.I32 {
		t.Fatalf("golden has no int32 tensor %q", name)
	}
	out := make([]int32, len(tensor.Data)/4)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(tensor.Data[i*4:]))
	}
	return out
}

func (g golden) floats(t *testing.T, name string) []float32 {
	t.Helper()
	tensor, ok := g.data.Tensor(name)
	if !ok {
		t.Fatalf("golden has no tensor %q", name)
	}
	v, err := decode(tensor)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// newRunner loads a checkpoint on a CPU device with the given kernels and makes a Runner of 512 rows and tokens.
func newRunner(t testing.TB, ckpt *weights.Checkpoint, kernels string) *Runner {
	t.Helper()
	return newRunnerOn(t, ckpt, cpu.Options{Threads: 2, Kernels: kernels, Wide: true})
}

func newRunnerOn(t testing.TB, ckpt *weights.Checkpoint, o cpu.Options) *Runner {
	t.Helper()
	dev, err := cpu.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	m, err := Load(ckpt, dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.NewRunner(512, blocksOf(m), 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var oneSequence = func() []int32 {
	blocks := make([]int32, 32)
	for i := range blocks {
		blocks[i] = int32(i)
	}
	return blocks
}()

// blocksOf returns how many blocks 32 of each group of layers are.
func blocksOf(m *Model) int {
	return 32 * max(1, compute.CacheSpec{Layers: m.Spec.KVLayers()}.Groups())
}

// tables makes a table those of a Runner's groups of layers.
func tables(r *Runner, table []int32) [][]int32 { return r.Cache().Spec().Spread(table) }

// run computes ids from position start on, in one batch, and returns the logits of all of them.
func run(t testing.TB, r *Runner, ids []int32, start int) [][]float32 {
	t.Helper()
	var b compute.Batch
	b.Append(ids, start, false, tables(r, oneSequence)...)
	for i := range ids {
		b.Logits = append(b.Logits, int32(i))
	}
	if err := r.Forward(&b); err != nil {
		t.Fatal(err)
	}
	out := make([][]float32, len(ids))
	for i := range out {
		out[i] = append([]float32(nil), r.Logits(i)...)
	}
	return out
}

// maxLogitError is the bound that every position of every golden must keep.
const maxLogitError = 2e-3

func TestGoldenLogits(t *testing.T) {
	for _, name := range goldens(t) {
		for _, kernels := range cpu.Kernels() {
			t.Run(name+"/"+kernels, func(t *testing.T) {
				g := openGolden(t, name)
				checkLogits(t, g, newRunner(t, g.ckpt, kernels))
			})
		}
	}
}

// checkLogits compares every position that the golden gives.
func checkLogits(t *testing.T, g golden, r *Runner) {
	t.Helper()
	worst := 0.0
	for i := 0; ; i++ {
		if _, ok := g.data.Tensor(fmt.Sprintf("ids_%d", i)); !ok {
			if i == 0 {
				t.Fatal("the golden has no ids_0")
			}
			break
		}
		want := g.floats(t, fmt.Sprintf("logits_%d", i))
		got := run(t, r, g.ints(t, fmt.Sprintf("ids_%d", i)), 0)
		vocab := len(got[0])
		got = got[len(got)-len(want)/vocab:] // the last ones only, where the golden does not give all
		for p := range got {
			for j, v := range got[p] {
				worst = max(worst, math.Abs(float64(v-want[p*vocab+j])))
			}
		}
	}
	t.Logf("max abs logit error %.2g", worst)
	if !(worst <= maxLogitError) {
		t.Errorf("max abs logit error %g; want at most %g", worst, maxLogitError)
	}
}

// TestGoldenFrequencies compares the frequencies of the rotary embedding, of which far positions multiply every
// difference. Powers differ by a unit in the last place between libraries.
func TestGoldenFrequencies(t *testing.T) {
	compared := 0
	for _, name := range committed(t) {
		g := openGolden(t, name)
		if _, ok := g.data.Tensor("inv_freq"); !ok {
			continue
		}
		compared++
		spec, err := ReadSpec(g.ckpt)
		if err != nil {
			t.Fatal(err)
		}
		want, got := g.floats(t, "inv_freq"), spec.Ropes[0].Freqs
		if spec.Long(len(g.ints(t, "ids_1")) + len(g.ints(t, "greedy_1"))) { // the last that was computed
			got = spec.Ropes[0].Long
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d frequencies; want %d", name, len(got), len(want))
		}
		for i, w := range want {
			if d := math.Abs(float64(got[i])/float64(w) - 1); !(d <= 4*0x1p-23) {
				t.Errorf("%s: frequency %d is %g; want %g", name, i, got[i], w)
			}
		}
	}
	if compared < 15 {
		t.Errorf("only %d goldens give frequencies", compared)
	}
}

func TestGoldenGreedy(t *testing.T) {
	for _, name := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			g := openGolden(t, name)
			checkGreedy(t, g, newRunner(t, g.ckpt, ""))
		})
	}
}

// checkGreedy continues ids_1 token by token and compares each token whose margin exceeds the allowed error. It goes on
// from the golden's tokens, so that each is judged by itself.
func checkGreedy(t *testing.T, g golden, r *Runner) {
	t.Helper()
	ids, want, margins := g.ints(t, "ids_1"), g.ints(t, "greedy_1"), g.floats(t, "greedy_margin_1")
	all := run(t, r, ids, 0)
	logits, checked := all[len(all)-1], 0
	for i, token := range want {
		best := 0
		for j, v := range logits {
			if v > logits[best] {
				best = j
			}
		}
		if margins[i] > 2*maxLogitError {
			checked++
			if int32(best) != token {
				t.Errorf("token %d is %d; want %d", i, best, token)
			}
		}
		logits = run(t, r, []int32{token}, len(ids)+i)[0]
	}
	if checked < len(want)/2 {
		t.Errorf("only %d of %d tokens had a margin to be checked by", checked, len(want))
	}
}

// goldens returns the checkpoints in testdata/goldens and those borrowed.
func goldens(t testing.TB) []string { return append(committed(t), borrowed...) }

func committed(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("testdata", "goldens"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != packedGolden {
			names = append(names, e.Name())
		}
	}
	if len(names) < 6 {
		t.Fatalf("testdata/goldens has %v; want at least 6", names)
	}
	return names
}
