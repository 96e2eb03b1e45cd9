package compute

import "fmt"

// Batch is the work of one step: the new tokens of all its sequences laid end to end, without padding. Row r of every
// activation tensor of the step belongs to token IDs[r].
type Batch struct {
	IDs    []int32 // [rows] token ids
	Pos    []int32 // [rows] position of each token in its own sequence, from 0
	Seqs   []Seq   // who owns which rows, in row order, covering all rows
	Types  []int32 // [rows] token types, in models that have such; empty is all 0
	Logits []int32 // rows whose logits are wanted, ascending; may be empty
	Hidden []int32 // rows whose final hidden states are wanted, likewise
	// Copies are made before anything else, one after the other: what the first block of a pair holds, to the second. Who
	// makes them takes them out of the batch, for none may be made again.
	Copies [][2]int32
}

// Seq is the part of one sequence in a Batch: Rows consecutive tokens from position Start on. Tables holds its block table
// for each group of layers (CacheLayer.Group): token p of the sequence lives in slot p % blockTokens of block
// table[p / blockTokens]. A table covers at least [0, Start+Rows); an entry of -1 is a block that is no longer kept, since
// it lies before the window of every layer of the group.
type Seq struct {
	Row, Rows int32
	Start     int32
	Adapter   int32 // whose entry of Product.Adapters counts; 0 is none
	State     int32 // slot of the sequence's recurrent state, in models that have one
	Tables    [][]int32
	Long      bool // rotary embeddings that have frequencies for long sequences use them
}

// Rows returns the number of tokens in the batch.
func (b *Batch) Rows() int { return len(b.IDs) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.IDs, b.Pos, b.Seqs, b.Types, b.Copies = b.IDs[:0], b.Pos[:0], b.Seqs[:0], b.Types[:0], b.Copies[:0]
	b.Logits, b.Hidden = b.Logits[:0], b.Hidden[:0]
}

// Append adds one sequence's next tokens, which start at position start, to the batch. If sample is set, the logits of
// the last of them are wanted.
func (b *Batch) Append(ids []int32, start int, sample bool, tables ...[]int32) {
	row := len(b.IDs)
	b.Seqs = append(b.Seqs, Seq{Row: int32(row), Rows: int32(len(ids)), Start: int32(start), Tables: tables})
	b.IDs = append(b.IDs, ids...)
	for i := range ids {
		b.Pos = append(b.Pos, int32(start+i))
	}
	if sample {
		b.Logits = append(b.Logits, int32(len(b.IDs)-1))
	}
}

// Check reports the first inconsistency of the batch against a cache and a vocabulary of vocab tokens.
func (b *Batch) Check(vocab int, cache CacheSpec) error {
	if len(b.Pos) != len(b.IDs) {
		return fmt.Errorf("compute: batch has %d ids and %d positions", len(b.IDs), len(b.Pos))
	}
	for r, id := range b.IDs {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("compute: row %d: token %d is outside the vocabulary of %d", r, id, vocab)
		}
	}
	for _, c := range b.Copies {
		if c[0] < 0 || c[1] < 0 || int(max(c[0], c[1])) >= cache.Blocks {
			return fmt.Errorf("compute: block %d is to be copied to %d; the cache has %d", c[0], c[1], cache.Blocks)
		}
	}
	row := int32(0)
	for i, s := range b.Seqs {
		if s.Row != row || s.Rows < 1 || s.Start < 0 {
			return fmt.Errorf("compute: sequence %d: rows [%d,+%d) from position %d do not follow row %d", i, s.Row, s.Rows, s.Start, row)
		}
		row += s.Rows
		if err := s.check(i, cache); err != nil {
			return err
		}
	}
	if int(row) != len(b.IDs) {
		return fmt.Errorf("compute: sequences own %d rows of %d", row, len(b.IDs))
	}
	if len(b.Types) > 0 && len(b.Types) != len(b.IDs) {
		return fmt.Errorf("compute: batch has %d ids and %d token types", len(b.IDs), len(b.Types))
	}
	if err := b.checkRows("logits", b.Logits); err != nil {
		return err
	}
	return b.checkRows("hidden", b.Hidden)
}

// checkRows reports the first of some rows that is not one of the batch, or not after the one before.
func (b *Batch) checkRows(name string, rows []int32) error {
	for i, r := range rows {
		if r < 0 || int(r) >= len(b.IDs) || i > 0 && r <= rows[i-1] {
			return fmt.Errorf("compute: %s row %d is out of range or out of order", name, r)
		}
	}
	return nil
}

// check reports the first inconsistency of sequence i against a cache.
func (s *Seq) check(i int, cache CacheSpec) error {
	if groups := cache.Groups(); len(s.Tables) != groups {
		return fmt.Errorf("compute: sequence %d has %d block tables; the cache has %d groups of layers", i, len(s.Tables), groups)
	}
	if cache.States > 0 && (s.State < 0 || int(s.State) >= cache.States) {
		return fmt.Errorf("compute: sequence %d: state %d is outside the cache of %d", i, s.State, cache.States)
	}
	for _, table := range s.Tables {
		if need := (int(s.Start+s.Rows) + cache.BlockTokens - 1) / cache.BlockTokens; len(table) < need {
			return fmt.Errorf("compute: sequence %d: %d tokens need %d blocks, the table has %d", i, s.Start+s.Rows, need, len(table))
		}
		for at, blk := range table {
			if dropped := blk == -1 && at < int(s.Start)/cache.BlockTokens; !dropped && (blk < 0 || int(blk) >= cache.Blocks) {
				return fmt.Errorf("compute: sequence %d: block %d is outside the cache of %d", i, blk, cache.Blocks)
			}
		}
	}
	return nil
}
