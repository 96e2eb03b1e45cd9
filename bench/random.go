package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/forge"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Random returns a model of a shape with random weights in the types of a recipe of forge, or of a type of packedTypes,
// as a checkpoint in memory. Equal arguments give equal weights. Tensors share memory: it is that of the largest one of
// each type.
func Random(s Shape, recipe string) (*weights.Checkpoint, error) {
	meta, list, err := s.contents(recipe)
	if err != nil {
		return nil, err
	}
	most := map[quant.Type]int{} // bytes
	for _, r := range list {
		most[r.Type] = max(most[r.Type], r.from+r.size)
	}
	pools := map[quant.Type][]byte{}
	for t, n := range most {
		if pools[t], err = randomPool(t, n); err != nil {
			return nil, err
		}
	}
	var tensors []weights.Tensor
	for _, r := range list {
		data := r.values
		if data == nil {
			data = pools[r.Type][r.from:][:r.size]
		}
		tensors = append(tensors, weights.Tensor{Info: weights.Info{Name: r.Name, Type: r.Type, Shape: r.Shape}, Data: data})
	}
	values := map[string]any{}
	for _, kv := range meta {
		values[kv.Key] = kv.Value
	}
	return weights.Memory(s.Name+".gguf", weights.GGUF, tensors, values)
}

// WriteRandom writes the model that Random returns as a GGUF file, so that other engines can be measured on it. Those
// of packedTypes are an error: a GGUF has no such types.
func WriteRandom(w io.Writer, s Shape, recipe string) error {
	meta, list, err := s.contents(recipe)
	if err != nil {
		return err
	}
	pools := map[quant.Type][]byte{}
	var tensors []weights.Source
	for _, r := range list {
		if r.values != nil {
			tensors = append(tensors, weights.Source{Name: r.Name, Type: r.Type, Shape: r.Shape, Write: weights.Bytes(r.values)})
			continue
		}
		if pools[r.Type] == nil {
			if pools[r.Type], err = randomPool(r.Type, 0); err != nil {
				return err
			}
		}
		tensors = append(tensors, weights.Source{Name: r.Name, Type: r.Type, Shape: r.Shape, Write: repeat(pools[r.Type], r.from, r.size)})
	}
	return weights.WriteGGUF(w, meta, tensors)
}

// random is a tensor to be made: values, or else size random bytes of its type from byte from of their period on.
type random struct {
	forge.Translated
	values     []byte
	from, size int
}

// packedTypes are types of weights that recipes do not have, by the names that Random gives them: F8_E4M3 with a scale
// for each output, and what GPTQ, AWQ and compressed-tensors become when they are loaded, 4 bits in groups of 128. Like
// in the checkpoints of these, embeddings and head are BF16.
var packedTypes = map[string]quant.Type{"f8_e4m3": quant.F8_E4M3, "u4": quant.U4_128}

// PackedTypes are the names of packedTypes.
func PackedTypes() []string { return slices.Sorted(maps.Keys(packedTypes)) }

// RecipeName returns the name under which Random knows a recipe or a type, which may be given in capitals.
func RecipeName(name string) (string, error) {
	if _, ok := packedTypes[strings.ToLower(name)]; ok {
		return strings.ToLower(name), nil
	}
	return forge.RecipeName(name)
}

// float8Scale makes random weights of F8_E4M3 as large as others.
const float8Scale = 1.0 / 16

