package loader_test

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/internal/reference"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// adapted loads a checkpoint as newRunner does and places adapters in its slots, in order.
func adapted(t testing.TB, ckpt *weights.Checkpoint, kernels string, adapters ...*weights.Checkpoint) *golden.Runner {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 2, Kernels: kernels, Wide: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	m, err := loader.Model(ckpt, dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.MakeSlots(len(adapters))
	r := golden.RunnerOf(t, m, dev)
	for i, c := range adapters {
		a, err := loader.Adapter(m, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.PlaceNow(i+1, a); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestAdapterGoldens compares what two adapters and the base compute, mixed in one batch, with what transformers and
// PEFT computed in float32.
func TestAdapterGoldens(t *testing.T) {
	dir := reference.Path(t, "goldens", "llama")
	names := []string{"", "lora_a", "lora_b"}
	var adapters []*weights.Checkpoint
	var wants []golden.Golden
	for _, name := range names {
		wants = append(wants, golden.Golden{Data: golden.Checkpoint(t, dir, name, "golden.safetensors")})
		if name != "" {
			adapters = append(adapters, golden.Checkpoint(t, dir, name, "adapter_model.safetensors"))
		}
	}
	for _, kernels := range cpu.Kernels() {
		r := adapted(t, golden.Checkpoint(t, dir, "model.safetensors"), kernels, adapters...)
		var b compute.Batch
		for i := range names {
			ids := wants[i].Ints(t, "ids_1")
			b.Append(ids, 0, false, r.Tables(golden.OneSequence[i*8:][:8])...)
			b.Seqs[i].Adapter = int32(i)
			for row := range ids {
				b.Logits = append(b.Logits, b.Seqs[i].Row+int32(row))
			}
		}
		if err := r.Forward(&b); err != nil {
			t.Fatal(err)
		}
		at := 0
		for i, name := range names {
			worst, want, rows := 0.0, wants[i].Floats(t, "logits_1"), len(wants[i].Ints(t, "ids_1"))
			for p := range rows {
				for j, v := range r.Logits(at + p) {
					worst = max(worst, math.Abs(float64(v-want[p*r.Model.Spec.Vocab+j])))
				}
			}
			at += rows
			t.Logf("%s %q: max abs logit error %.2g", kernels, name, worst)
			if !(worst <= golden.MaxLogitError) {
				t.Errorf("%s %q: max abs logit error %g; want at most %g", kernels, name, worst, golden.MaxLogitError)
			}
		}
	}
}

// matrices are a random adapter's for one module of a golden checkpoint.
type matrices struct {
	rank, in, out int
	a, b          []float32
	scale         float64
}

// peftOf makes a random adapter for all linear weights of a golden's layers, with ranks and alphas that differ, and the
// configuration that says so.
func peftOf(t *testing.T, rng *rand.Rand, g golden.Golden, transposed bool) (map[string]matrices, map[string]any) {
	t.Helper()
	out := map[string]matrices{}
	config := map[string]any{
		"peft_type": "LORA", "r": 4, "lora_alpha": 6, "use_rslora": true, "target_modules": "all-linear", "bias": "none",
		"rank_pattern": map[string]any{"o_proj": 3, `.*\.1\..*down_proj`: 17, "c_attn": 5}, "alpha_pattern": map[string]any{"o_proj": 2.5},
		"lora_dropout": 0.1, "fan_in_fan_out": transposed,
	}
	for _, info := range g.Ckpt.Tensors() {
		layer := strings.Contains(info.Name, "layers.") || strings.Contains(info.Name, ".h.")
		if len(info.Shape) != 2 || !layer || strings.Contains(info.Name, ".experts.") {
			continue
		}
		path := strings.TrimSuffix(info.Name, ".weight")
		m := matrices{rank: 4, out: info.Shape[0], in: info.Shape[1]}
		if transposed {
			m.in, m.out = m.out, m.in
		}
		alpha := 6.0
		switch {
		case strings.HasSuffix(path, ".o_proj"):
			m.rank, alpha = 3, 2.5
		case strings.HasSuffix(path, "c_attn"):
			m.rank = 5
		case strings.Contains(path, ".1.") && strings.HasSuffix(path, ".down_proj"):
			m.rank = 17
		}
		m.scale = alpha / math.Sqrt(float64(m.rank))
		m.a, m.b = small(rng, m.rank*m.in), small(rng, m.out*m.rank)
		out[path] = m
	}
	return out, config
}

func small(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64() * 0.1)
	}
	return v
}

// delta returns scale·B·A, [out, in].
func (m matrices) delta() []float32 {
	d := make([]float32, m.out*m.in)
	for o := range m.out {
		for i := range m.in {
			sum := 0.0
			for r := range m.rank {
				sum += float64(m.b[o*m.rank+r]) * float64(m.a[r*m.in+i])
			}
			d[o*m.in+i] = float32(sum * m.scale)
		}
	}
	return d
}

// merged returns the golden's checkpoint with the adapter added to its weights.
func merged(t *testing.T, g golden.Golden, lora map[string]matrices, transposed bool) *weights.Checkpoint {
	t.Helper()
	var tensors []weights.Source
	for _, info := range g.Ckpt.Tensors() {
		v := golden.Values(t, g.Ckpt, info.Name)
		if m, ok := lora[strings.TrimSuffix(info.Name, ".weight")]; ok {
			d := m.delta()
			if transposed {
				d = columns(d, m.in)
			}
			for i := range v {
				v[i] += d[i]
			}
		}
		tensors = append(tensors, golden.Source(t, info.Name, quant.F32, info.Shape, v))
	}
	config, err := g.Ckpt.Config("config.json")
	if err != nil {
		t.Fatal(err)
	}
	return golden.Folder(t, "model.safetensors", tensors, "config.json", config)
}

func writePEFT(t *testing.T, lora map[string]matrices, config map[string]any) *weights.Checkpoint {
	t.Helper()
	var tensors []weights.Source
	for path, m := range lora {
		tensors = append(tensors,
			golden.Source(t, "base_model.model."+path+".lora_A.weight", quant.F32, []int{m.rank, m.in}, m.a),
			golden.Source(t, "base_model.model."+path+".lora_B.weight", quant.F32, []int{m.out, m.rank}, m.b))
	}
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return golden.Folder(t, "adapter_model.safetensors", tensors, "adapter_config.json", data)
}

// writeGGUFAdapter writes the adapter as llama.cpp's converter does. Such a file has one alpha and no rsLoRA: what
// remains of the scale goes into B.
func writeGGUFAdapter(t *testing.T, g golden.Golden, arch string, lora map[string]matrices) *weights.Checkpoint {
	t.Helper()
	spec := golden.Spec(t, g.Ckpt)
	theirs, ours := family.LayoutOf(spec, g.Ckpt), family.LayoutIn(spec, weights.GGUF)
	const alpha = 8
	var tensors []weights.Source
	for path, m := range lora {
		slot, layer, _ := find(t, theirs.Slots, path+".weight")
		b := make([]float32, len(m.b))
		for i, v := range m.b {
			b[i] = v * float32(m.scale*float64(m.rank)/alpha)
		}
		if ours.Permuted && (slot == "q" || slot == "k") {
			b = permuted(b, m.out, spec.Layers[layer].Mixer.(model.GQA).HeadDim)
		}
		name := ours.Slots.Name(slot, layer) + ".weight"
		tensors = append(tensors, golden.Source(t, name+".lora_a", quant.F32, []int{m.rank, m.in}, m.a),
			golden.Source(t, name+".lora_b", quant.F32, []int{m.out, m.rank}, b))
	}
	return golden.GGUF(t, []weights.KV{{Key: "general.architecture", Value: arch}, {Key: "general.type", Value: "adapter"},
		{Key: "adapter.type", Value: "lora"}, {Key: "adapter.lora.alpha", Value: float32(alpha)}}, tensors)
}

// TestAdapterEqualsMerged compares bases with adapters, from PEFT and from GGUF on either kind of checkpoint, with
// the same weights added up beforehand.
func TestAdapterEqualsMerged(t *testing.T) {
	for name, arch := range map[string]string{"llama": "llama", "phi3": "phi3", "gpt2": "gpt2", "gemma2": "gemma2", "qwen2": "qwen2",
		"granite": "granite", "smollm3": "smollm3", "cohere": "command-r", "starcoder2": "starcoder2", "qwen2_moe": "qwen2moe"} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			g := golden.Open(t, name)
			lora, config := peftOf(t, rng, g, name == "gpt2")
			ids := g.Ints(t, "ids_0")
			want, base := golden.NewRunner(t, merged(t, g, lora, name == "gpt2"), "").Run(t, ids, 0), golden.NewRunner(t, g.Ckpt, "").Run(t, ids, 0)
			if change := golden.Relative(base, want); change < 0.01 {
				t.Fatalf("the adapter changes the logits by %g; too little for a comparison", change)
			}
			adapters := map[string]*weights.Checkpoint{"PEFT": writePEFT(t, lora, config), "GGUF": writeGGUFAdapter(t, g, arch, lora)}
			for from, adapter := range adapters {
				var on [2][][]float32
				for i, ckpt := range []*weights.Checkpoint{g.Ckpt, golden.AsGGUF(t, g.Ckpt, quant.F32)} {
					on[i] = adapted(t, ckpt, "", adapter).RunAs(t, 1, ids, 0)
					if e := golden.Relative(on[i], want); !(e < 1e-4) {
						t.Errorf("%s adapter on %v: relative error %g", from, ckpt.Format(), e)
					}
				}
				golden.SameBits(t, from+" adapter on GGUF", on[1], on[0])
			}
		})
	}
}

