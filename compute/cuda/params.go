package cuda

import (
	"maps"
	"slices"
	"unsafe"

	"github.com/kvasir-llm/kvasir/quant"
)

// The parameters of kernels, field by field as in kernels/. A field without a name is padding, or one that is always 0.
// A test compares their sizes with those that the compiled kernels have.

// rows is a buffer of activations.
type rows struct {
	at   pointer
	ld   int32 // numbers from one row to the next
	wide int32 // 1: float32; 0: bfloat16
}

type embedArgs struct {
	dst                          rows
	table                        pointer
	ids, from, chosen            pointer
	tilesIn, width, added, limit int32
	scale                        float32
	format                       int32
}

type normArgs struct {
	dst, src                rows
	gain, bias              pointer
	group, perGroup, center int32
	eps                     float32
}

type addArgs struct {
	dst, src     rows
	rows         pointer
	cols, gather int32
	scale        float32
}

type keepArgs struct {
	x, rows         pointer
	n, words, ld, _ int32
}

type activateArgs struct {
	dst, gate, up rows
	cols, act     int32
	limit         float32
}

type anglesArgs struct {
	dst              rows
	pos, isLong      pointer
	freqs, longFreqs pointer
	n                int32
	scale            float32
}

type layerArgs struct {
	at                    pointer
	table                 pointer
	block                 int64
	stride, tokens, heads int32
	keyDim, valueDim      int32
	_                     int32
}

type storeArgs struct {
	q, k, v, angles                                             rows
	cache                                                       layerArgs
	pos, slot                                                   pointer
	qHeads, kHeads, qDim, kDim, skip, pairs, neighbours, stores int32
	qGain, kGain                                                pointer
	qEps, kEps                                                  float32
	whole, kind                                                 int32
}

type latentArgs struct {
	q, wide, latent   rows
	rotation          storeArgs
	cache             layerArgs
	pos, slot, gain   pointer
	eps               float32
	heads, nope, rank int32
}

type storeAnyArgs struct {
	k, v      rows
	cache     layerArgs
	pos, slot pointer
	kind      int32
	_         int32
}

type editArgs struct {
	tables, edits    pointer
	n, slots, stride int32
}

type moveArgs struct {
	base, bytes, offset  pointer
	packed, moves        pointer
	packedBlock          int64
	fromPacked, toPacked int32
}

type packArgs struct {
	to, from, scales         pointer
	rowBytes                 int64
	rows, in, group, records int32
}

type productArgs struct {
	w, bias     pointer
	dst         rows
	outs, tiles int32
}

const maxProducts = 4

const (
	modePlain = iota
	modeAdd
	modeGated
)

// noActivation is what activate takes for none, behind those of compute.Activation.
const noActivation = 6

type gemmArgs struct {
	x                                       pointer
	ldx, tilesIn, rows, products, mode, act int32
	scale, softcap                          float32
	ranges, _                               int32
	p                                       [maxProducts]productArgs
}

// productMaps has a map for each of a launch's products.
type productMaps [maxProducts]tensorMap

// wgmmaArgs is a gemmArgs with maps of its rows and results, and memory for sums of ranges.
type wgmmaArgs struct {
	x    tensorMap
	to   productMaps
	a    gemmArgs
	sums pointer
	_    [5]uint64
}

// turning says what a launch of products does with queries, keys and values (kernels/gemm_turned.cuh).
type turning struct {
	angles    tensorMap
	cache     layerArgs
	pos, slot pointer
	norms     [2]headNorm
	_         [4]uint64
}

// headNorm is HeadNorm of kernels/gemm_turned.cuh.
type headNorm struct {
	gain   pointer
	eps, _ float32
}

// turnedArgs is a wgmmaArgs of products that turn heads.
type turnedArgs struct {
	turning
	wgmmaArgs
}

// float8Args is a gemmArgs with rows of F8_E4M3.
type float8Args struct {
	a               gemmArgs
	x, scales, sums pointer
	padded, groups  int32
}

// float8BoxArgs is a float8Args with maps of its weights and results.
type float8BoxArgs struct {
	weights, to productMaps
	float8Args
	_ [2]uint64
}

// float8TurnedArgs is a float8BoxArgs of products that turn heads.
type float8TurnedArgs struct {
	turning
	weights, to productMaps
	float8Args
	_ [2]uint64
}

// float8FewArgs is a gemmArgs with what few rows of F8_E4M3 are made of.
type float8FewArgs struct {
	a                        gemmArgs
	x, scales, wide, gain    pointer
	ldWide                   int32
	eps                      float32
	tiles, stages, atOnce, _ int32
}

