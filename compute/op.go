package compute

// Graph is a model's forward pass as data: a list of operations over symbolic buffers. A device may fuse, reorder,
// capture and replay what it can prove to be the same. No operation knows prefill from decode: a sequence has Rows
// new tokens after Start old ones.
//
// A row's result depends on its own sequence alone: not on the other rows of the batch, on how a prompt was cut into
// steps or on which blocks hold it. The order of every summation is part of a device's definition.
type Graph struct {
	Buffers  []Buffer
	Routings []Routing
	Ops      []Op
	Vocab    int // tokens that Batch.IDs can name
	Targets  int // weights that adapters may change: Product.Target is 1 to Targets
	Adapters int // slots for adapters: Seq.Adapter is 0 to Adapters
}

// Buffer is memory for activations: Width numbers for each row of its domain, in the device's own precision.
type Buffer struct {
	Width  int
	Domain Domain
}

// Domain says which rows of a batch a buffer has. An operation runs over the rows of its destination's domain.
type Domain uint8

const (
	AllRows    Domain = iota // every row; after Keep, every row that it keeps
	LogitRows                // those of Batch.Logits
	HiddenRows               // those of Batch.Hidden
)

// Routing is room for the routes of a mixture of experts: each row goes to Chosen of Experts experts.
type Routing struct{ Experts, Chosen int }

// Tensor is a buffer read as rows of Cols numbers. The zero Tensor is none.
type Tensor struct {
	Buffer int // its number in Graph.Buffers, from 1
	Cols   int // at most the buffer's Width
}

// Buffer adds a buffer to the graph and returns all of it.
func (g *Graph) Buffer(width int, d Domain) Tensor {
	g.Buffers = append(g.Buffers, Buffer{width, d})
	return Tensor{len(g.Buffers), width}
}

// Add appends operations.
func (g *Graph) Add(ops ...Op) { g.Ops = append(g.Ops, ops...) }

// Narrow returns the same memory as rows of cols numbers.
func (t Tensor) Narrow(cols int) Tensor {
	t.Cols = cols
	return t
}

// Op is one operation of a Graph: a struct of this package, by value. Layer names a layer of the cache.
type Op interface{ op() }

// Embed writes row IDs[r] of Table [vocab, width], times Scale, to row r of Dst.
type Embed struct {
	Dst   Tensor
	Table Matrix
	Scale float32
}

// AddPositions adds row Pos[r] of Table to row r of Dst: learned position embeddings.
type AddPositions struct {
	Dst   Tensor
	Table Matrix
}

// AddTypes adds row Types[r] of Table to row r of Dst, row 0 if the batch has no types: token type embeddings.
type AddTypes struct {
	Dst   Tensor
	Table Matrix
}

// Normalize normalises each row of Src into Dst, in groups of consecutive values (a whole row, or each head). Dst may
// be Src.
type Normalize struct {
	Dst, Src Tensor
	Norm     Norm
}

// MatMul multiplies the rows of X [rows, In] with every product's weight: p.Dst[r] = p.W · X[r] + p.Bias. The
// products share X, so that it is read, and where needed quantised, once. For rows of a sequence with an adapter it
// then adds the adapter's LowRank of each product's Target.
type MatMul struct {
	X        Tensor
	Products []Product
}

// Product is one weight that a MatMul multiplies its rows with.
type Product struct {
	Dst    Tensor // [rows, Out]
	W      Matrix
	Bias   Vector // [Out] or nil
	Target int    // its number among the weights that adapters may change; 0: none changes it
}

// MatMulHeads multiplies each head of X with a weight of its own: head h of a row of Dst begins with W[h] · the first
// In values of that head of X; the remaining values of the head are copied. The weights have one shape and type. X is
// [rows, heads·(In + rest)], Dst is [rows, heads·(Out + rest)].
type MatMulHeads struct {
	Dst, X Tensor
	W      []Matrix
}

// Angles writes the rotary angles of each row: for frequency i of n, cos(Pos·f_i)·Scale to column i and
// sin(Pos·f_i)·Scale to column n+i. [rows, 2n] Rows of sequences with Long set use the frequencies of Long, if that
// is not nil.
type Angles struct {
	Dst         Tensor
	Freqs, Long Vector
	Scale       float32
}

// Rotate rotates 2n values of each head of X, starting at value Rotary.Skip, by the row's angles; the rest of a head
// stays.
type Rotate struct {
	X, Angles Tensor
	Rotary    Rotary
}

// Store writes each row's key and value to its slot of the layer's cache. V is the zero Tensor in a latent layer.
type Store struct {
	Layer int
	K, V  Tensor
}

// Attend computes, for each row and each of its query heads, softmax(Scale · q·K)·V over the row's own sequence up to
// and including itself (of a tree, over what it goes on from and itself), or over all of it if Bidirectional. Q is
// [rows, heads·KDim], Dst is [rows, heads·VDim]. The layer's Store comes before.
type Attend struct {
	Layer     int
	Dst, Q    Tensor
	Attention Attention
}