// TestAdaptersInCompany computes sequences with three adapters and without, in one batch and again in random pieces
// beside others in every implementation of the kernels: the bits are those of each alone.
func TestAdaptersInCompany(t *testing.T) {
	g := golden.Open(t, "phi3")
	rng := rand.New(rand.NewPCG(5, 6))
	var adapters []*weights.Checkpoint
	for range 3 {
		lora, config := peftOf(t, rng, g, false)
		adapters = append(adapters, writePEFT(t, lora, config))
	}
	ids := make([]int32, 60)
	for i := range ids {
		ids[i] = int32(rng.IntN(200))
	}
	var want [4][][]float32
	for _, kernels := range cpu.Kernels() {
		r := adapted(t, g.Ckpt, kernels, adapters...)
		for a := range want {
			if got := r.RunAs(t, int32(a), ids, 0); want[a] == nil {
				want[a] = got
			} else {
				golden.SameBits(t, kernels, got, want[a])
			}
		}
		var done [4]int
		for done != [4]int{len(ids), len(ids), len(ids), len(ids)} {
			var b compute.Batch
			var whose [][2]int
			for _, a := range rng.Perm(4) {
				if n := min(1+rng.IntN(20), len(ids)-done[a]); n > 0 && rng.IntN(3) > 0 {
					b.Append(ids[done[a]:done[a]+n], done[a], false, r.Tables(golden.OneSequence[a*8:][:8])...)
					b.Seqs[len(b.Seqs)-1].Adapter = int32(a)
					for i := range n {
						b.Logits = append(b.Logits, int32(len(b.Logits)))
						whose = append(whose, [2]int{a, done[a] + i})
					}
					done[a] += n
				}
			}
			if len(whose) == 0 {
				continue
			}
			if err := r.Forward(&b); err != nil {
				t.Fatal(err)
			}
			for i, w := range whose {
				golden.SameBits(t, kernels, [][]float32{r.Logits(i)}, want[w[0]][w[1]:][:1])
			}
		}
	}
}

