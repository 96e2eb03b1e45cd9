package route

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// Seed returns what the names of a prompt's blocks start from: prompts with other texts here share no block.
func Seed(texts ...string) uint64 {
	h := uint64(0)
	for _, s := range texts {
		h = chain(h, xxhash.Sum64String(s))
	}
	return h
}

// Blocks appends to names those of the whole blocks of size bytes in a prompt. The name of a block depends on the seed
// and on all bytes up to the block's end, so prompts that begin alike have names that begin alike. What is left after
// the last whole block has no name.
func Blocks(names []uint64, seed uint64, prompt []byte, size int) []uint64 {
	for h := seed; len(prompt) >= size; prompt = prompt[size:] {
		h = chain(h, xxhash.Sum64(prompt[:size]))
		names = append(names, h)
	}
	return names
}

// TokenBlocks does so with blocks of size tokens.
func TokenBlocks(names []uint64, seed uint64, prompt []int32, size int) []uint64 {
	for h := seed; len(prompt) >= size; prompt = prompt[size:] {
		h = chain(h, tokensSum(prompt[:size]))
		names = append(names, h)
	}
	return names
}

// tokensSum is the hash of a block's tokens.
func tokensSum(tokens []int32) uint64 {
	h := uint64(len(tokens))
	for ; len(tokens) >= 2; tokens = tokens[2:] {
		h = chain(h, uint64(uint32(tokens[0]))|uint64(uint32(tokens[1]))<<32)
	}
	if len(tokens) == 1 {
		h = chain(h, uint64(uint32(tokens[0])))
	}
	return h
}

// chain joins the name of what precedes a block with the hash of the block, by the multiplication of wyhash.
func chain(before, block uint64) uint64 {
	high, low := bits.Mul64(before^0x9e3779b97f4a7c15, block^0xd6e8feb86659fd93)
	return high ^ low
}
