// Package model describes decoders and encoders as data and runs them. A Spec is a choice from the short menu that
// transformers are made of; one forward pass runs any Spec on any compute.Device. The package knows nothing of files
// (model/family reads a Spec, model/loader the weights), of requests, or of when a sequence runs. Read Spec first, then
// Model.Graph and Runner.
package model

import (
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
)

// Spec describes a decoder or an encoder completely, except for its weights.
type Spec struct {
	Family  string // the family's name, such as "llama"
	Vocab   int    // tokens
	Hidden  int    // width of the residual stream
	Context int    // tokens that the model was trained for

	Quantization Quantization
	Part         Part // of a model that is divided

	EmbedScale    float32 // times each embedding; 1 is usual
	Positions     int     // learned position embeddings, added to those of the tokens; 0 is none
	PositionsFrom int     // rows of the stored table before the row of position 0
	TokenTypes    int     // learned token type embeddings, added too; 0 is none
	EmbedNorm     bool    // the sum is normalised
	Norm          Norm    // used in every layer and before the head
	ResidualScale float32 // times the outputs of mixers and feed-forwards; 1 is usual
	Layers        []Layer
	Ropes         []Rope // the kinds of rotary embedding that layers choose from
	LongFrom      int    // longer sequences use Rope.Long; 0: no rope has one

	// Encoder: every token attends to its whole sequence, which must be in one batch. There is no head over the
	// vocabulary. If Classes is not 0 there is one over classes: two products with a tanh between them, as in BERT,
	// on the first token.
	Encoder bool
	Classes int

	TiedHead     bool    // the head is the embedding table
	NoHead       bool    // there is none: final hidden states are all that the model gives
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

// Layer is one block of the decoder: a mixer and a feed-forward. Its residual scheme is h += post(part(pre(h))), for
// the mixer and then for the feed-forward, or for both from the same input if Parallel. With SumNorm it is h = norm(h
// + part(h)), with the gains in the slots of post, and there is no norm before the head.
type Layer struct {
	PreNorm, PostNorm bool
	SumNorm           bool
	Parallel          bool
	Mixer             Mixer
	FFN               FeedForward
}

// FeedForward is down(act(gate·x) * (up·x)), or down(act(up·x)) if it is not gated; dense, or in each of several
// experts.
type FeedForward struct {
	Width   int // of each expert, if there are any
	Act     compute.Activation
	Gated   bool
	Bias    bool
	Experts Experts
}

// Experts make a feed-forward a mixture: a router chooses some of them for each token, and their weighted outputs are
// added up. The zero value is a dense feed-forward.
type Experts struct {
	Count, Chosen int            // experts, and how many each token goes to
	Router        compute.Router // without its Bias
	RouterBias    bool           // the router's logits have a bias
	ScoreBias     bool           // a learned bias is added to the scores for the choice: Router.Bias
	Shared        int            // width of an expert that every token goes to; 0 is none
	SharedGate    bool           // the shared expert's output is multiplied by the sigmoid of a product with its input
}

// Rope is one kind of rotary embedding: pair i rotates by Freqs[i] radians per token. Sines and cosines are
// multiplied by Scale. The first 2·len(Freqs) values of a head are rotated.
type Rope struct {
	Freqs       []float32
	Scale       float32
	Interleaved bool // adjacent values form pairs; else value i pairs with value i+len(Freqs)

	// Long are the frequencies for sequences that may grow beyond Spec.LongFrom, nil if they are the same (LongRoPE,
	// arXiv:2402.13753).
	Long []float32
	// Limit is the number of positions that the frequencies hold for; 0 is no limit. A dynamic rope changes with
	// every token beyond its trained length, so results there would depend on how a sequence is cut into steps: such
	// positions are refused.
	Limit int
}

// Long reports whether a sequence that may grow to the given number of tokens is a long one (compute.Seq). All of its
// tokens use the long frequencies from the first on, so cached keys stay valid.
func (s *Spec) Long(tokens int) bool { return s.LongFrom > 0 && tokens > s.LongFrom }

// KVLayers returns what each layer keeps in the cache, and its group.
func (s *Spec) KVLayers() []compute.CacheLayer {
	var out []compute.CacheLayer
	for _, l := range s.Layers {
		out = append(out, l.Mixer.Cache())
	}
	s.group(out)
	return out
}

// Normed reports whether there is a norm after the last layer.
func (s *Spec) Normed() bool { return !s.Layers[len(s.Layers)-1].SumNorm }

// Outputs returns how many logits a row of Batch.Logits has: one for each token, or each class of an encoder;
// 0 is no head. A part of a model has its share of the tokens.
func (s *Spec) Outputs() int {
	switch {
	case s.Encoder:
		return s.Classes
	case s.NoHead:
		return 0
	}
	_, n := s.Part.Even(s.Vocab)
	return n
}

// Generates reports whether the model gives logits of the next token.
func (s *Spec) Generates() bool { return !s.Encoder && !s.NoHead }

// Recurrent reports whether some layers keep a state for each sequence, besides tokens in the cache.
func (s *Spec) Recurrent() bool {
	return slices.ContainsFunc(s.Layers, func(l Layer) bool { return l.Mixer.Cache().State > 0 })
}

// Attention returns the attention of the first layer that has some; of latent attention, what it has in common with
// others.
func (s *Spec) Attention() GQA {
	for _, l := range s.Layers {
		switch a := l.Mixer.(type) {
		case GQA:
			return a
		case Latent:
			return GQA{Heads: a.Heads, KVHeads: a.Heads, HeadDim: a.HeadDim, ValueDim: a.ValueDim, Scale: a.Scale, QKVBias: a.Bias, OBias: a.OBias}
		}
	}
	return GQA{}
}

// Cache returns the shape of a cache. It has room for the recurrent state of states sequences if the model has one.
func (s *Spec) Cache(blocks, blockTokens, states int) compute.CacheSpec {
	if !s.Recurrent() {
		states = 0
	}
	return compute.CacheSpec{Blocks: blocks, BlockTokens: blockTokens, States: states, Layers: s.KVLayers()}
}

// KVTokenBytes returns the bytes that a cache of float32 keeps of one token.
func (s *Spec) KVTokenBytes() int64 {
	n := int64(0)
	for _, l := range s.KVLayers() {
		values := l.KDim + l.VDim
		if l.Latent {
			values = l.KDim
		}
		n += 4 * int64(l.KVHeads) * int64(values)
	}
	return n
}

// MaxLayers bounds the layers of a Spec. No model in the field comes near.
const MaxLayers = 1 << 14

// checkPosition refuses a position that the model has no embedding of.
func (s *Spec) checkPosition(at int) error {
	if s.Positions > 0 && at >= s.Positions {
		return fmt.Errorf("model: a batch with position %d; %s has %d learned positions", at, s.Family, s.Positions)
	}
	for _, r := range s.Ropes {
		if r.Limit > 0 && at >= r.Limit {
			return fmt.Errorf("model: a batch with position %d; the dynamic rope of this %s changes beyond %d positions, which is not supported",
				at, s.Family, r.Limit)
		}
	}
	return nil
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
		{"vocabulary", s.Vocab, most}, {"hidden size", s.Hidden, most}, {"context", s.Context, most}, {"layer count", len(s.Layers), MaxLayers},
	} {
		if n.v < 1 || n.v > n.most {
			return fail("%s is %d; want 1 to %d", n.name, n.v, n.most)
		}
	}
	if s.Positions != 0 && s.Positions < s.Context {
		return fail("%d learned positions for a context of %d", s.Positions, s.Context)
	}
	for _, n := range []struct {
		name string
		v    int
	}{
		{"token types", s.TokenTypes}, {"classes", s.Classes}, {"rows before the positions", s.PositionsFrom},
	} {
		if n.v < 0 || n.v > most {
			return fail("%d %s; want 0 to %d", n.v, n.name, most)
		}
	}
	if s.Encoder && s.Recurrent() {
		return fail("a recurrent layer in an encoder: it sees nothing of later tokens")
	}
	if !(s.Norm.Eps >= 0 && s.Norm.Eps < 1) {
		return fail("norm epsilon is %v; want a number from 0 to 1", s.Norm.Eps)
	}
	for i, l := range s.Layers {
		if l.Mixer == nil {
			return fail("layer %d: it has no mixer", i)
		}
		if err := l.Mixer.check(s.Ropes); err != nil {
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