// gemmRingArgs is a gemmArgs with how gemm_ring.cu cuts it.
type gemmRingArgs struct {
	a                        gemmArgs
	tiles, stages, atOnce, _ int32
}

type float8RowsArgs struct {
	x, to, scales           pointer
	ldx, in, padded, groups int32
}

type float8NormArgs struct {
	x, gain, to, scales     pointer
	ldx, in, padded, groups int32
	eps                     float32
	_                       int32
}

// group is the weight of one group of rows (grouped.cuh).
type group struct {
	w, bias  pointer
	outs, in int32
	scale    float32
	_        int32
}

type groupedProductArgs struct {
	x, groups  pointer
	dst        rows
	ldx, tiles int32
}

type groupedArgs struct {
	ends, from, _          pointer
	groups, rows, products int32
	inStep, outStep        int32
	mode, pads, aligned    int32
	scale                  float32
	act, late, known       int32
	p                      [maxProducts]groupedProductArgs
}

// adaptProductArgs is A or B of one weight, of every adapter.
type adaptProductArgs struct {
	groups      pointer
	dst         rows
	outs, tiles int32
}

type adaptArgs struct {
	chunks, rows, x, inner  pointer
	ldx, groups             int32
	rank, ranges, room, act int32
	scale                   float32
	_                       int32
	dst                     rows
	p                       [maxProducts]adaptProductArgs
	next, nextInner         pointer
}

// manyArgs is a groupedArgs with maps of its rows.
type manyArgs struct {
	x     [4]tensorMap
	a     groupedArgs
	steps int32
	_     [5]int32
}

// manyFloat8Args is a manyArgs with where scales of rows are.
type manyFloat8Args struct {
	manyArgs
	boxes  [4]tensorMap
	scales pointer
	_      [7]uint64
}

// headsArgs is a groupedArgs with the map of its rows.
type headsArgs struct {
	x tensorMap
	a groupedArgs
	_ [6]int32
}

type fewArgs struct {
	x, dst                     rows
	gate, up                   pointer
	ids, slot, weights         pointer
	shared, factor             rows
	experts, chosen, act, mode int32
	scale                      float32
	in                         int32
}

// fewFloat8Args is a fewArgs with the stages of a warp's ring.
type fewFloat8Args struct {
	fewArgs
	stages, _ int32
}

type float8SpreadArgs struct {
	x, to, scales, at, slot               pointer
	ldx, in, rows, chosen, padded, groups int32
}

type restArgs struct {
	dst, x        rows
	in, out, rest int32
	_             int32
}

type routeArgs struct {
	logits                                                       rows
	bias, slot, ids, weights                                     pointer
	experts, chosen, sigmoid, groups, kept, groupBest, normalise int32
	scale                                                        float32
	rows, _                                                      int32
}

type routeFewArgs struct {
	r             routeArgs
	src, dst      rows
	gain, bias, w pointer
	width, ranges int32
	eps           float32
	tiles         int32
}

type orderArgs struct {
	ids, at, from, ends pointer
	n, chosen           int32
}

type spreadArgs struct {
	x, dst, at, slot         pointer
	ldx, lddst, cols, chosen int32
}

type combineArgs struct {
	dst, src, shared, factor rows
	at, slot, weights        pointer
	cols, chosen, adds       int32
	scale                    float32
}

type convolveArgs struct {
	x                  rows
	runs, states, taps pointer
	state              int64
	channels, window   int32
}

type deltaArgs struct {
	dst, qkv, a, b                         rows
	runs, states, decay, bias              pointer
	state, matrices                        int64
	keyHeads, valueHeads, keyDim, valueDim int32
}

type attendArgs struct {
	q, dst                       rows
	at, table                    pointer
	block                        int64
	stride, tokens, heads, group int32
	slot, until                  pointer
	items, few, count            pointer
	partial, sinks               pointer
	window                       int32
	scale, softcap               float32
	shift                        int32
	arrived                      pointer
}

// attendTurnedArgs is an attendArgs with what attend_few turns and stores itself.
type attendTurnedArgs struct {
	attendArgs
	k, v, angles rows
	qGain, kGain pointer
	qEps, kEps   float32
}

// attendWgmmaArgs is an attendArgs with the map of the layer's part of the cache.
type attendWgmmaArgs struct {
	cache tensorMap
	a     attendArgs
	alone int32 // 1: each row is the only one of its sequence
	whole int32 // 1: no row's chunks are cut
	_     [8]int32
}

// partsArgs says which parts blocks of attend_ring.cu take.
type partsArgs struct {
	parts, taken pointer
	most, _      int32
}

// ringArgs is an attendArgs with that, ringTurnedArgs an attendTurnedArgs.
type ringArgs struct {
	attendArgs
	partsArgs
}

