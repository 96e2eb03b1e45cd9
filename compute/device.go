// Package compute is the contract between models and the machines that run them: tensors, packed batches and Device, the
// few operations that a decoder is made of. It knows nothing of models, sequences' lives or requests. Read Device first.
package compute

import "github.com/kvasir-llm/kvasir/quant"

// Device runs the operations of a decoder, in the order they are called, as on one stream. Operations work on the rows
// of the batch that Begin announced; they return nothing, may run later than the call, and a fault sticks until Sync
// reports it. Memory is made at load; operations allocate at
// most scratch that grows until it has seen the largest batch.
//
// A token's results depend on its own sequence alone: not on the other rows of the batch, on how a prompt was cut into
// steps, on which blocks hold it, or on which implementation of an operation ran. The order of every summation is part
// of the operation's definition (see Order in the documentation of package cpu).
//
// A Device is used by one goroutine at a time.
type Device interface {
	Name() string

	// Matrix takes over a weight, in the layout that this device reads best. src.Data is not used after the call.
	Matrix(src Source) (Matrix, error)
	// Vector takes over a float32 vector: a gain, a bias, a table of frequencies.
	Vector(v []float32) (Vector, error)
	// Tensor makes an activation buffer of float32, [rows, cols], zeroed.
	Tensor(rows, cols int) (Tensor, error)
	// Cache makes a paged KV cache, zeroed, of CacheBytes(spec) bytes.
	Cache(spec CacheSpec) (Cache, error)
	CacheBytes(spec CacheSpec) int64
	// CopyBlock copies what block from holds, of all layers, to block to.
	CopyBlock(c Cache, from, to int32)
	// BlockBytes returns the size of a packed block. PackBlock writes a block to dst in that many bytes, UnpackBlock reads
	// them back into any block of a cache of the same spec but for its number of blocks.
	BlockBytes(c Cache) int
	PackBlock(c Cache, block int32, dst []byte)
	UnpackBlock(c Cache, block int32, src []byte)

	// Begin announces the batch that the following operations work on and places its indices where they are read. The
	// batch must not change until the next Begin.
	Begin(b *Batch)

	// Embed writes row IDs[r] of table, times scale, to row r of dst. [rows, table.In]
	Embed(dst Tensor, table Matrix, scale float32)
	// AddPositions adds row Pos[r] of table to row r of dst: learned position embeddings.
	AddPositions(dst Tensor, table Matrix)
	// AddTypes adds row Types[r] of table to row r of dst, row 0 if the batch has no types: token type embeddings.
	AddTypes(dst Tensor, table Matrix)
	// Norm normalises each row of src into dst, in groups of consecutive values (a whole row, or each head).
	// dst may be src.
	Norm(dst, src Tensor, n Norm)
	// MatMul multiplies the rows of x [rows, In] with every product's weight: p.Dst[r] = p.W · x[r] + p.Bias.
	// The products share x, so that it is read, and where needed quantised, once. To the rows of sequences with an adapter it
	// adds what the product's Adapters say of theirs.
	MatMul(x Tensor, products []Product)
	// MatMulHeads multiplies each head of x with a weight of its own: head h of a row of dst begins with w[h] · the first In
	// values of that head of x, and what is left of that head of x follows as it is. The weights are of one shape and type.
	// x is [rows, heads·(In + rest)], dst is [rows, heads·(Out + rest)].
	MatMulHeads(dst, x Tensor, w []Matrix)
	// Angles writes the rotary angles of each row: for frequency i of n, cos(Pos·f_i)·scale to column i and
	// sin(Pos·f_i)·scale to column n+i. [rows, 2n] Rows of sequences that are Long take the frequencies of long, if that is
	// not nil.
	Angles(dst Tensor, freqs, long Vector, scale float32)
	// Rotate turns 2n values of each head of x, from value r.Skip on, by the row's angles; the rest of a head stays.
	Rotate(x Tensor, angles Tensor, r Rotary)
	// Store writes each row's key and value to its slot of the layer's cache.
	Store(c Cache, layer int, k, v Tensor)
	// Attend computes, for each row and each of its query heads, softmax(a.Scale · q·K)·V over the row's own sequence up
	// to and including itself, or over all of it if a.Bidirectional. q is [rows, heads·KDim], dst is [rows, heads·VDim]. Store comes first.
	Attend(dst, q Tensor, c Cache, layer int, a Attention)
	// Convolve replaces each row of x [rows, d.Channels()] by the causal convolution of its sequence's rows up to its own:
	// channel c becomes the sum over t of d.Taps[t, c] times channel c of the row Window-1-t before. What the next rows
	// will need is kept in the sequence's state of the layer; a sequence that starts at position 0 has zeros before it.
	Convolve(x Tensor, c Cache, layer int, d Delta)
	// DeltaRule runs the gated delta rule over each sequence's rows. A row of qkv holds the queries and keys of the key heads
	// and the values of the value heads; a and b hold a number for each value head, dst [rows, ValueHeads·ValueDim] the
	// outputs. For each value head and token, with S [KeyDim, ValueDim] from the sequence's state of the layer, or zero at
	// position 0, and q and k brought to length 1:
	//
	//	g = exp(Decay·softplus(a + Bias)), u = sigmoid(b)·(v - g·Sᵀk), S = g·S + k·uᵀ, dst = Sᵀq/√KeyDim
	DeltaRule(dst, qkv, a, b Tensor, c Cache, layer int, d Delta)
	// Clamp limits the values of x to -limit and limit.
	Clamp(x Tensor, limit float32)
	// Activate writes act(gate)·up to dst; up may be the zero Tensor for a feed-forward without a gate. dst may be gate or
	// up. What else gate and up hold afterwards is open.
	Activate(dst, gate, up Tensor, act Activation)
	// Add adds scale·src to dst.
	Add(dst, src Tensor, scale float32)
	// Routes makes room for the routes of up to rows rows, each to chosen of experts experts.
	Routes(rows, experts, chosen int) (Routes, error)
	// Route chooses the experts of each row from its logits [rows, experts].
	Route(to Routes, logits Tensor, r Router)
	// MatMulExperts multiplies each route's input with its expert's weight of every product. x has a row for each row of the
	// batch or, if routed is set, for each route, as in the result of an earlier product. A weight that no row chose is not
	// read.
	MatMulExperts(x Tensor, routed bool, routes Routes, products []ExpertProduct)
	// Combine adds up what each row's experts gave: dst = Σ weight·src over its routes, best first, + sigmoid(gate)·shared.
	// src is [routes, Cols]. shared [rows, Cols] may be dst or the zero Tensor, and gate [rows, 1] the zero Tensor, which
	// stands for a factor of 1.
	Combine(dst, src Tensor, routes Routes, shared, gate Tensor)
	// Gather copies the rows Batch.Logits of src to the first rows of dst. Head works on those.
	Gather(dst, src Tensor)
	// Head multiplies the gathered rows with the vocabulary projection, multiplies by scale and, if softcap > 0, squashes
	// with softcap·tanh(x/softcap). [len(Logits), w.Out] It takes no adapters.
	Head(dst, x Tensor, p Product, scale, softcap float32)

	// Sync waits for everything before it and returns the first fault since the last Sync.
	Sync() error
	// Read returns row of t in host memory, after a Sync. The slice is valid until the next Begin and may be written.
	Read(t Tensor, row int) []float32
	// Close gives back all memory and threads.
	Close() error
}

