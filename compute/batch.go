package compute

import "fmt"

// Batch is the work of one step: the new tokens of all its sequences laid end to end, without padding. Row r of every
// activation tensor of the step belongs to token IDs[r].
type Batch struct {
	IDs    []int32 // [rows] token ids
	Pos    []int32 // [rows] position of each token in its own sequence, from 0
	Seqs   []Seq   // who owns which rows, in row order, covering all rows
	Logits []int32 // rows whose logits are wanted, ascending; may be empty
}

// Seq is the part of one sequence in a Batch: Rows consecutive tokens from position Start on. Blocks is its block table:
// token p of the sequence lives in slot p % blockTokens of block Blocks[p / blockTokens]. The table covers at least
// [0, Start+Rows).
type Seq struct {
	Row, Rows int32
	Start     int32
	Blocks    []int32
}

// Rows returns the number of tokens in the batch.
func (b *Batch) Rows() int { return len(b.IDs) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.IDs, b.Pos, b.Seqs, b.Logits = b.IDs[:0], b.Pos[:0], b.Seqs[:0], b.Logits[:0]
}

// Append adds one sequence's next tokens, which start at position start, to the batch. If sample is set, the logits of
// the last of them are wanted.
func (b *Batch) Append(ids []int32, start int, blocks []int32, sample bool) {
	row := len(b.IDs)
	b.Seqs = append(b.Seqs, Seq{Row: int32(row), Rows: int32(len(ids)), Start: int32(start), Blocks: blocks})
	b.IDs = append(b.IDs, ids...)
	for i := range ids {
		b.Pos = append(b.Pos, int32(start+i))
	}
	if sample {
		b.Logits = append(b.Logits, int32(len(b.IDs)-1))
	}
}

// Check reports the first inconsistency of the batch against a cache of the given size and a vocabulary of vocab tokens.
func (b *Batch) Check(vocab, blocks, blockTokens int) error {
	if len(b.Pos) != len(b.IDs) {
		return fmt.Errorf("compute: batch has %d ids and %d positions", len(b.IDs), len(b.Pos))
	}
	for r, id := range b.IDs {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("compute: row %d: token %d is outside the vocabulary of %d", r, id, vocab)
		}
	}
	row := int32(0)
	for i, s := range b.Seqs {
		if s.Row != row || s.Rows < 1 || s.Start < 0 {
			return fmt.Errorf("compute: sequence %d: rows [%d,+%d) from position %d do not follow row %d", i, s.Row, s.Rows, s.Start, row)
		}
		row += s.Rows
		if need := (int(s.Start+s.Rows) + blockTokens - 1) / blockTokens; len(s.Blocks) < need {
			return fmt.Errorf("compute: sequence %d: %d tokens need %d blocks, the table has %d", i, s.Start+s.Rows, need, len(s.Blocks))
		}
		for _, blk := range s.Blocks {
			if blk < 0 || int(blk) >= blocks {
				return fmt.Errorf("compute: sequence %d: block %d is outside the cache of %d", i, blk, blocks)
			}
		}
	}
	if int(row) != len(b.IDs) {
		return fmt.Errorf("compute: sequences own %d rows of %d", row, len(b.IDs))
	}
	for i, r := range b.Logits {
		if r < 0 || int(r) >= len(b.IDs) || i > 0 && r <= b.Logits[i-1] {
			return fmt.Errorf("compute: logits row %d is out of range or out of order", r)
		}
	}
	return nil
}
