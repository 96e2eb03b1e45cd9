package route

// prefixes remembers which prompts went to which endpoint, as an approximation of what their prefix caches hold. It
// keeps a bounded number of blocks of each endpoint; those that were used least recently go first (by the CLOCK
// algorithm), of one prompt the last ones before the first ones, as engines evict them.
type prefixes struct {
	held  *table // for each block the set of endpoints that hold it, and the set of those that used it again
	words int    // of a set
	most  int    // blocks of an endpoint
	order []ring // of each endpoint, its blocks in the order of eviction
}

// newPrefixes makes one for endpoints with the numbers 0 to endpoints-1, of which each keeps at most most blocks.
func newPrefixes(endpoints, most int) *prefixes {
	words := wordsFor(endpoints)
	return &prefixes{held: newTable(2 * words), words: words, most: most, order: make([]ring, endpoints)}
}

// Note says that a prompt of these blocks went to an endpoint.
func (p *prefixes) Note(endpoint int, blocks []uint64) {
	word, bit := endpoint/64, uint64(1)<<(endpoint%64)
	blocks = blocks[:min(len(blocks), p.most)]
	for i := len(blocks) - 1; i >= 0; i-- {
		w := p.held.put(blocks[i])
		if w[word]&bit != 0 {
			w[p.words+word] |= bit
			continue
		}
		w[word] |= bit
		if p.order[endpoint].n == p.most {
			p.evict(endpoint)
		}
		p.order[endpoint].push(blocks[i])
	}
}

// secondChances bounds how many blocks an eviction looks at.
const secondChances = 64

// evict forgets one block of an endpoint.
func (p *prefixes) evict(endpoint int) {
	word, bit := endpoint/64, uint64(1)<<(endpoint%64)
	o := &p.order[endpoint]
	for chances := secondChances; ; chances-- {
		block := o.pop()
		w := p.held.get(block)
		if used := &w[p.words+word]; *used&bit != 0 && chances > 0 {
			*used &^= bit
			o.push(block)
			continue
		}
		p.drop(endpoint, block, w)
		return
	}
}

// drop takes an endpoint out of a block's sets, w.
func (p *prefixes) drop(endpoint int, block uint64, w []uint64) {
	word, bit := endpoint/64, uint64(1)<<(endpoint%64)
	w[word] &^= bit
	w[p.words+word] &^= bit
	for _, x := range w[:p.words] {
		if x != 0 {
			return
		}
	}
	p.held.remove(block)
}

// Forget says that an endpoint holds nothing.
func (p *prefixes) Forget(endpoint int) {
	o := &p.order[endpoint]
	for o.n > 0 {
		block := o.pop()
		p.drop(endpoint, block, p.held.get(block))
	}
	*o = ring{}
}

// Match sets depth[e] to how many leading blocks of a prompt endpoint e holds.
func (p *prefixes) Match(blocks []uint64, depth []int) { p.held.match(blocks, depth) }

// ring is a queue of blocks that grows to what it has held at most.
type ring struct {
	list []uint64
	head int
	n    int
}

func (r *ring) push(block uint64) {
	if r.n == len(r.list) {
		more := make([]uint64, max(16, 2*len(r.list)))
		copied := copy(more, r.list[r.head:])
		copy(more[copied:], r.list[:r.head])
		r.list, r.head = more, 0
	}
	r.list[(r.head+r.n)%len(r.list)] = block
	r.n++
}

func (r *ring) pop() uint64 {
	block := r.list[r.head]
	r.head = (r.head + 1) % len(r.list)
	r.n--
	return block
}