// TestAdapterID changes one number, one scale and the order of an adapter's tensors: only the last leaves its ID.
func TestAdapterID(t *testing.T) {
	g := golden.Open(t, "llama")
	r := adapted(t, g.Ckpt, "")
	lora, config := peftOf(t, rand.New(rand.NewPCG(1, 1)), g, false)
	id := func(change func(lora map[string]matrices, config map[string]any)) [32]byte {
		l, c := maps.Clone(lora), maps.Clone(config)
		change(l, c)
		a, err := loader.Adapter(r.Model, writePEFT(t, l, c))
		if err != nil {
			t.Fatal(err)
		}
		return a.ID
	}
	plain := id(func(map[string]matrices, map[string]any) {})
	if again := id(func(map[string]matrices, map[string]any) {}); again != plain {
		t.Error("the same adapter, written in another order, has another ID")
	}
	if id(func(_ map[string]matrices, c map[string]any) { c["lora_alpha"] = 7 }) == plain {
		t.Error("another alpha leaves the ID")
	}
	if id(func(l map[string]matrices, _ map[string]any) {
		m := l["model.layers.0.mlp.up_proj"]
		m.b = append([]float32(nil), m.b...)
		m.b[3]++
		l["model.layers.0.mlp.up_proj"] = m
	}) == plain {
		t.Error("another number leaves the ID")
	}
}

