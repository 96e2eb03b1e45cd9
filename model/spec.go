// Package model says what a decoder is, or an encoder. A Spec is a choice from the short menu that decoder-only transformers are made
// of; one forward pass runs any Spec on any compute.Device; a family is a small file that maps a checkpoint's
// configuration to a Spec and its tensor names to slots. The package knows nothing of requests or of when a sequence
// runs. Read Spec first, then Runner.Forward.
package model

import (
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
)

// Spec describes a decoder completely, or an encoder, but for its weights.
type Spec struct {
	Family  string // the family's name, such as "llama"
	Vocab   int    // tokens
	Hidden  int    // width of the residual stream
	Context int    // tokens that the model was made for

	Quantization Quantization

	EmbedScale    float32 // times each embedding; 1 is usual
	Positions     int     // learned positions, of which each token's is added to its embedding; 0 is none
	PositionsFrom int     // rows of the stored table before that of position 0
	TokenTypes    int     // learned types of tokens, of which each token's is added too; 0 is none
	EmbedNorm     bool    // the sum is normalised
	Norm          Norm    // of every layer and before the head
	ResidualScale float32 // times what attention and feed-forward add; 1 is usual
	Layers        []Layer
	Ropes         []Rope // the kinds of rotary embedding that layers choose from
	LongFrom      int    // tokens up to which a sequence is not long; 0 where no rope makes a difference

	// Encoder: every token attends to its whole sequence, which must be in one batch, and there is no head over the vocabulary,
	// but one over Classes if that is not 0: two products with a tanh between them, as BERT classifies by the first token.
	Encoder bool
	Classes int

	TiedHead     bool    // the head is the embedding table
	HeadBias     bool    // the head has a bias
	LogitScale   float32 // times the logits; 1 is usual
	LogitSoftcap float32 // then softcap·tanh(x/softcap); 0 is off
}

// Norm is how hidden states are normalised.
type Norm struct {
	Eps     float32
	Center  bool // LayerNorm; else RMSNorm
	Bias    bool
	PlusOne bool // the stored gain is the gain - 1
}

// Layer is one block of the decoder. Where the norms stand and what reads what is its residual scheme:
// h += post(part(pre(h))), for attention and then for the feed-forward, or for both at once from the same input if
// Parallel. With SumNorm, whose gains have the slots of post's, it is h = norm(h + part(h)), and no norm stands before the head.
type Layer struct {
	PreNorm, PostNorm bool
	SumNorm           bool
	Parallel          bool
	Attn              Attention
	FFN               FeedForward
}

// Attention is one of three kinds: latent attention if Latent is not zero, recurrent if Delta is not zero, of which the
// rest of the fields says nothing, else grouped-query attention: Heads query heads share KVHeads keys and values.
type Attention struct {
	Heads, KVHeads  int
	HeadDim         int     // of queries and keys
	ValueDim        int     // of values
	Scale           float32 // times q·k; usually 1/√HeadDim
	Softcap         float32 // softcap·tanh(s/softcap) on scores; 0 is off
	Window          int     // tokens attended to, the own one included; 0 is all
	Rope            int     // index in Spec.Ropes; -1 is no rotation
	QKNorm          bool    // queries and keys are normalised, by head or by row as their gains say
	QKNormAfterRope bool
	Clip            float32 // queries, keys and values are limited to -Clip and Clip after that; 0 is off
	QKVBias, OBias  bool
	Sinks           bool // one learned logit a head takes part in the softmax
	Gated           bool // what a head gives is multiplied by the sigmoid of a product with the layer's input
	Latent          Latent
	Delta           compute.Delta // a gated delta net, but for its vectors
}

// Latent makes keys and values of all heads products of one vector, the latent, which is all that the cache holds of a
// token beside RopeDim rotated values that are a part of every head's key (MLA, arXiv:2405.04434, section 2.1). KVHeads is
// Heads, and HeadDim counts the rotated values, which come last.
type Latent struct {
	Rank      int     // values of the latent
	QueryRank int     // queries are products of a latent of their own of so many values; 0: of the hidden state
	RopeDim   int     // rotated values of a head
	Eps       float32 // of the latents' norms
}

// FeedForward is down(act(gate·x) * (up·x)), or down(act(up·x)) if it is not gated: once, or by each of several experts.
type FeedForward struct {
	Width   int // of each expert, if there are any
	Act     compute.Activation
	Gated   bool
	Bias    bool
	Experts Experts
}

// Experts make a feed-forward a mixture: a router chooses some of them for each token, and what they give is added up by
// weight. The zero value is a dense feed-forward.
type Experts struct {
	Count, Chosen int            // experts, and how many of them each token goes to
	Router        compute.Router // but for its Bias
	RouterBias    bool           // the router's logits have a bias
	ScoreBias     bool           // a learned bias takes part in the choice: Router.Bias
	Shared        int            // width of an expert that every token goes to; 0 is none
	SharedGate    bool           // which counts by the sigmoid of a product with its input
}

