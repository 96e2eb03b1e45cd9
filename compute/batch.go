package compute

import (
	"fmt"
	"math"
)

// Batch is the work of one step: the new tokens of all its sequences laid end to end, without padding. Row r of every
// activation belongs to token IDs[r]. What the device does, in this order: Shifts, Out, Copies, In; Edits, Choosers,
// Place; then the graph. A batch may have no rows: then it only moves blocks.
type Batch struct {
	IDs []int32 // [rows] token ids
	// From [rows], if not empty, says where the ids come from: -1 is IDs[r]; k is the token that entry k of Choose of
	// the step started before this one yields.
	From []int32
	Pos  []int32 // [rows] position of each token in its own sequence, from 0
	// Parents [rows], if not empty, makes trees of rows. Row r goes on from row Parents[r], an earlier one of its
	// sequence; -1 is the row before it, or the tokens before Seq.Start if it is the sequence's first. It attends to
	// what it goes on from, to what that goes on from, and so on. Pos is one more than that of the row that r goes on
	// from, while keys and values are stored by row: see Seq. Where siblings share a position, Shifts of a later batch
	// bring one path of a tree together. Program.Trees says whether a device takes Parents.
	Parents []int32
	Seqs    []Seq   // sequence of each run of rows, in row order, covering all rows
	Types   []int32 // [rows] token types, in models that have such; empty is all 0
	Logits  []int32 // rows whose logits are computed, ascending; may be empty
	Hidden  []int32 // rows whose final hidden states are wanted, likewise

	Choose []Choice
	Read   []int32 // indices in Logits of the rows that Step.Logits returns; logits stay on the device otherwise
	// Masks are sets of tokens that may be chosen, MaskWords words each, a bit for each token, the lowest of the
	// first word first: Choice.Mask names one.
	Masks []uint32
	// Hold stops the step before it chooses, until Step.Choose: so that Masks can be filled while it computes.
	Hold bool

	Edits    []TableEdit
	Choosers []Chooser
	Place    []Placement
	Shifts   []Shift    // made one after the other
	Out      []Transfer // blocks that are written to host memory
	Copies   [][2]int32 // made one after the other: what the first block of a pair holds, to the second
	In       []Transfer // blocks that are read from host memory
}

// Seq is the part of one sequence in a Batch: Rows consecutive tokens, or a tree of them, starting at position Start.
// The device keeps the sequence's block tables under Slot, one for each group of layers (CacheLayer.Group): token p of
// the sequence, which is that of row Row+p-Start, is in slot p % BlockTokens of block table[p / BlockTokens]. A table
// covers at least [0, Start+Rows); an entry of -1 is a block before the window of every layer of the group, whose
// contents are lost.
type Seq struct {
	Row, Rows int32
	Start     int32
	Slot      int32
	Adapter   int32 // slot of the sequence's adapter; 0 is none
	State     int32 // slot of the sequence's recurrent state, in models that have one
	Long      bool  // rotary embeddings that have frequencies for long sequences use them
}

// TableEdit sets an entry of the block table of a slot and a group: entry At becomes Block. At is at most one past the
// last entry that was ever set for the slot.
type TableEdit struct{ Slot, Group, At, Block int32 }

// Shift copies what the cache holds of one token in a group of layers: that in slot FromAt of block From, to slot ToAt
// of block To.
type Shift struct{ Group, From, FromAt, To, ToAt int32 }

// Transfer moves one block between the cache and host memory of Program.BlockBytes bytes, in the device's own layout.
type Transfer struct {
	Block int32
	Data  []byte
}

// Placement puts an adapter into a slot, from 1 to Graph.Adapters: Low [Graph.Targets] is what it adds to each
// target. nil empties the slot. What the slot held is freed once no step needs it.
type Placement struct {
	Slot int32
	Low  []LowRank
}

// MaskWords returns the words of a mask over a vocabulary.
func MaskWords(vocab int) int { return (vocab + 31) / 32 }

