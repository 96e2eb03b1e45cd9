package bench

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/kvasir-llm/kvasir/forge"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// cost is the least work of the steps of one model, counted from its Spec and the types of its weights:
//
//   - Bytes: every weight of the layers once a step, as stored, but only the chosen experts; the head once a step that
//     wants logits; one embedding a row; the keys and values of each sequence's earlier tokens read once a step, and
//     those of new tokens written once; the adapters of a step's sequences.
//   - Operations: each row through each weight of the layers, but through the output and the feed-forward of the last
//     layer, as through the head, only rows that want logits; on bytes for quantised types, on pairs for bfloat16 and
//     float16, and in float32 for others; attention in float32, each new token over its own context.
//
// Activations, which fit caches, and norms, rotations and softmax, which are small, do not count.
type cost struct {
	spec      *model.Spec
	layers    Work    // of the layers' weights: Bytes a step, operations a row
	experts   Work    // of those that are experts of a mixture
	head      Work    // of it, and of what else only rows that want logits go through, but for experts
	last      Work    // of experts that only these rows go through
	embedding float64 // bytes of a row
	number    float64 // bytes of a number of a key or value
	adapters  int     // that sequences have in turn
	adapter   Work    // of one: Bytes a step, operations a row
	quant     string  // the file's own mix, or else the type of most bytes
}

// costOf counts a checkpoint's weights.
func costOf(ckpt *weights.Checkpoint, spec *model.Spec, kv quant.Type) cost {
	kv = cmp.Or(kv, quant.F32)
	c := cost{spec: spec, number: float64(kv.BlockBytes()) / float64(kv.BlockValues())}
	byType := map[quant.Type]int64{}
	for _, t := range ckpt.Tensors() {
		byType[t.Type] += t.Size
		w := Work{Bytes: float64(t.Size)}
		if len(t.Shape) > 1 {
			w = product(int64(t.Values()), t.Size, t.Type)
		}
		switch {
		case isTensor(t.Name, "token_embd", "embed_tokens"):
			c.embedding = float64(t.Size) / float64(spec.Vocab)
			if spec.TiedHead {
				c.head = c.head.plus(w)
			}
		case isTensor(t.Name, "output", "lm_head"):
			c.head = c.head.plus(w)
		case len(t.Shape) == 3 || strings.Contains(t.Name, ".experts."):
			if isLast(t.Name, spec) {
				c.last = c.last.plus(w)
			} else {
				c.experts = c.experts.plus(w)
			}
		case isLast(t.Name, spec):
			c.head = c.head.plus(w)
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

// isLast reports whether a weight of the last layer comes after the mixing of tokens.
func isLast(name string, spec *model.Spec) bool {
	if !strings.Contains("."+name, fmt.Sprintf(".%d.", len(spec.Layers)-1)) {
		return false
	}
	for _, part := range []string{".ffn_", ".mlp.", ".block_sparse_moe.", ".feed_forward.", ".attn_output.", ".o_proj.", ".out_proj.", ".ssm_out."} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// mixtures returns the work of n rows with some experts. Each row is routed to some of them, and those that any row is
// routed to are read; routing is assumed to be random.
func (c cost) mixtures(experts Work, n float64) Work {
	for _, l := range c.spec.Layers {
		if e := l.FFN.Experts; e.Count > 0 {
			share := float64(e.Chosen) / float64(e.Count)
			w := experts.rows(n * share)
			w.Bytes *= 1 - math.Pow(1-share, n)
			return w
		}
	}
	return Work{}
}

// isTensor reports whether name ends in one of some weights' names, in any module.
func isTensor(name string, weights ...string) bool {
	for _, w := range weights {
		if w += ".weight"; name == w || strings.HasSuffix(name, "."+w) {
			return true
		}
	}
	return false
}

// step returns the work of a step of some spans, each of which wants some logits.
func (c cost) step(spans []span, logits func(span) int) Work {
	rows, wanted, seqs := 0, 0, 0
	var w Work
	for _, p := range spans {
		rows, wanted, seqs = rows+p.seqs*p.rows, wanted+logits(p), seqs+p.seqs
		w = w.plus(c.attention(p))
	}
	n := float64(rows)
	w = w.plus(c.layers.rows(n)).plus(c.mixtures(c.experts, n))
	w.Bytes += n * c.embedding
	if c.adapters > 0 {
		a := c.adapter.rows(n)
		a.Bytes *= float64(min(seqs, c.adapters))
		w = w.plus(a)
	}
	if wanted > 0 {
		w = w.plus(c.head.rows(float64(wanted))).plus(c.mixtures(c.last, float64(wanted)))
	}
	return w
}

// attention returns the work of attention and of the cache.
func (c cost) attention(p span) (w Work) {
	for _, l := range c.spec.Layers {
		kept, heads, window, seen, read := l.Mixer.Cache(), 0, 0, 0, p.start
		switch a := l.Mixer.(type) {
		case model.GQA:
			heads, window = a.Heads, a.Window
		case model.Latent:
			heads = a.Heads
		}
		for at := p.start; at < p.start+p.rows; at++ {
			n := at + 1
			if window > 0 {
				n, read = min(n, window), min(read, window)
			}
			seen += n
		}
		values := kept.KDim + kept.VDim
		w.FloatOps += 2 * float64(p.seqs*seen*heads*values)
		if kept.Latent {
			values = kept.KDim
		}
		w.Bytes += float64(p.seqs*(read+p.rows)*kept.KVHeads*values) * c.number
	}
	return w
}
