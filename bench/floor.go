package bench

import (
	"cmp"
	"strings"

	"github.com/kvasir-llm/kvasir/forge"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// cost is what the steps of one model take at least, counted from its Spec and the types of its weights:
//
//   - Bytes: every weight of the layers once a step, as it is stored; the head once a step that wants logits; one embedding a
//     row; the keys and values of each sequence's earlier tokens read once a step, and those of new tokens written once.
//   - Operations: each row through each weight of the layers, and the head for rows that want logits, on bytes for quantised
//     types and in float32 for others; attention in float32, each new token over its own context.
//
// Activations, which fit caches, and norms, rotations and softmax, which are small, are not counted.
type cost struct {
	spec      *model.Spec
	layers    Work // of the layers' weights: Bytes a step, operations a row
	head      Work
	embedding float64 // bytes of a row
	number    float64 // bytes of a number of a key or value
	quant     string  // the mix that the file says it is, or else the type of most bytes
}

// costOf counts a checkpoint's weights.
func costOf(ckpt *weights.Checkpoint, spec *model.Spec, kv quant.Type) cost {
	kv = cmp.Or(kv, quant.F32)
	c := cost{spec: spec, number: float64(kv.BlockBytes()) / float64(kv.BlockValues())}
	byType := map[quant.Type]int64{}
	for _, t := range ckpt.Tensors() {
		byType[t.Type] += t.Size
		w := Work{Bytes: float64(t.Size)}
		if len(t.Shape) == 2 {
			if ops := 2 * float64(t.Values()); t.Type.BlockValues() > 1 {
				w.ByteOps = ops
			} else {
				w.FloatOps = ops
			}
		}
		switch {
		case isTensor(t.Name, "token_embd", "embed_tokens"):
			c.embedding = float64(t.Size) / float64(spec.Vocab)
			if spec.TiedHead {
				c.head = w
			}
		case isTensor(t.Name, "output", "lm_head"):
			c.head = w
		default:
			c.layers = c.layers.plus(w)
		}
	}
	most := int64(-1)
	for t, n := range byType {
		if n > most || n == most && t.String() < c.quant {
			most, c.quant = n, t.String()
		}
	}
	if n, ok := ckpt.Metadata()["general.file_type"].(uint32); ok {
		c.quant = cmp.Or(strings.ToUpper(forge.RecipeOf(n)), c.quant)
	}
	return c
}

// isTensor reports whether name is that of one of some weights, whatever module they are in.
func isTensor(name string, weights ...string) bool {
	for _, w := range weights {
		if w += ".weight"; name == w || strings.HasSuffix(name, "."+w) {
			return true
		}
	}
	return false
}

// step returns the work of a step in which each of seqs sequences computes rows tokens from position start on, and logits
// rows of all want logits.
func (c cost) step(seqs, rows, start, logits int) Work {
	n := float64(seqs * rows)
	w := Work{Bytes: c.layers.Bytes + n*c.embedding, FloatOps: n * c.layers.FloatOps, ByteOps: n * c.layers.ByteOps}
	if logits > 0 {
		w.Bytes += c.head.Bytes
		w.FloatOps += float64(logits) * c.head.FloatOps
		w.ByteOps += float64(logits) * c.head.ByteOps
	}
	for _, l := range c.spec.Layers {
		a, seen, read := l.Attn, 0, start
		for p := start; p < start+rows; p++ {
			n := p + 1
			if a.Window > 0 {
				n, read = min(n, a.Window), min(read, a.Window)
			}
			seen += n
		}
		w.Bytes += float64(seqs*(read+rows)*a.KVHeads*(a.HeadDim+a.ValueDim)) * c.number
		w.FloatOps += 2 * float64(seqs*seen*a.Heads*(a.HeadDim+a.ValueDim))
	}
	return w
}