// Rows returns the number of tokens in the batch.
func (b *Batch) Rows() int { return len(b.IDs) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	clear(b.Choosers)
	clear(b.Place)
	clear(b.Out)
	clear(b.In)
	*b = Batch{
		IDs: b.IDs[:0], From: b.From[:0], Pos: b.Pos[:0], Parents: b.Parents[:0], Seqs: b.Seqs[:0], Types: b.Types[:0],
		Logits: b.Logits[:0], Hidden: b.Hidden[:0], Choose: b.Choose[:0], Read: b.Read[:0], Masks: b.Masks[:0],
		Edits: b.Edits[:0], Choosers: b.Choosers[:0], Place: b.Place[:0], Shifts: b.Shifts[:0], Out: b.Out[:0],
		Copies: b.Copies[:0], In: b.In[:0],
	}
}

// Append adds one sequence's next tokens, which start at position start, to the batch, in a slot of its own: that of
// its number in the batch, whose tables become the given ones. If logits is set, the logits of the last row are
// computed.
func (b *Batch) Append(ids []int32, start int, logits bool, tables ...[]int32) {
	slot := int32(len(b.Seqs))
	b.Sequence(start, ids, len(ids)).Slot = slot
	for group, table := range tables {
		for at, block := range table {
			b.Edits = append(b.Edits, TableEdit{slot, int32(group), int32(at), block})
		}
	}
	if logits {
		b.Logits = append(b.Logits, int32(len(b.IDs)-1))
	}
}

// AppendSeq adds a sequence's next rows tokens, of which ids are the first; those after them are 0. It sets the place
// of the sequence among the rows.
func (b *Batch) AppendSeq(s Seq, ids []int32, rows int) {
	to := b.Sequence(int(s.Start), ids, rows)
	s.Row, s.Rows = to.Row, to.Rows
	*to = s
}

// Sequence is AppendSeq for a caller who sets Slot, Adapter, State and Long in what it returns, before the next one is
// added.
func (b *Batch) Sequence(start int, ids []int32, rows int) *Seq {
	b.Seqs = append(b.Seqs, Seq{})
	s := &b.Seqs[len(b.Seqs)-1]
	s.Row, s.Rows, s.Start = int32(len(b.IDs)), int32(rows), int32(start)
	b.IDs = append(b.IDs, ids...)
	for i := range rows {
		if i >= len(ids) {
			b.IDs = append(b.IDs, 0)
		}
		b.Pos = append(b.Pos, int32(start+i))
	}
	return s
}

// Choice adds an entry to Choose, of a row whose logits are to be computed for it. The caller sets the rest of what it
// returns, before the next one is added.
func (b *Batch) Choice(row int) *Choice {
	b.Choose = append(b.Choose, Choice{})
	c := &b.Choose[len(b.Choose)-1]
	c.Row = int32(len(b.Logits))
	b.Logits = append(b.Logits, int32(row))
	return c
}

// Tree makes the last rows of the last sequence a tree: row i of these goes on from row parents[i] of these, an earlier
// one, or if that is -1 from the row before all of them, which is the sequence's too.
func (b *Batch) Tree(parents []int32) {
	b.EndTrees()
	first := int32(len(b.IDs) - len(parents))
	for i, p := range parents {
		r := first + int32(i)
		b.Parents[r] = first + p
		b.Pos[r] = b.Pos[first+p] + 1
	}
}

// EndTrees gives the rows that no Tree was called for the parent -1.
func (b *Batch) EndTrees() {
	for len(b.Parents) < len(b.IDs) {
		b.Parents = append(b.Parents, -1)
	}
}

// ReadAll asks for the logits of all rows of Logits.
func (b *Batch) ReadAll() {
	b.Read = b.Read[:0]
	for i := range b.Logits {
		b.Read = append(b.Read, int32(i))
	}
}