// Source is a weight as it stands in a checkpoint: Out rows of In values, row-major, in blocks of Type.
type Source struct {
	Name    string // for errors
	Type    quant.Type
	Out, In int
	Data    []byte
	// Row, if not nil, writes row n in place of Data. A device may call it from several goroutines at once.
	Row func(dst []byte, n int)

	// Adapter says that the weight is an A or B of a LowRank.
	Adapter bool
	// Scales multiply the values of F8_E4M3, each those of Group inputs of a row: [Out, ⌈In/Group⌉].
	Scales []float32
	Group  int
	// Order, if not nil, says that value k of each row belongs to input Order[k]. It is the same for all weights of a
	// MatMulHeads.
	Order []int32
}

// Rows returns the weight of n of the outputs, from output from on.
func (s Source) Rows(from, n int) Source {
	data, scales, row := len(s.Data)/s.Out, len(s.Scales)/s.Out, s.Row
	if row != nil {
		s.Row = func(dst []byte, i int) { row(dst, from+i) }
	}
	s.Data, s.Scales, s.Out = s.Data[from*data:][:n*data], s.Scales[from*scales:][:n*scales], n
	return s
}

// Matrix is a weight on a device.
type Matrix interface {
	Dims() (out, in int)
	Type() quant.Type
	Bytes() int64 // size on the device
}

