package golden

import (
	"fmt"
	"math"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/weights"
)

// MaxLogitError is the bound that every position of every golden must keep.
const MaxLogitError = 2e-3

// Runner is a model.Runner with its model and device.
type Runner struct {
	*model.Runner
	Model  *model.Model
	Device compute.Device
}

// NewRunner loads a checkpoint on a CPU device with the given kernels, "" for the best, and makes a Runner of 512
// rows and tokens.
func NewRunner(t testing.TB, ckpt *weights.Checkpoint, kernels string) *Runner {
	t.Helper()
	return NewRunnerOn(t, ckpt, cpu.Options{Threads: 2, Kernels: kernels, Wide: true})
}

// NewRunnerOn is NewRunner with options of the device.
func NewRunnerOn(t testing.TB, ckpt *weights.Checkpoint, o cpu.Options) *Runner {
	t.Helper()
	dev, err := cpu.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	m, err := loader.Model(ckpt, dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	return RunnerOf(t, m, dev)
}

// RunnerOf makes a Runner of 512 rows and tokens for a model on a device.
func RunnerOf(t testing.TB, m *model.Model, dev compute.Device) *Runner {
	t.Helper()
	r, err := TryRunner(m, dev)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TryRunner is RunnerOf for a device that may refuse the model.
func TryRunner(m *model.Model, dev compute.Device) (*Runner, error) {
	blocks := 32 * max(1, compute.CacheSpec{Layers: m.Spec.KVLayers()}.Groups())
	r, err := m.NewRunner(512, blocks, 16, 32)
	return &Runner{r, m, dev}, err
}

// OneSequence is a block table of 512 tokens in blocks of 16.
var OneSequence = func() []int32 {
	blocks := make([]int32, 32)
	for i := range blocks {
		blocks[i] = int32(i)
	}
	return blocks
}()

// Tables makes a table those of the Runner's groups of layers.
func (r *Runner) Tables(table []int32) [][]int32 { return r.Cache().Spec().Spread(table) }

// Run computes ids from position start on, in one batch, and returns the logits of all of them.
func (r *Runner) Run(t testing.TB, ids []int32, start int) [][]float32 {
	t.Helper()
	return r.RunAs(t, 0, ids, start)
}

// RunAs is Run with the adapter in a slot.
func (r *Runner) RunAs(t testing.TB, adapter int32, ids []int32, start int) [][]float32 {
	t.Helper()
	var b compute.Batch
	b.Append(ids, start, false, r.Tables(OneSequence)...)
	b.Seqs[0].Adapter = adapter
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

// CheckLogits compares every position that a golden gives.
func CheckLogits(t testing.TB, g Golden, r *Runner) {
	t.Helper()
	worst := 0.0
	for i := 0; i == 0 || g.Has(fmt.Sprintf("ids_%d", i)); i++ {
		want := g.Floats(t, fmt.Sprintf("logits_%d", i))
		got := r.Run(t, g.Ints(t, fmt.Sprintf("ids_%d", i)), 0)
		vocab := len(got[0])
		got = got[len(got)-len(want)/vocab:] // the last ones only, where the golden does not give all
		for p := range got {
			for j, v := range got[p] {
				worst = max(worst, math.Abs(float64(v-want[p*vocab+j])))
			}
		}
	}
	t.Logf("max abs logit error %.2g", worst)
	if !(worst <= MaxLogitError) {
		t.Errorf("max abs logit error %g; want at most %g", worst, MaxLogitError)
	}
}

// SameBits compares rows to the last bit.
func SameBits(t testing.TB, what string, got, want [][]float32) {
	t.Helper()
	for p := range want {
		for j, w := range want[p] {
			if math.Float32bits(got[p][j]) != math.Float32bits(w) {
				t.Fatalf("%s: row %d: value %d is %g; want %g", what, p, j, got[p][j], w)
			}
		}
	}
}

// Relative returns |got - want| / |want| in the Euclidean norm.
func Relative(got, want [][]float32) float64 {
	var diff, all float64
	for p := range want {
		for j, w := range want[p] {
			d := float64(got[p][j]) - float64(w)
			diff, all = diff+d*d, all+float64(w)*float64(w)
		}
	}
	return math.Sqrt(diff / all)
}