// Keep makes `to` the batch of the rows that Logits or Hidden name, and returns which these are, in the memory of rows,
// which is empty. The sequences of `to` have those of their rows that are kept; tokens, positions and choices are left
// out.
func (b *Batch) Keep(to *Batch, rows []int32) []int32 {
	to.Reset()
	logits, hidden, seq := b.Logits, b.Hidden, 0
	for n := int32(0); len(logits)+len(hidden) > 0; n++ {
		r := int32(math.MaxInt32)
		for _, wanted := range [][]int32{logits, hidden} {
			if len(wanted) > 0 {
				r = min(r, wanted[0])
			}
		}
		if len(logits) > 0 && logits[0] == r {
			logits, to.Logits = logits[1:], append(to.Logits, n)
		}
		if len(hidden) > 0 && hidden[0] == r {
			hidden, to.Hidden = hidden[1:], append(to.Hidden, n)
		}
		for r >= b.Seqs[seq].Row+b.Seqs[seq].Rows {
			seq++
		}
		if len(rows) == 0 || rows[len(rows)-1] < b.Seqs[seq].Row {
			s := b.Seqs[seq]
			s.Row, s.Rows = n, 0
			to.Seqs = append(to.Seqs, s)
		}
		to.Seqs[len(to.Seqs)-1].Rows++
		to.IDs, rows = append(to.IDs, 0), append(rows, r)
	}
	return rows
}

// Check reports the first inconsistency of the batch against a graph's vocabulary, a cache and limits. It takes time in
// proportion to rows and edits, not to contexts.
func (b *Batch) Check(vocab int, cache CacheSpec, l Limits) error {
	rows := len(b.IDs)
	if rows > l.Rows {
		return fmt.Errorf("compute: a batch of %d rows; want at most %d", rows, l.Rows)
	}
	if len(b.Pos) != rows || len(b.From) > 0 && len(b.From) != rows {
		return fmt.Errorf("compute: batch has %d ids, %d origins and %d positions", rows, len(b.From), len(b.Pos))
	}
	if len(b.Types) > 0 && len(b.Types) != rows {
		return fmt.Errorf("compute: batch has %d ids and %d token types", rows, len(b.Types))
	}
	for r, id := range b.IDs {
		if known := len(b.From) == 0 || b.From[r] < 0; known && (id < 0 || int(id) >= vocab) {
			return fmt.Errorf("compute: row %d: token %d is outside the vocabulary of %d", r, id, vocab)
		}
	}
	row := int32(0)
	for i, s := range b.Seqs {
		if s.Row != row || s.Rows < 1 || s.Start < 0 {
			return fmt.Errorf("compute: sequence %d: rows [%d,+%d) from position %d do not follow row %d", i, s.Row, s.Rows, s.Start, row)
		}
		if s.Slot < 0 || int(s.Slot) >= l.Slots {
			return fmt.Errorf("compute: sequence %d: slot %d; there are %d", i, s.Slot, l.Slots)
		}
		if cache.States > 0 && (s.State < 0 || int(s.State) >= cache.States) {
			return fmt.Errorf("compute: sequence %d: state %d is outside the cache of %d", i, s.State, cache.States)
		}
		row += s.Rows
	}
	if int(row) != rows {
		return fmt.Errorf("compute: sequences own %d rows of %d", row, rows)
	}
	if err := b.checkTrees(cache); err != nil {
		return err
	}
	if err := b.checkRows("logits", b.Logits); err != nil {
		return err
	}
	if err := b.checkRows("hidden", b.Hidden); err != nil {
		return err
	}
	if err := b.checkBlocks(cache, l); err != nil {
		return err
	}
	return b.checkChoose(vocab, l)
}

// Parent returns the row that row r of sequence s goes on from; -1: the tokens before the sequence's first row.
func (b *Batch) Parent(s *Seq, r int32) int32 {
	switch {
	case len(b.Parents) > 0 && b.Parents[r] >= 0:
		return b.Parents[r]
	case r == s.Row:
		return -1
	}
	return r - 1
}

