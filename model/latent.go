package model

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// Latent is multi-head latent attention (MLA, arXiv:2405.04434, section 2.1): keys and values of all heads are
// products of one vector, the latent. The cache holds the latent and RopeDim rotated values, which are part of every
// head's key.
type Latent struct {
	Heads       int
	HeadDim     int     // of queries and keys, the rotated values included, which come last
	ValueDim    int     // of values
	Rank        int     // values of the latent
	QueryRank   int     // values of the queries' own latent; 0: queries are products of the hidden state
	RopeDim     int     // rotated values of a head
	Rope        int     // index in Spec.Ropes; -1 is no rotation
	Scale       float32 // times q·k
	Eps         float32 // of the latents' norms
	Bias, OBias bool    // of the products that make latents, and of the output
}

// LatentWeights are the weights of a Latent, absorbed: KeysUp multiplies a head's query by the weight that would make
// the head's key from a latent, so queries attend to latents directly; ValuesUp makes values from the attention's
// output.
type LatentWeights struct {
	Latent
	Query            Linear // [Heads·HeadDim, QueryRank or Hidden]
	QueryLatent      Linear // [QueryRank, Hidden], if QueryRank is not 0
	KVLatent         Linear // [Rank + RopeDim, Hidden]
	QueryNorm        compute.Norm
	KVNorm           compute.Norm     // of the first Rank values
	KeysUp, ValuesUp []compute.Matrix // of each head, from latents
	O                Linear
}

// Cache implements Mixer.
func (a Latent) Cache() compute.CacheLayer {
	return compute.CacheLayer{KVHeads: 1, KDim: a.Rank + a.RopeDim, VDim: a.Rank, Latent: true}
}

func (a Latent) reach() int { return 0 }

func (a Latent) check(ropes []Rope) error {
	const most = 1 << 24
	for _, n := range []int{a.Rank, a.QueryRank, a.RopeDim} {
		if n < 0 || n > 1<<16 {
			return fmt.Errorf("a size is %d; want 0 to %d", n, 1<<16)
		}
	}
	switch {
	case a.Rank < 1:
		return fmt.Errorf("latents of %d values", a.Rank)
	case a.Heads < 1 || a.Heads > most:
		return fmt.Errorf("%d query heads", a.Heads)
	case a.HeadDim < 1 || a.HeadDim > most/a.Heads || a.ValueDim < 1 || a.ValueDim > most/a.Heads:
		return fmt.Errorf("%d heads of key size %d and value size %d", a.Heads, a.HeadDim, a.ValueDim)
	case a.Rope >= len(ropes):
		return fmt.Errorf("there are %d ropes, and rope %d is wanted", len(ropes), a.Rope)
	case a.RopeDim < 1 || a.RopeDim >= a.HeadDim:
		return fmt.Errorf("the rope rotates %d values of a head of %d; want some, and some left", a.RopeDim, a.HeadDim)
	}
	if a.Rope >= 0 {
		if n := 2 * len(ropes[a.Rope].Freqs); n != a.RopeDim {
			return fmt.Errorf("rope rotates %d values of %d", n, a.RopeDim)
		}
	}
	return nil
}

func (a Latent) shard(of int) (Mixer, error) {
	if a.Heads%of != 0 {
		return nil, fmt.Errorf("%d query heads cannot be divided by %d", a.Heads, of)
	}
	a.Heads /= of
	return a, nil
}

func (w *LatentWeights) ops(g *graph, layer int, in, out compute.Tensor) {
	a, buf := w.Latent, g.scratch()
	query, latent := buf(a.Heads*a.HeadDim), buf(a.Rank+a.RopeDim)
	if a.QueryRank > 0 {
		queryLatent := buf(a.QueryRank)
		g.matmul(in, w.QueryLatent.to(queryLatent), w.KVLatent.to(latent))
		g.norm(queryLatent, queryLatent, w.QueryNorm)
		g.matmul(queryLatent, w.Query.to(query))
	} else {
		g.matmul(in, w.Query.to(query), w.KVLatent.to(latent))
	}
	g.norm(latent, latent, w.KVNorm)
	g.rotate(a.Rope, query, compute.Rotary{Heads: a.Heads, HeadDim: a.HeadDim, Skip: a.HeadDim - a.RopeDim})
	g.rotate(a.Rope, latent, compute.Rotary{Heads: 1, HeadDim: a.Rank + a.RopeDim, Skip: a.Rank})
	wide, context, mixed := buf(a.Heads*(a.Rank+a.RopeDim)), buf(a.Heads*a.Rank), buf(a.Heads*a.ValueDim)
	g.Add(compute.Store{Layer: layer, K: latent})
	g.Add(compute.MatMulHeads{Dst: wide, X: query, W: w.KeysUp})
	g.Add(compute.Attend{Layer: layer, Dst: context, Q: wide, Attention: compute.Attention{
		Heads: a.Heads, Scale: a.Scale, Bidirectional: g.m.Spec.Encoder,
	}})
	g.Add(compute.MatMulHeads{Dst: mixed, X: context, W: w.ValuesUp})
	g.keep(layer, mixed)
	g.matmul(mixed, w.O.to(out))
}