// Vector is a float32 vector on a device.
type Vector interface{ Len() int }

// Tensor is an activation buffer of float32, [Rows, Cols], row-major. Rows is its capacity; operations use as many rows
// as the batch has. Host is its memory where the device shares the host's, Ptr its address elsewhere.
type Tensor struct {
	Rows, Cols int
	Host       []float32
	Ptr        uintptr
}

// Norm says how to normalise: root mean square (RMSNorm, arXiv:1910.07467), or mean and variance (LayerNorm) if Center.
type Norm struct {
	Gain   Vector // [n], or [n·groups] with one for each group of a row
	Bias   Vector // as Gain, or nil
	Eps    float32
	Center bool
	Group  int // n; 0 is the length of Gain
	Width  int // only the first Width values of a row are normalised, the others stay if dst is src; 0 is all
}

// Product is one weight that a MatMul multiplies its rows with.
type Product struct {
	Dst  Tensor // [rows, Out]
	W    Matrix
	Bias Vector // [Out] or nil
	// Adapters are what each adapter adds to the product, by Seq.Adapter; the first is nobody's. nil is none. They may be
	// changed between two steps.
	Adapters []LowRank
}

// LowRank is what an adapter adds to a product of x: Scale · B·(A·x) (LoRA, arXiv:2106.09685). A nil A adds nothing.
type LowRank struct {
	A     Matrix // [rank, In], of F32, F16 or BF16 and from a Source with Adapter set, as is B
	B     Matrix // [Out, rank]
	Scale float32
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

// State returns how many numbers such a layer keeps of a sequence: the rows that the convolution still needs, then a matrix
// for each value head, whose ValueDim is rounded up to 16.
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

// CacheSpec is the shape of a paged KV cache: Blocks blocks of BlockTokens tokens, and States slots for the recurrent state
// of a sequence.
type CacheSpec struct {
	Blocks, BlockTokens int
	States              int
	Type                quant.Type // of keys and values; 0 is F32, and devices name the others they know
	Layers              []CacheLayer
}

// CacheLayer is what one layer keeps: of each token, a key of KDim and a value of VDim for each KV head; or, if State is
// not 0, nothing of a token but State numbers of a sequence, in float32.
type CacheLayer struct {
	// Group says whose block table the layer uses. Groups are numbered from 0. A block belongs to one group at a time, and the
	// first layers of all groups share its memory, as do the second, and so on: groups should be of equal size.
	Group               int
	KVHeads, KDim, VDim int
	// Latent: the value is the first VDim numbers of the key, and only the key is kept.
	Latent bool
	State  int
}

// Groups returns the number of groups of layers that keep tokens.
func (s CacheSpec) Groups() int {
	n := 0
	for _, l := range s.Layers {
		if l.State == 0 {
			n = max(n, l.Group+1)
		}
	}
	return n
}

// Spread makes a table of one sequence into tables for all groups of layers, for those who do without a pool of blocks:
// each block of the table becomes as many neighbours as there are groups.
func (s CacheSpec) Spread(table []int32) [][]int32 {
	groups := s.Groups()
	tables := make([][]int32, groups)
	for g := range tables {
		for _, b := range table {
			tables[g] = append(tables[g], b*int32(groups)+int32(g))
		}
	}
	return tables
}

// TokenBytes returns the size of one token in float32 over all layers.
func (s CacheSpec) TokenBytes() int64 {
	n := int64(0)
	for _, l := range s.Layers {
		values := l.KDim + l.VDim
		if l.Latent {
			values = l.KDim
		}
		n += int64(l.KVHeads) * int64(values) * 4
	}
	return n
}

// Cache is a paged KV cache on a device.
type Cache interface {
	Spec() CacheSpec
	Bytes() int64
}
