package kv

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Hash names a full block by its contents. Equal names mean equal tokens, preceded by equal tokens from the start of
// the sequence, under the same extra keys, so a block may be read in place of any other of its name. The zero Hash names
// nothing: it is the parent of a sequence's first block.
type Hash [sha256.Size]byte

// String returns the first eight hexadecimal digits, enough to tell names apart in logs and scripts.
func (h Hash) String() string { return hex.EncodeToString(h[:4]) }

// HashBlock names the block that holds tokens and follows the block named parent. extra is whatever else changes the
// contents (an adapter's name, a cache salt); it belongs to a sequence's first block only, since the chain of parents
// carries it on.
//
// The name is SHA-256 over: parent (32 bytes), the number of tokens (uint32), the tokens (4 bytes each), extra; integers
// little endian. It depends on nothing of this process, so engines agree on it.
func HashBlock(parent Hash, tokens []int32, extra []byte) Hash {
	var stack [512]byte
	buf := append(stack[:0], parent[:]...)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(tokens)))
	for _, t := range tokens {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(t))
	}
	return sha256.Sum256(append(buf, extra...))
}