type ringTurnedArgs struct {
	attendTurnedArgs
	partsArgs
}

// peakArgs is what a meter's kernels take.
type peakArgs struct {
	at     pointer
	n      int64
	to     pointer
	rounds int32
	_      int32
}

type joinArgs struct {
	a   attendArgs
	dim int32
}

type latentJoinArgs struct {
	a         attendArgs
	blocks, _ int32
}

type attendAnyArgs struct {
	q, dst                                         rows
	at, table                                      pointer
	block                                          int64
	stride, tokens, heads, group, keyDim, valueDim int32
	latent                                         int32
	slot, until, sinks                             pointer
	window                                         int32
	scale, softcap                                 float32
}

// choiceArgs is one entry of what choose reads.
type choiceArgs struct {
	row, mode               int32
	temperature, topP, minP float32
	topK                    int32
	seed, n                 uint64
}

type chooseArgs struct {
	logits, choices, chosen pointer
	ld, vocab               int32
}

// moreArgs is one entry of what choose_more reads.
type moreArgs struct {
	by                              choiceArgs
	counts                          pointer
	entry, after, id, given         int32
	rank, top, tops, mask           int32
	bias, biases, bans, banned      int32
	repetition, presence, frequency float32
	adjusts                         int32
}

// said is what choose_more writes for one.
type said struct {
	token      int32
	logprob    float32
	rank, tops int32
}

type chooseMoreArgs struct {
	logits, adjusted, more, runs, words pointer
	chosen, said, candidates            pointer
	ld, vocab, maskWords, _             int32
}

type countArgs struct {
	counts, tokens      pointer
	prompt, n, vocab, _ int32
}

// paramSizes are the bytes of each kernel's parameter.
var paramSizes = map[string]uintptr{
	"embed":               unsafe.Sizeof(embedArgs{}),
	"norm_groups":         unsafe.Sizeof(normArgs{}),
	"norm_wide":           unsafe.Sizeof(normArgs{}),
	"norm_many":           unsafe.Sizeof(normArgs{}),
	"add":                 unsafe.Sizeof(addArgs{}),
	"keep":                unsafe.Sizeof(keepArgs{}),
	"activation":          unsafe.Sizeof(activateArgs{}),
	"angles":              unsafe.Sizeof(anglesArgs{}),
	"rotate_store":        unsafe.Sizeof(storeArgs{}),
	"rotate_store_any":    unsafe.Sizeof(storeArgs{}),
	"edit_tables":         unsafe.Sizeof(editArgs{}),
	"peak_read":           unsafe.Sizeof(peakArgs{}),
	"peak_multiply":       unsafe.Sizeof(peakArgs{}),
	"move_blocks":         unsafe.Sizeof(moveArgs{}),
	"attend_wgmma_64":     unsafe.Sizeof(attendWgmmaArgs{}),
	"attend_wgmma_80":     unsafe.Sizeof(attendWgmmaArgs{}),
	"attend_wgmma_96":     unsafe.Sizeof(attendWgmmaArgs{}),
	"attend_wgmma_128":    unsafe.Sizeof(attendWgmmaArgs{}),
	"attend_wgmma_192":    unsafe.Sizeof(attendWgmmaArgs{}),
	"attend_wgmma_256":    unsafe.Sizeof(attendWgmmaArgs{}),
	"attend_latent_tile":  unsafe.Sizeof(attendArgs{}),
	"attend_latent_chunk": unsafe.Sizeof(attendArgs{}),
	"attend_latent_join":  unsafe.Sizeof(latentJoinArgs{}),
	"attend_latent_few":   unsafe.Sizeof(attendWgmmaArgs{}),
	"attend_latent_wgmma": unsafe.Sizeof(attendWgmmaArgs{}),
	"store_any":           unsafe.Sizeof(storeAnyArgs{}),
	"attend_any":          unsafe.Sizeof(attendAnyArgs{}),
	"attend_any_f16":      unsafe.Sizeof(attendAnyArgs{}),
	"attend_any_fp8":      unsafe.Sizeof(attendAnyArgs{}),
	"attend_any_q8":       unsafe.Sizeof(attendAnyArgs{}),
	"attend_join":         unsafe.Sizeof(joinArgs{}),
	"choose":              unsafe.Sizeof(chooseArgs{}),
	"choose_more":         unsafe.Sizeof(chooseMoreArgs{}),
	"count_tokens":        unsafe.Sizeof(countArgs{}),
	"latent_rows":         unsafe.Sizeof(latentArgs{}),
	"heads_wgmma_128":     unsafe.Sizeof(headsArgs{}),
	"heads_wgmma_512":     unsafe.Sizeof(headsArgs{}),
	"heads_rest":          unsafe.Sizeof(restArgs{}),
	"route":               unsafe.Sizeof(routeArgs{}),
	"route_few":           unsafe.Sizeof(routeFewArgs{}),
	"route_order":         unsafe.Sizeof(orderArgs{}),
	"combine":             unsafe.Sizeof(combineArgs{}),
	"spread":              unsafe.Sizeof(spreadArgs{}),
	"few_gated":           unsafe.Sizeof(fewArgs{}),
	"few_down":            unsafe.Sizeof(fewArgs{}),
	"float8_rows":         unsafe.Sizeof(float8RowsArgs{}),
	"float8_norm":         unsafe.Sizeof(float8NormArgs{}),
	"float8_spread":       unsafe.Sizeof(float8SpreadArgs{}),
	"convolve":            unsafe.Sizeof(convolveArgs{}),
}

