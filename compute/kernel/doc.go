// Package kernel has the inner loops of the CPU device, in portable Go and in assembly: products with packed weights,
// operations on rows, and attention over panels of keys and values. It knows nothing of threads, batches or layers.
// Read Table first. An implementation is a Table, Pick finds the best one that the processor can run, and all of them
// give the same bits.
//
// # Where things are
//
//   - kernels.go says what each kernel computes. portable*.go define the kernels; so do rows8.go and affine.go
//     (quantised rows and weights), pairs.go (16-bit weights), panel.go (keys and values) and widen8.go, beside their
//     formats.
//   - A file's name ends in the instruction set that it needs: _avx2, _avxvnni, _avx512, _vnni and _amx on amd64,
//     _neon and _neondot on arm64. Files named _asm are shared by all sets; _none and _other replace them.
//   - _asm/types.go describes the quantised weight types, once. "go generate" makes of it the files that begin with
//     "Code generated": the assembly, its declarations, and the tables that choose it by type.
//   - kernels_amd64.go and kernels_arm64.go decide which implementations a processor can run.
//
// # Order
//
// Every implementation of a kernel gives the same bits, because the order of its roundings is part of its definition.
// fma(a, b, c) is a·b + c in float32, rounded once.
//
//   - A product with a weight of F32 is one chain over the input: acc = fma(x[k], w[k], acc), from 0, k ascending.
//   - A product with a weight of F16 or BF16 rounds both sides to bfloat16, half to even; numbers below 2⁻⁵⁰ become 0
//     (Table.Round). It takes 32 inputs at a time, the last of them filled up with zeros: even and odd are chains from
//     0 over the inputs at even and at odd places, and acc = acc + (even + odd), each sum rounded: that is TDPBF16PS,
//     and VDPBF16PS is two steps of a chain. Embeddings are those rounded numbers, too. A Wide device has one chain
//     instead, as with F32, over the weights as they are.
//   - A product with a weight of a block type quantises the row first, in spans of 256 values of which each group of
//     32 has a share T of the span's scale: with inv = 1016 / max|x| of the span, d = max|x| / 1016, T is the whole
//     part of (max|x| of the group · inv) · (1/127), plus 1, at most 8, and q = x·(inv/T) rounded half to even, so
//     that x is nearly d·T·q. The weight's values are D·S·(level - offset) - M·m, with whole numbers S and m for each
//     group of 16 or 32 values and floats D and M for each span: those of the file for K types, and made of the
//     floats of the groups for types that have no more than these (affine.go). The product is one chain over the
//     spans: acc = fma(sum, d·D, acc), where sum is the sum over the span's groups of T·S times the product of q and
//     level - offset, a whole number of 32 bits, rounded to float32; then, for types with an m, acc = fma(-least,
//     d·M, acc), where least is the sum of m·T·Σq. Weights with zero points have spans of 32 or 128, with S = 1 and
//     an offset for each span. If a weight's inputs are in an order of their own, the row is quantised, and the spans
//     follow each other, in that order.
//   - A product with a weight of F8_E4M3 is the chain of F32 with the weights f·s, rounded once: f is the value of
//     the byte, s the scale of its group of inputs.
//   - A bias is added last, with a rounding of its own.
//   - An adapter's part comes after the bias: y = A·x and z = B·y, each one chain as with F32, then out = fma(scale,
//     z, out).
//   - A sum over a row (norms, softmax) has 16 lanes: lane j takes the elements whose index is j modulo 16, ascending,
//     and the lanes are added pairwise: j with j+8, then +4, +2, +1. In the softmax an element's index is its position
//     in the sequence.
//   - Attention scales the query by the float32 product of the scale and log2 e, so that a score is the exponent of a
//     power of two; a soft cap and a sink are multiplied by log2 e as well. A score is a chain over the head's
//     dimensions. Positions are taken in chunks of 256 that begin at multiples of 256. A chunk has m, the greatest of
//     its scores, weights w = 2^(score - m), their sum t, and an output o: a chain of w·value over its positions from
//     0. Chunks are joined in order to M, T and O, which begin as nothing, 0 and 0, or as the sink, 1 and 0: with M'
//     = max(M, m), a = 2^(M - M') and b = 2^(m - M'), T becomes T·a + t·b and O becomes fma(b, o, O·a). The result is
//     O·(1/T).
//   - A key or value is rounded when it is stored, alone: to F16 (at most 65,504) or BF16, half to even, or in groups
//     of 32 dimensions to Q8_0, where q is that of a quantised row of one group and d, times its share of 8, is
//     rounded to F16, or to Q4_0 (KVRow.putQuantised). What is read is the exact d·q.
//   - A router's softmax multiplies by log2 e, adds and scales as above; a sigmoid is 1/(1 + exp(-x)). The chosen
//     weights are added up best first; each is divided by that sum + 1e-20 and then scaled. What experts give is
//     added to the shared expert's, or to 0, in that order: acc = fma(weight, x, acc).
//   - A convolution adds its products, each rounded, from the oldest row on. The delta rule takes one token after
//     another; its products with a key and a query are chains over the key's dimensions.
//   - exp and powers of two are the polynomials of functions exp and exp2, in the order written there.
package kernel
