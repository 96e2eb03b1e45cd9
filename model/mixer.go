package model

import "github.com/kvasir-llm/kvasir/compute"

// Mixer is how the tokens of a sequence mix in a layer: grouped-query attention (GQA), latent attention (Latent), or
// a gated delta net (Delta). It is data, held by value, so that a Spec can be copied and compared. A mixer is one
// file here, and one in model/loader.
type Mixer interface {
	// Cache returns what the layer keeps of each token, or of a sequence.
	Cache() compute.CacheLayer
	// reach returns how many tokens a token attends to, itself included; 0 is all.
	reach() int
	// check reports the first contradiction, naming both sides.
	check(ropes []Rope) error
	// shard returns one of several equal parts (Spec.Shard).
	shard(of int) (Mixer, error)
}

// MixerWeights are a mixer with its weights on a device: a pointer to GQAWeights, LatentWeights or DeltaWeights.
type MixerWeights interface {
	// ops adds to g the operations that write the layer's mixing of in to out, both [rows, Hidden]. Where those that
	// mix tokens end, it calls g.keep.
	ops(g *graph, layer int, in, out compute.Tensor)
}

// scratch returns a function that returns the buffers of one mixer, one after the other. The mixers of all layers
// share their memory.
func (g *graph) scratch() func(width int) compute.Tensor {
	n := 0
	return func(width int) compute.Tensor {
		if n == len(g.mixing) {
			g.mixing = append(g.mixing, g.Buffer(width, compute.AllRows))
		}
		t := g.mixing[n]
		n++
		b := &g.Buffers[t.Buffer-1]
		b.Width = max(b.Width, width)
		return t.Narrow(width)
	}
}

// rotate rotates the heads of x by a rope of the Spec; -1 is none.
func (g *graph) rotate(rope int, x compute.Tensor, rotary compute.Rotary) {
	if rope >= 0 {
		rotary.Interleaved = g.m.Spec.Ropes[rope].Interleaved
		g.Add(compute.Rotate{X: x, Angles: g.angles[rope], Rotary: rotary})
	}
}
