package compute

// Norm says how to normalise: root mean square (RMSNorm, arXiv:1910.07467), or mean and variance (LayerNorm) if Center.
type Norm struct {
	Gain   Vector // [n], or [n·groups] with one for each group of a row
	Bias   Vector // as Gain, or nil
	Eps    float32
	Center bool
	Group  int // n; 0 is the length of Gain
	Width  int // only the first Width values of a row are normalised, the others stay if Dst is Src; 0 is all
}

// Rotary says which values of a head form a pair (RoPE, arXiv:2104.09864): value i with value i+n of the rotated part,
// or, if Interleaved, value 2i with value 2i+1.
type Rotary struct {
	Heads, HeadDim int
	Skip           int // values of a head before the rotated part
	Interleaved    bool
}

// Attention says how one layer attends. The key and value shapes are the cache's.
type Attention struct {
	Heads   int     // query heads; a multiple of the cache's KV heads
	Scale   float32 // times q·k
	Softcap float32 // softcap·tanh(s/softcap) after scaling; 0 is off
	Window  int     // attend to the last Window tokens, the own one included; 0 is all
	Sinks   Vector  // [Heads] logits that take part in the softmax but have no value; nil is none

	// Bidirectional: rows attend to those after them too, of which the batch has to have all. There is no window then.
	Bidirectional bool
}

// Delta is the shape and the small weights of a gated delta net layer (arXiv:2412.06464): each group of
// ValueHeads/KeyHeads consecutive value heads shares the query and key of one key head.
type Delta struct {
	KeyHeads, ValueHeads int
	KeyDim, ValueDim     int
	Window               int    // rows that the convolution sees
	Taps                 Vector // [Window, Channels] of the convolution, the oldest row's first
	Decay, Bias          Vector // [ValueHeads]
}

// Channels returns the values of a row of queries, keys and values.
func (d Delta) Channels() int { return 2*d.KeyHeads*d.KeyDim + d.ValueHeads*d.ValueDim }

// State returns how many numbers such a layer keeps of a sequence: the rows that the convolution still needs, then a
// matrix for each value head, whose ValueDim is rounded up to 16.
func (d Delta) State() int {
	return (d.Window-1)*d.Channels() + d.ValueHeads*d.KeyDim*((d.ValueDim+15)&^15)
}

// Activation is the nonlinearity of a feed-forward.
type Activation uint8

const (
	SiLU     Activation = iota // x·sigmoid(x)
	GELUTanh                   // 0.5x(1 + tanh(√(2/π)(x + 0.044715x³)))
	GELU                       // 0.5x(1 + erf(x/√2))
	ReLU
	Sigmoid       // 1/(1 + exp(-x))
	SwiGLUClamped // (min(max(up, -7), 7) + 1)·g·sigmoid(1.702g) for g = min(gate, 7) (gpt-oss)
)

// Router says how rows choose experts from their logits. A logit becomes a score; the experts with the highest scores
// are chosen, the lower index first among equals, and count with their scores.
type Router struct {
	Sigmoid   bool    // a score is the sigmoid of a logit; else the softmax over all of them
	Bias      Vector  // [experts] added to the scores for the choice alone, or nil
	Groups    int     // equal runs of experts, of which only those of the best Kept can be chosen; 0 is off
	Kept      int     // groups
	GroupBest int     // a group is as good as the sum of its GroupBest best scores
	Normalise bool    // the chosen weights are divided by their sum
	Scale     float32 // then times the weights
}