// Lead returns how many of the first rows of a sequence each go on from the one before: all of them, but in a tree.
func (b *Batch) Lead(s *Seq) int32 {
	if len(b.Parents) > 0 {
		for r := s.Row + 1; r < s.Row+s.Rows; r++ {
			if b.Parent(s, r) != r-1 {
				return r - s.Row
			}
		}
	}
	return s.Rows
}

// checkTrees reports the first row that goes on from one that it cannot go on from, or is at another position.
func (b *Batch) checkTrees(cache CacheSpec) error {
	if len(b.Parents) == 0 {
		return nil
	}
	if len(b.Parents) != len(b.IDs) || cache.States > 0 {
		return fmt.Errorf("compute: a batch of %d ids and %d parents of rows, with %d slots for recurrent state, which a tree has not",
			len(b.IDs), len(b.Parents), cache.States)
	}
	for i := range b.Seqs {
		s := &b.Seqs[i]
		for r := s.Row; r < s.Row+s.Rows; r++ {
			if p := b.Parents[r]; p != -1 && (p < s.Row || p >= r) {
				return fmt.Errorf("compute: row %d goes on from row %d; want one from %d on before it", r, p, s.Row)
			}
			want := s.Start
			if p := b.Parent(s, r); p >= 0 {
				want = b.Pos[p] + 1
			}
			if b.Pos[r] != want {
				return fmt.Errorf("compute: row %d is at position %d; want %d, after what it goes on from", r, b.Pos[r], want)
			}
		}
	}
	return nil
}

// checkRows reports the first of some rows that is outside the batch, or not after the one before.
func (b *Batch) checkRows(name string, rows []int32) error {
	for i, r := range rows {
		if r < 0 || int(r) >= len(b.IDs) || i > 0 && r <= rows[i-1] {
			return fmt.Errorf("compute: %s row %d is out of range or out of order", name, r)
		}
	}
	return nil
}

// checkBlocks reports the first block that the cache does not have.
func (b *Batch) checkBlocks(cache CacheSpec, l Limits) error {
	outside := func(block int32) bool { return block < 0 || int(block) >= cache.Blocks }
	for _, c := range b.Copies {
		if outside(c[0]) || outside(c[1]) {
			return fmt.Errorf("compute: block %d is to be copied to %d; the cache has %d", c[0], c[1], cache.Blocks)
		}
	}
	for _, s := range b.Shifts {
		at := func(slot int32) bool { return slot >= 0 && int(slot) < cache.BlockTokens }
		if outside(s.From) || outside(s.To) || !at(s.FromAt) || !at(s.ToAt) || s.Group < 0 || int(s.Group) >= cache.Groups() {
			return fmt.Errorf("compute: slot %d of block %d is to be copied to slot %d of block %d for group %d; the cache has %d blocks of %d and %d groups",
				s.FromAt, s.From, s.ToAt, s.To, s.Group, cache.Blocks, cache.BlockTokens, cache.Groups())
		}
	}
	for _, e := range b.Edits {
		if e.Slot < 0 || int(e.Slot) >= l.Slots || e.Group < 0 || int(e.Group) >= cache.Groups() || e.At < 0 {
			return fmt.Errorf("compute: an edit of entry %d of table %d of slot %d; there are %d tables of %d slots", e.At, e.Group, e.Slot, cache.Groups(), l.Slots)
		}
		if e.Block != -1 && outside(e.Block) {
			return fmt.Errorf("compute: slot %d: block %d is outside the cache of %d", e.Slot, e.Block, cache.Blocks)
		}
	}
	for _, all := range [][]Transfer{b.Out, b.In} {
		for _, t := range all {
			if outside(t.Block) {
				return fmt.Errorf("compute: block %d is to be moved; the cache has %d", t.Block, cache.Blocks)
			}
		}
	}
	return nil
}