// contents returns the contents of a file of a shape: random matrices of the recipe's types, norms of ones.
func (s Shape) contents(recipe string) ([]weights.KV, []random, error) {
	spec := &model.Spec{Layers: make([]model.Layer, s.Layers)}
	for i := range spec.Layers {
		spec.Layers[i].Mixer = model.GQA{Heads: s.Heads, KVHeads: s.KVHeads}
		spec.Layers[i].FFN.Experts.Count = s.Mixture.Experts
	}
	list := s.weights()
	base := recipe
	packed, isPacked := packedTypes[recipe]
	if isPacked {
		base = "bf16"
	}
	types, fileType, err := forge.RecipeTypes(base, spec, list)
	if err != nil {
		return nil, nil, err
	}
	published := s.Family == "gpt-oss" && recipe == "mxfp4" // of which only experts are in MXFP4
	var out []random
	for i, w := range list {
		r := random{Translated: w}
		r.Type = types[i]
		values := 1
		for _, n := range w.Shape {
			values *= n
		}
		switch expert := strings.HasPrefix(w.Slot, "experts."); {
		case strings.HasSuffix(w.Slot, "norm"):
			r.Type, r.values = quant.F32, floats(values, 1)
		case strings.HasSuffix(w.Name, ".bias") || w.Slot == "sinks":
			r.Type, r.values = quant.F32, floats(values, 0)
		case r.Type == quant.F32 && recipe != "f32", published && !expert:
			r.Type = quant.BF16 // routers and the like
		case isPacked && w.Slot != "embed" && w.Slot != "head":
			r.Type = packed
		}
		if r.values == nil {
			row := w.Shape[len(w.Shape)-1]
			if r.size, err = r.Type.RowBytes(row); err != nil {
				return nil, nil, fmt.Errorf("bench: random weights: tensor %q: %w", w.Name, err)
			}
			r.size *= values / row
			r.from = i * 997 % periodOf(r.Type).blocks / 32 * 32 * periodOf(r.Type).bytes
		}
		out = append(out, r)
		if r.Type == quant.F8_E4M3 {
			r.Name, r.Type, r.Shape = strings.TrimSuffix(w.Name, ".weight")+".weight_scale", quant.F32, []int{w.Shape[0], 1}
			r.values = floats(w.Shape[0], float8Scale)
			out = append(out, r)
		}
	}
	return s.metadata(fileType, isPacked), out, nil
}

// period is after how many blocks random weights of a type repeat, the values of a block and its bytes. The number of
// blocks is prime, so that neighbouring rows differ, and small enough that a model is written at the speed of memory.
type period struct{ blocks, values, bytes int }

func periodOf(t quant.Type) period {
	p := period{blocks: 8191, values: 32}
	if t.BlockValues() > p.values {
		p = period{blocks: 1021, values: t.BlockValues()}
	}
	p.bytes = p.values / t.BlockValues() * t.BlockBytes()
	return p
}

// randomPool returns n bytes or more of a type's period, again and again, at least once: a quarter of a million random
// values, spread like trained weights, encoded on all processors.
func randomPool(t quant.Type, n int) ([]byte, error) {
	p := periodOf(t)
	one := p.blocks * p.bytes
	pool := make([]byte, max(n, one))
	workers := runtime.GOMAXPROCS(0)
	var all guard.Group
	for w := range workers {
		all.Start(func() error {
			block := make([]float32, p.values)
			for b := w; b < p.blocks; b += workers {
				r := rand.New(rand.NewPCG(0x6b766173, uint64(b)))
				for i := range block {
					block[i] = float32(r.NormFloat64()) * 0.02
				}
				if err := encode(pool[b*p.bytes:][:p.bytes], block, t); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, fmt.Errorf("bench: random weights of type %v: %w", t, err)
	}
	for at := one; at < len(pool); at *= 2 {
		copy(pool[at:], pool[:at])
	}
	return pool, nil
}

// encode encodes a block. For types with zero points it rounds codes between -0.08 and 0.08.
func encode(dst []byte, block []float32, t quant.Type) error {
	if t == quant.F8_E4M3 {
		for i := range block {
			block[i] /= float8Scale
		}
	}
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

// repeat writes n bytes of a period that is one long, from a byte of it on.
func repeat(one []byte, from, n int) func(io.Writer) error {
	return func(w io.Writer) error {
		at := from
		for left := n; left > 0; {
			piece := one[at:min(at+left, len(one))]
			if _, err := w.Write(piece); err != nil {
				return err
			}
			left, at = left-len(piece), 0
		}
		return nil
	}
}

// floats returns n times a number in float32.
func floats(n int, v float32) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)), n)
}
