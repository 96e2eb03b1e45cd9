package tokenizer

import "unicode/utf8"

// unigram finds the segmentation of the greatest total log-probability (Kudo, 2018) by Viterbi over a trie of the
// pieces: linear in the text for pieces of bounded length.
type unigram struct {
	trie     trie      // values are ids
	scores   []float64 // by id
	unkScore float64
	unk      int32 // -1: none; a rune without a piece is dropped
	fallback bool
	byteIDs  [256]int32
	single   bool // sums are rounded to float32, as SentencePiece's are
}

// pathNode is the best segmentation that ends at its place.
type pathNode struct {
	score float64
	from  int32 // where its last piece begins; -1: none yet
	id    int32
}

// unkPenalty is how much less likely than the rarest piece an unknown rune is.
const unkPenalty = 10

// newUnigram builds the model from pieces, whose ids are their indices; pieces with skip set are not found in text.
// lowest is the least score that counts.
func newUnigram(pieces []string, scores []float64, lowest float64, skip func(id int) bool) *unigram {
	u := &unigram{unk: -1, scores: scores, unkScore: lowest - unkPenalty}
	keys := make([]string, len(pieces))
	for i, p := range pieces {
		if !skip(i) {
			keys[i] = p
		}
	}
	u.trie = newTrie(keys)
	return u
}

func (u *unigram) sum(a, b float64) float64 {
	if u.single {
		return float64(float32(a) + float32(b))
	}
	return a + b
}

// encode implements model.
func (u *unigram) encode(s *scratch, text string) {
	s.best = s.best[:0]
	for range len(text) + 1 {
		s.best = append(s.best, pathNode{from: -1})
	}
	best := s.best
	for pos := 0; pos < len(text); {
		_, size := utf8.DecodeRuneInString(text[pos:])
		here := best[pos].score
		single := false
		node := int32(0)
		for i := pos; i < len(text); i++ {
			if node = u.trie.child(node, text[i]); node < 0 {
				break
			}
			v := u.trie.nodes[node].value
			if v < 0 {
				continue
			}
			offer(&best[i+1], u.sum(u.scores[v], here), pos, v)
			single = single || i+1-pos == size
		}
		if !single {
			offer(&best[pos+size], u.sum(u.unkScore, here), pos, -1)
		}
		pos += size
	}
	u.backtrack(s, text)
}

func offer(n *pathNode, score float64, from int, id int32) {
	if n.from < 0 || score > n.score {
		*n = pathNode{score, int32(from), id}
	}
}

// backtrack threads the path forwards through the nodes and appends its ids; a run of unknown runes is one unk.
func (u *unigram) backtrack(s *scratch, text string) {
	best := s.best
	next := int32(len(text))
	for end := next; end > 0; {
		from := best[end].from
		best[end].from = next // now where the piece after this one ends
		next, end = end, from
	}
	inUnk := false
	for start, end := int32(0), next; start < int32(len(text)); start, end = end, best[end].from {
		id := best[end].id
		if id >= 0 && id != u.unk {
			s.dst = append(s.dst, id)
			inUnk = false
			continue
		}
		switch {
		case u.fallback:
			for i := start; i < end; i++ {
				s.dst = append(s.dst, u.byteIDs[text[i]])
			}
		case !inUnk && u.unk >= 0:
			s.dst = append(s.dst, u.unk)
		}
		inUnk = true
	}
}
