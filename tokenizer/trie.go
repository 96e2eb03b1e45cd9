package tokenizer

import (
	"slices"
	"strings"
)

// trie maps byte strings to their index in the list it was built from. It is laid out flat: the children of a node
// are consecutive edges sorted by byte; nodes with many children have a direct table.
type trie struct {
	nodes []trieNode
	edges []trieEdge
	dense []int32 // 256 per dense node: child, or -1
}

type trieNode struct {
	value int32 // -1: no key ends here
	edge  int32 // first edge, or with n < 0 the offset in dense
	n     int32 // number of edges; -1: dense
}

type trieEdge struct {
	b    byte
	node int32
}

const denseFrom = 8 // children from which a node gets a table

// newTrie builds the trie; of equal keys the last wins. Empty keys are left out.
func newTrie(keys []string) trie {
	order := make([]int32, 0, len(keys))
	for i, k := range keys {
		if k != "" {
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return strings.Compare(keys[a], keys[b]) })
	t := trie{nodes: []trieNode{{value: -1}}}
	type job struct {
		node, lo, hi, depth int // keys order[lo:hi] share a prefix of depth bytes, which node stands for
	}
	jobs := []job{{0, 0, len(order), 0}}
	for len(jobs) > 0 {
		j := jobs[len(jobs)-1]
		jobs = jobs[:len(jobs)-1]
		for j.lo < j.hi && len(keys[order[j.lo]]) == j.depth {
			t.nodes[j.node].value = order[j.lo]
			j.lo++
		}
		first := len(t.edges)
		for lo := j.lo; lo < j.hi; {
			b := keys[order[lo]][j.depth]
			hi := lo + 1
			for hi < j.hi && keys[order[hi]][j.depth] == b {
				hi++
			}
			child := len(t.nodes)
			t.nodes = append(t.nodes, trieNode{value: -1})
			t.edges = append(t.edges, trieEdge{b, int32(child)})
			jobs = append(jobs, job{child, lo, hi, j.depth + 1})
			lo = hi
		}
		t.seal(j.node, first)
	}
	return t
}

// seal gives node the edges from first on.
func (t *trie) seal(node, first int) {
	edges := t.edges[first:]
	n := &t.nodes[node]
	if len(edges) < denseFrom {
		n.edge, n.n = int32(first), int32(len(edges))
		return
	}
	n.edge, n.n = int32(len(t.dense)), -1
	t.dense = append(t.dense, slices.Repeat([]int32{-1}, 256)...)
	for _, e := range edges {
		t.dense[int(n.edge)+int(e.b)] = e.node
	}
	t.edges = t.edges[:first]
}

// child returns the node below node on byte b, or -1.
func (t *trie) child(node int32, b byte) int32 {
	n := &t.nodes[node]
	if n.n < 0 {
		return t.dense[int(n.edge)+int(b)]
	}
	for _, e := range t.edges[n.edge : n.edge+n.n] {
		if e.b == b {
			return e.node
		}
	}
	return -1
}

// longest returns the value and length of the longest key that text begins with, or -1.
func (t *trie) longest(text string) (value int32, length int) {
	value = -1
	node := int32(0)
	for i := range len(text) {
		if node = t.child(node, text[i]); node < 0 {
			break
		}
		if v := t.nodes[node].value; v >= 0 {
			value, length = v, i+1
		}
	}
	return value, length
}
