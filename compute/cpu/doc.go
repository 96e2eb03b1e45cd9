// Package cpu is the Device that computes on the host's processor: portable Go and assembly kernels, packed weights, a
// paged KV cache in memory and a pool of workers on threads of their own, which can be pinned. It knows nothing of models. Read Device first, then kernels.
//
// # Order
//
// Every implementation of a kernel gives the same bits, because the order of its roundings is part of its definition.
// fma(a, b, c) is a·b + c in float32, rounded once.
//
//   - A product with a weight of F32, F16 or BF16 is one chain over the input: acc = fma(x[k], w[k], acc), from 0, k
//     ascending. The weight is widened to float32, which is exact.
//   - A product with a weight of a block type quantises the row first, 32 values at a time: d = max|x| / 127,
//     q = x·(127 / max|x|) rounded half to even. The weight's values are s·(level - offset) - m with an s and an m for each
//     group of 16 or 32: s is the exact product of the scales of the block and of the group, m likewise (affine.go). The
//     product is one chain over the groups: acc = fma(sum, d·s, acc), where sum is the exact integer product of q and
//     level - offset; then, for types with an m, acc = fma(-m, d·Σq, acc).
//   - A bias is added last, with a rounding of its own.
//   - An adapter's part comes after the bias: y = A·x and z = B·y, each a chain as above, then out = fma(scale, z, out).
//   - A sum over a row (norms, softmax) has 16 lanes: lane j takes the elements whose index is j modulo 16, ascending,
//     and the lanes are added pairwise: j with j+8, then +4, +2, +1. In the softmax an element's index is its position
//     in the sequence.
//   - Attention scales the query, takes each score as a chain over the head's dimensions, and each output as a chain
//     over the positions from the first attended one on; it is multiplied by 1/sum at the end.
//   - A convolution adds its products, each rounded, from the oldest row on. The delta rule takes one token after another;
//     its products with a key and a query are chains over the key's dimensions.
//   - exp is the polynomial of function exp, in the order written there.
package cpu
