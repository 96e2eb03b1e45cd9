package kv

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Hash names a full block by its contents. Equal names mean equal tokens, preceded by equal tokens from the start of
// the sequence, under the same Keys, so a block may be read in place of any other of its name. The zero Hash names
// nothing.
type Hash [sha256.Size]byte

// String returns the first eight hexadecimal digits, enough to tell names apart in logs and scripts.
func (h Hash) String() string { return hex.EncodeToString(h[:4]) }

// Keys are what the contents of a sequence's blocks depend on beside its tokens, and what sets them apart. Sequences
// share blocks only if all of them are equal.
type Keys struct {
	Model       string // tells the weights and the type of keys and values; "" if all who compare names have the same
	AdapterName string // the adapter that computed them; "" is none
	AdapterID   string // tells what is in that adapter
	Long        bool   // rotary embeddings are those of long sequences
	Salt        string // shared only among those who know it; "" is everybody
}

// List returns the keys as the list of texts that a name is made of: pairs of what it is and its value, and last the
// salt. Those that are empty are left out. No two keys have the same list: only one with a salt has an odd number of
// texts.
func (k *Keys) List(list []string) []string {
	if k.Model != "" {
		list = append(list, "model", k.Model)
	}
	if k.AdapterName != "" {
		list = append(list, "adapter", k.AdapterName)
	}
	if k.AdapterID != "" {
		list = append(list, "adapter-id", k.AdapterID)
	}
	if k.Long {
		list = append(list, "rope", "long")
	}
	if k.Salt != "" {
		list = append(list, k.Salt)
	}
	return list
}

// Root returns what stands before every first block: engines agree on names if they have the same seed, a text.
func Root(seed string) Hash { return sha256.Sum256(appendText(nil, seed)) }

// HashBlock names the block that holds tokens and follows the block named parent, or Root for a sequence's first block.
// Keys belong to the first block only, since the chain of parents carries them on: leave them empty for others.
//
// The name is SHA-256 over the canonical CBOR (RFC 8949) of [parent, tokens, keys], as docs/format/block-names.md
// specifies.
func HashBlock(parent Hash, tokens []int32, keys Keys) Hash {
	var stack [512]byte
	buf := append(stack[:0], cborArray|3, cborBytes|24, sha256.Size)
	buf = append(buf, parent[:]...)
	buf = appendHead(buf, cborArray, uint64(len(tokens)))
	for _, t := range tokens {
		if t < 0 {
			buf = appendHead(buf, cborNegative, uint64(-1-int64(t)))
		} else {
			buf = appendHead(buf, 0, uint64(t))
		}
	}
	var room [9]string
	if list := keys.List(room[:0]); len(list) == 0 {
		buf = append(buf, cborNull)
	} else {
		buf = appendHead(buf, cborArray, uint64(len(list)))
		for _, text := range list {
			buf = appendText(buf, text)
		}
	}
	return sha256.Sum256(buf)
}

// The major types of CBOR that names are made of, in the upper three bits of an item's first byte.
const (
	cborNegative = 1 << 5
	cborBytes    = 2 << 5
	cborText     = 3 << 5
	cborArray    = 4 << 5
	cborNull     = 0xf6
)

// appendHead appends the head of an item: its major type and a number, in the fewest bytes.
func appendHead(buf []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(buf, major|byte(n))
	case n < 1<<8:
		return append(buf, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(buf, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(buf, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(buf, major|27), n)
}

func appendText(buf []byte, s string) []byte {
	return append(appendHead(buf, cborText, uint64(len(s))), s...)
}