func init() {
	for _, t := range slices.AppendSeq([]quant.Type{quant.F32, quant.F16, quant.BF16, quant.F8_E4M3}, maps.Keys(formatOfType)) {
		paramSizes["pack_"+t.String()] = unsafe.Sizeof(packArgs{})
	}
	for _, b := range slices.Concat(blockings, codeBlockings) {
		paramSizes[b.name()] = unsafe.Sizeof(gemmArgs{})
	}
	for _, w := range warpgroupKernels {
		paramSizes[w.name()] = unsafe.Sizeof(wgmmaArgs{})
	}
	paramSizes[turnedBF16.name], paramSizes[turnedFloat8.name] = unsafe.Sizeof(turnedArgs{}), unsafe.Sizeof(float8TurnedArgs{})
	for _, k := range float8Kernels {
		paramSizes[k.name] = unsafe.Sizeof(float8Args{})
	}
	for _, k := range float8Fews {
		paramSizes[k.name()] = unsafe.Sizeof(float8FewArgs{})
	}
	paramSizes[gemmRing], paramSizes[gatedRing] = unsafe.Sizeof(gemmRingArgs{}), unsafe.Sizeof(gemmRingArgs{})
	for _, w := range float8Warpgroups {
		paramSizes[w.name()] = unsafe.Sizeof(float8BoxArgs{})
	}
	for _, f := range fews {
		paramSizes[f.name()] = unsafe.Sizeof(gemmArgs{})
	}
	for _, g := range groupings {
		paramSizes[g.name()] = unsafe.Sizeof(groupedArgs{})
	}
	for _, k := range adaptKernels {
		for _, rows := range []int{fewAdapted, manyAdapted} {
			paramSizes[adaptName(k, rows)] = unsafe.Sizeof(adaptArgs{})
		}
	}
	paramSizes[gateDown] = unsafe.Sizeof(adaptArgs{})
	for _, m := range manies {
		paramSizes[m.name(false)], paramSizes[m.name(true)] = unsafe.Sizeof(manyArgs{}), unsafe.Sizeof(manyArgs{})
	}
	for _, m := range manyFloat8s {
		paramSizes[m.name(false)], paramSizes[m.name(true)] = unsafe.Sizeof(manyFloat8Args{}), unsafe.Sizeof(manyFloat8Args{})
	}
	for _, by := range []scaling{scaledByOutput, scaledByGroup} {
		paramSizes[fewFloat8Name(by, true)], paramSizes[fewFloat8Name(by, false)] = unsafe.Sizeof(fewFloat8Args{}), unsafe.Sizeof(fewFloat8Args{})
	}
	for _, keys := range deltaKeys {
		paramSizes[deltaName(keys)] = unsafe.Sizeof(deltaArgs{})
	}
	for _, dim := range attendDims {
		paramSizes["attend_tile_"+dim] = unsafe.Sizeof(attendArgs{})
		paramSizes["attend_few_"+dim] = unsafe.Sizeof(attendArgs{})
	}
	for _, dim := range []int{64, 96, 128} {
		paramSizes["attend_few_"+attendDims[dim]+fewTurned] = unsafe.Sizeof(attendTurnedArgs{})
		paramSizes["attend_ring_"+attendDims[dim]] = unsafe.Sizeof(ringArgs{})
		paramSizes["attend_ring_"+attendDims[dim]+fewTurned] = unsafe.Sizeof(ringTurnedArgs{})
	}
}

// narrowHead is the largest size of heads whose attention to a cache of BF16 is always loaded.
const narrowHead = 128

// attendDims are the sizes of heads that attend.cu is compiled for, and the ends of its kernels' names.
var attendDims = map[int]string{64: "64", 80: "80", 96: "96", 128: "128", 192: "192", 256: "256"}