// Convolve replaces each row of X [rows, Delta.Channels()] by the causal convolution of its sequence's rows up to its
// own: channel c becomes the sum over t of Taps[t, c] times channel c of the row Window-1-t before. The rows that
// later steps need are kept in the sequence's state of the layer; a sequence that starts at position 0 has zeros
// before it.
type Convolve struct {
	Layer int
	X     Tensor
	Delta Delta
}

// DeltaRule runs the gated delta rule (arXiv:2412.06464) over each sequence's rows. A row of QKV holds the queries
// and keys of the key heads and the values of the value heads; A and B hold a number for each value head, Dst [rows,
// ValueHeads·ValueDim] the outputs. For each value head and token, with S [KeyDim, ValueDim] from the sequence's
// state of the layer, or zero at position 0, and q and k scaled to length 1:
//
//	g = exp(Decay·softplus(a + Bias)), u = sigmoid(b)·(v - g·Sᵀk), S = g·S + k·uᵀ, dst = Sᵀq/√KeyDim
type DeltaRule struct {
	Layer          int
	Dst, QKV, A, B Tensor
	Delta          Delta
}

// Clamp limits the values of X to -Limit and Limit.
type Clamp struct {
	X     Tensor
	Limit float32
}

// Activate writes Act(Gate)·Up to Dst; Up may be the zero Tensor for a feed-forward without a gate. Dst may be Gate
// or Up. The rest of Gate and Up is undefined afterwards.
type Activate struct {
	Dst, Gate, Up Tensor
	Act           Activation
}

// Add adds Scale·Src to Dst.
type Add struct {
	Dst, Src Tensor
	Scale    float32
}

// Route chooses the experts of each row from its logits [rows, experts], for the operations on Routing after it.
type Route struct {
	Routing int // its number in Graph.Routings
	Logits  Tensor
	Router  Router
}

// MatMulExperts multiplies each route's input with its expert's weight of every product. A route is one of a row's
// choices. X has a row for each row of the batch or, if Routed is set, for each route, as the result of an earlier
// product has. Tensors of routes have a row for each route, in an order that is the device's own. A weight that no
// row chose is not read.
type MatMulExperts struct {
	Routing  int
	X        Tensor
	Routed   bool
	Products []ExpertProduct
}

// ExpertProduct is one weight of each expert of a mixture, all of one shape. Biases are as in Product.
type ExpertProduct struct {
	Dst  Tensor   // [routes, Out]
	W    []Matrix // [experts]
	Bias []Vector // [experts] of [Out], or nil
}

// Combine adds up what each row's experts yield: Dst = Σ weight·Src over its routes, best first, +
// sigmoid(Factor)·Shared. Src is [routes, Cols]. Shared [rows, Cols] may be Dst or the zero Tensor, and Factor [rows,
// 1] the zero Tensor, which stands for a factor of 1.
type Combine struct {
	Routing                  int
	Dst, Src, Shared, Factor Tensor
}

// Keep drops the rows that neither Batch.Logits nor Batch.Hidden names: in each of X the others move to the front, in
// their order, and operations after it run over these alone. None of those is on the cache or on positions. A device
// may keep every row instead.
type Keep struct{ X []Tensor }

// Gather copies the rows of Src that belong to Dst's domain, LogitRows or HiddenRows, to Dst.
type Gather struct{ Dst, Src Tensor }

// Head multiplies the rows of X with the vocabulary projection, multiplies by Scale and, if Softcap > 0, squashes with
// Softcap·tanh(x/Softcap). [rows of X's domain, W.Out] It takes no adapters.
type Head struct {
	X       Tensor
	Product Product
	Scale   float32
	Softcap float32
}

// Choose chooses the tokens that Batch.Choose asks for from Logits [LogitRows, vocab], and keeps the rows of Batch.Read
// for the host. Hidden, if not the zero Tensor, is what Step.Hidden returns. It is the last operation of a Graph.
type Choose struct{ Logits, Hidden Tensor }

// Tap shows the rows of X to a function before the next operation, for calibration. F is called once a step, from the
// device's own goroutine, and may write to the rows; rows is the number of rows in X's domain, times PerRow if that is
// not 0. A device whose memory the host cannot read refuses it.
type Tap struct {
	X      Tensor
	PerRow int
	F      func(rows int, row func(i int) []float32)
}

func (Embed) op()         {}
func (AddPositions) op()  {}
func (AddTypes) op()      {}
func (Normalize) op()     {}
func (MatMul) op()        {}
func (MatMulHeads) op()   {}
func (Angles) op()        {}
func (Rotate) op()        {}
func (Store) op()         {}
func (Attend) op()        {}
func (Convolve) op()      {}
func (DeltaRule) op()     {}
func (Clamp) op()         {}
func (Activate) op()      {}
func (Add) op()           {}
func (Route) op()         {}
func (MatMulExperts) op() {}
func (Combine) op()       {}
func (Keep) op()          {}
func (Gather) op()        {}
func (Head) op()          {}
func (Choose) op()        {}
func (Tap) op()           {}