// TestAdaptersAllocateNothing decodes four sequences with three adapters and none.
func TestAdaptersAllocateNothing(t *testing.T) {
	g := golden.Open(t, "phi3")
	rng := rand.New(rand.NewPCG(8, 8))
	var adapters []*weights.Checkpoint
	for range 3 {
		lora, config := peftOf(t, rng, g, false)
		adapters = append(adapters, writePEFT(t, lora, config))
	}
	r := adapted(t, g.Ckpt, "", adapters...)
	var b compute.Batch
	pos := 0
	var tables [4][][]int32
	for i := range tables {
		tables[i] = [][]int32{golden.OneSequence[i*8:][:8]}
	}
	step := func() {
		b.Reset()
		for i := range tables {
			b.Append([]int32{5}, pos, true, tables[i]...)
			b.Seqs[i].Adapter = int32(i)
		}
		if err := r.Forward(&b); err != nil {
			t.Fatal(err)
		}
		pos++
	}
	for range 70 { // until scratch memory has grown
		step()
	}
	if n := testing.AllocsPerRun(50, step); n != 0 {
		t.Errorf("a decode step allocates %v times", n)
	}
}

// columns returns the values of a matrix of rows of width values column by column.
func columns(v []float32, width int) []float32 {
	var out []float32
	for c := range width {
		for r := c; r < len(v); r += width {
			out = append(out, v[r])
		}
	}
	return out
}

// permuted reorders the rows of queries or keys so that the two halves of a head alternate.
func permuted(v []float32, rows, headDim int) []float32 {
	out, width := make([]float32, 0, len(v)), len(v)/rows
	for head := 0; head < rows; head += headDim {
		for i := range headDim / 2 {
			for _, row := range []int{head + i, head + headDim/2 + i} {
				out = append(out, v[row*width:][:width]...)
			}
		}
	}
	return out
}

// find returns the slot, layer and suffix of a tensor.
func find(t *testing.T, s family.Slots, name string) (slot string, layer int, suffix string) {
	t.Helper()
	for slot := range s {
		for i := range 10 {
			if s.Name(slot, i) == name {
				return slot, i, ""
			}
		}
	}
	stem, suffix := name[:strings.LastIndexByte(name, '.')], name[strings.LastIndexByte(name, '.'):]
	for slot := range s {
		for i := range 10 {
			if s.Name(slot, i) == stem {
				return slot, i, suffix
			}
		}
	}
	t.Fatalf("no slot for tensor %q", name)
	return "", 0, ""
}
