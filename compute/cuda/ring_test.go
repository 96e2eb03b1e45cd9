package cuda

import (
	"fmt"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
)

// TestRinged lists which few rows are for attend_ring.cu.
func TestRinged(t *testing.T) {
	for _, c := range []struct {
		seqs, tokens, prompt, room int // sequences of a row; tokens of a prompt beside them; rows of a graph
		alone, many, want          bool
	}{
		{16, 100_000, 0, 16, false, false, true}, {17, 100, 0, 24, true, false, false}, {9, 100, 0, 24, true, false, false}, {17, 100, 0, 24, true, true, true},
		{17, 100, 0, 24, false, true, false}, {256, 1279, 0, 256, true, true, true}, {64, 1280, 0, 64, true, true, false}, {257, 100, 0, 320, true, true, false},
		{16, 100_000, 900, 0, false, false, true}, {64, 500, 900, 0, true, true, false}, {0, 0, 900, 0, false, false, true},
	} {
		b := &compute.Batch{}
		for range c.seqs {
			b.AppendSeq(compute.Seq{Start: int32(c.tokens)}, []int32{1}, 1)
		}
		if c.prompt > 0 {
			b.AppendSeq(compute.Seq{}, make([]int32, c.prompt), c.prompt)
		}
		if got := (&program{ringsMany: c.many}).ringed(b, c.room, c.alone); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// TestParts checks that the parts of attend_ring.cu cover all chunks in order, how many there are, and that shares of
// first parts are whole where blocks have many.
func TestParts(t *testing.T) {
	const blocks = 132
	for _, c := range []struct{ rows, chunks, more, shares, parts int }{
		{1, 1, 0, 8, 2}, {1, 4, 0, 8, 8}, {3, 4, 7, 8, 66}, {256, 4, 0, 8, 596}, {256, 4, 9, 8, 0}, {512, 10, 0, 8, 0}, {32, 64, 0, 8, 0}, {1, 128, 0, 8, 132},
		{1023, 1, 0, 4, 0}, {64, 4, 0, 8, 0}, {300, 300, 77, 8, 0},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			var rows []int32
			chunks := 0
			for i := range c.rows {
				chunks += c.chunks + i*c.more%(c.more*3+1)
				rows = append(rows, int32(chunks), int32(100+i), int32(200+i), 64*int32(c.chunks))
			}
			most := ringParts(blocks)
			to := make([]int32, ringPartInts*(most+1))
			for i := range to {
				to[i] = -1
			}
			fillParts(to, rows, c.shares, blocks)
			chunks *= c.shares
			parts := 0
			for p := range most {
				part, next := to[ringPartInts*p:][:ringPartInts], to[ringPartInts*(p+1)]
				if p == 0 && part[0] != 0 || next < part[0] {
					t.Fatalf("part %d is of chunks %d to %d", p, part[0], next)
				}
				if part[0] == next {
					continue
				}
				parts++
				i := part[1]
				begin := int32(0)
				if i > 0 {
					begin = rows[4*i-4]
				}
				n := rows[4*i] - begin
				nth := part[0] - begin*int32(c.shares) - part[7]*n
				if part[2] != begin || part[3] != rows[4*i] || part[4] != 100+i || part[5] != 200+i || part[7] >= int32(c.shares) || nth < 0 || nth >= n {
					t.Fatalf("part %d is %v, of row %v", p, part, rows[4*i:][:4])
				}
				if chunks/blocks*4/5 >= c.chunks+3*c.more && p <= blocks && nth != 0 {
					t.Errorf("part %d begins within a share", p)
				}
			}
			if last := to[ringPartInts*most]; int(last) != chunks {
				t.Errorf("parts end at chunk %d of %d", last, chunks)
			}
			if c.parts > 0 && parts != c.parts || parts == most {
				t.Errorf("%d parts; want %d", parts, c.parts)
			}
		})
	}
}

// TestLastPart checks that the last part has no chunks, also where there would be more parts: a block that finds no
// other takes it, and ends.
func TestLastPart(t *testing.T) {
	for _, blocks := range []int{4, 8, 132} {
		most := ringParts(blocks)
		to := make([]int32, ringPartInts*(most+1))
		full := 0
		for rows := 1; rows <= 256; rows++ {
			for n := range int32(160) {
				shares, n := 1<<(n%4), n/4+1
				var list []int32
				for i := range int32(rows) {
					list = append(list, n*(i+1), i, i, 64*n)
				}
				chunks := n * int32(rows*shares)
				fillParts(to, list, shares, blocks)
				if to[ringPartInts*(most-1)] != chunks {
					t.Fatalf("%d blocks, %d rows of %d chunks and %d shares: the last part begins at chunk %d of %d", blocks, rows, n, shares, to[ringPartInts*(most-1)], chunks)
				}
				if to[ringPartInts*(most-2)] < chunks {
					full++
				}
			}
		}
		if blocks < 10 && full == 0 {
			t.Errorf("%d blocks: all other parts are never used", blocks)
		}
	}
}
