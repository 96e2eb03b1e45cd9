package grammar

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
)

// Vocab is the vocabulary of a model, as a trie. It is immutable and safe for concurrent use.
type Vocab struct {
	size    int
	ends    []int32
	encode  func(text string) []int32
	tokens  []Token
	special map[string]int32 // by spelling

	nodes    []node       // in preorder; nodes[0] is the root
	ids      []int32      // of tokens, in the order of nodes
	arena    *arena       // expressions that every grammar begins with
	common   prelude      // some of them
	families []family     // slices of the vocabulary (slice.go)
	heads    map[id]*head // of the prelude's terms
}

// Token is a token of a vocabulary.
type Token struct {
	Bytes   []byte // of its text, for a special token its spelling; nil for an id that is not assigned
	Special bool   // a control token: only Begin and End of a Tag, and <name> in a grammar, stand for it
}

// node is a node of the trie: the byte that leads to it, and the tokens that end there.
type node struct {
	end   int32  // the first node after its subtree
	tok   int32  // its first token in Vocab.ids; the next node's is the end of them
	skip  uint32 // bits of slices that all tokens of the subtree are in
	depth uint16
	byte  byte
}

// mark begins the bytes that stand for a special token in the trie: no UTF-8 has it.
const mark = 0xFF

// spell returns the bytes that stand for a special token.
func spell(id int32) string { return string([]byte{mark, '['}) + strconv.Itoa(int(id)) + "]" }

// NewVocab makes a vocabulary of tokens by id. ends are the tokens that end an output; encode tokenizes text without
// special tokens around it, for Forced, and may be nil: then nothing is forced.
func NewVocab(tokens []Token, ends []int32, encode func(text string) []int32) *Vocab {
	v := &Vocab{size: len(tokens), ends: slices.Clone(ends), encode: encode, tokens: tokens, special: map[string]int32{}}
	v.arena = newArena(1 << 20)
	v.common = newPrelude(v.arena)
	v.families = families(v.arena, len(tokens))
	type entry struct {
		bytes []byte
		id    int32
	}
	var list []entry
	for i, t := range tokens {
		switch {
		case len(t.Bytes) == 0 || slices.Contains(ends, int32(i)):
			if t.Special {
				v.special[string(t.Bytes)] = int32(i)
			}
		case t.Special:
			v.special[string(t.Bytes)] = int32(i)
			list = append(list, entry{[]byte(spell(int32(i))), int32(i)})
		default:
			list = append(list, entry{t.Bytes, int32(i)})
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Or(bytes.Compare(a.bytes, b.bytes), cmp.Compare(a.id, b.id)) })
	v.nodes = append(v.nodes, node{skip: ^uint32(0)})
	path := []int32{0} // the nodes from the root to the last one
	var last []byte
	for _, e := range list {
		same := 0
		for same < min(len(last), len(e.bytes)) && last[same] == e.bytes[same] {
			same++
		}
		v.leave(&path, same+1)
		for d := same; d < len(e.bytes); d++ {
			path = append(path, int32(len(v.nodes)))
			v.nodes = append(v.nodes, node{tok: int32(len(v.ids)), depth: uint16(d + 1), skip: ^uint32(0), byte: e.bytes[d]})
		}
		v.ids = append(v.ids, e.id)
		n := &v.nodes[path[len(path)-1]]
		n.skip &= v.slot(e.bytes, e.id)
		last = e.bytes
	}
	v.leave(&path, 1)
	v.nodes[0].end = int32(len(v.nodes))
	v.nodes = append(v.nodes, node{tok: int32(len(v.ids))}) // for the last one's end of tokens
	v.warm()
	return v
}

// leave ends the subtrees below depth n of a path.
func (v *Vocab) leave(path *[]int32, n int) {
	for p := *path; len(p) > n; p = p[:len(p)-1] {
		last, parent := &v.nodes[p[len(p)-1]], &v.nodes[p[len(p)-2]]
		last.end = int32(len(v.nodes))
		parent.skip &= last.skip
		*path = p[:len(p)-1]
	}
}

// Size returns how many ids the vocabulary has; masks have that many bits.
func (v *Vocab) Size() int { return v.size }

// tokensAt returns the tokens that end at node p.
func (v *Vocab) tokensAt(p int32) []int32 { return v.ids[v.nodes[p].tok:v.nodes[p+1].tok] }