// Rope is one kind of rotary embedding: frequency i turns pair i by Freqs[i] radians a token. Scale is applied to sines
// and cosines. The first 2·len(Freqs) values of a head are rotated.
type Rope struct {
	Freqs       []float32
	Scale       float32
	Interleaved bool // pairs are neighbours; else value i pairs with value i+len(Freqs)

	// Long are the frequencies for sequences that may become longer than Spec.LongFrom, nil if they are the same (LongRoPE,
	// arXiv:2402.13753).
	Long []float32
}

// Long reports whether a sequence that may come to so many tokens is a long one (compute.Seq). All of its tokens are computed
// as such from the first on, so that its keys stay what they are.
func (s *Spec) Long(tokens int) bool { return s.LongFrom > 0 && tokens > s.LongFrom }

// KVLayers returns what the layers keep of each token, and in which group.
func (s *Spec) KVLayers() []compute.CacheLayer {
	var out []compute.CacheLayer
	for _, l := range s.Layers {
		out = append(out, l.Attn.cacheLayer())
	}
	s.group(out)
	return out
}

// normed reports whether there is a norm after the last layer.
func (s *Spec) normed() bool { return !s.Layers[len(s.Layers)-1].SumNorm }

// Outputs returns how many logits a row of Batch.Logits has: one for each token, or each class of an encoder.
func (s *Spec) Outputs() int {
	if s.Encoder {
		return s.Classes
	}
	return s.Vocab
}

// Recurrent reports whether a sequence has a state in some layers beside its tokens in the cache.
func (s *Spec) Recurrent() bool {
	return slices.ContainsFunc(s.Layers, func(l Layer) bool { return l.Attn.Delta.ValueHeads > 0 })
}

// Cache returns the shape of a cache of so many blocks, with states slots for the recurrent state of sequences where the
// model has such.
func (s *Spec) Cache(blocks, blockTokens, states int) compute.CacheSpec {
	if !s.Recurrent() {
		states = 0
	}
	return compute.CacheSpec{Blocks: blocks, BlockTokens: blockTokens, States: states, Layers: s.KVLayers()}
}

// KVTokenBytes returns the bytes that the cache keeps of one token, in float32.
func (s *Spec) KVTokenBytes() int64 { return compute.CacheSpec{Layers: s.KVLayers()}.TokenBytes() }

// maxLayers bounds the layers of a Spec. No model in the field comes near.
const maxLayers = 1 << 14

// RowBytes returns the bytes of activations that a Runner keeps for each row of its batches, in float32.
func (s *Spec) RowBytes() int64 {
	attn, ffn := 0, 0
	for _, l := range s.Layers {
		n := 0
		for _, w := range l.Attn.widths() {
			n += w
		}
		attn = max(attn, n)
		ffn = max(ffn, l.FFN.rowValues(s.Hidden))
	}
	return 4 * int64(4*s.Hidden+attn+ffn)
}

// Check reports the first contradiction in the Spec, naming both sides.
func (s *Spec) Check() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("model: %s: "+format, append([]any{s.Family}, args...)...)
	}
	const most = 1 << 24 // no width, vocabulary or context in the field comes near
	for _, n := range []struct {
		name    string
		v, most int
	}{
		{"vocabulary", s.Vocab, most}, {"hidden size", s.Hidden, most}, {"context", s.Context, most}, {"layer count", len(s.Layers), maxLayers},
	} {
		if n.v < 1 || n.v > n.most {
			return fail("%s is %d; want 1 to %d", n.name, n.v, n.most)
		}
	}
	if s.Positions != 0 && s.Positions < s.Context {
		return fail("%d learned positions for a context of %d", s.Positions, s.Context)
	}
	for name, n := range map[string]int{"token types": s.TokenTypes, "classes": s.Classes, "rows before the positions": s.PositionsFrom} {
		if n < 0 || n > most {
			return fail("%d %s; want 0 to %d", n, name, most)
		}
	}
	if s.Encoder && s.Recurrent() {
		return fail("a recurrent layer in an encoder: it sees nothing of later tokens")
	}
	if !(s.Norm.Eps >= 0 && s.Norm.Eps < 1) {
		return fail("norm epsilon is %v; want a number from 0 to 1", s.Norm.Eps)
	}
	for i, l := range s.Layers {
		if err := l.Attn.check(s.Ropes); err != nil {
			return fail("layer %d: %w", i, err)
		}
		if l.FFN.Width < 1 || l.FFN.Width > most {
			return fail("layer %d: feed-forward width is %d", i, l.FFN.Width)
		}
		if err := l.FFN.Experts.check(); err != nil {
			return fail("layer %d: %w", i, err)
		}
	}
	return nil
}
