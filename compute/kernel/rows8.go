package kernel

// SpanValues is how many values of a quantised row have one scale: a span. Each group of 32 of them has a share, a
// whole number from 1 to greatestShare that multiplies the scale.
const (
	SpanValues    = 256
	greatestShare = 8
)

// Rows8 is a run of activation rows, quantised to 8 bits. Row i has its values, from -127 to 127, at Q[i·Ld:], and what
// products need of its spans at Sums[i·LdSums:].
type Rows8 struct {
	Q          []int8
	Sums       []SpanSums
	Ld, LdSums int // Ld is a multiple of 32
	Blocks     int // of 32 values, of a row

	// For kernels with tiles: the rows once more, 16 by 16, in records whose layout is the kernels' own, and scratch
	// memory.
	Tiles    []byte // [spans][RowTiles] records of rowTileBytes
	RowTiles int
	work     []byte // [WorkBytes]
}

// Sizes in bytes, of kernels with tiles (affine_amx_amd64.go).
const (
	rowTileBytes = 9024
	tileWork     = 30464 // of work, before sums of GroupPanels panels and MaxRowChunk rows
	WorkBytes    = tileWork + GroupPanels*MaxRowChunk*Lanes*4
)

// Spans returns how many spans a row has.
func (x *Rows8) Spans() int { return (x.Blocks*32 + SpanValues - 1) / SpanValues }

// TileBytes returns the size of the tiles of rows rows, and how many tiles there are of each span.
func (x *Rows8) TileBytes(rows int) (bytes, tiles int) {
	tiles = (rows + Lanes - 1) / Lanes
	return x.Spans() * tiles * rowTileBytes, tiles
}

// From returns the rows from row r on, without tiles.
func (x Rows8) From(r int) Rows8 {
	x.Q, x.Sums, x.RowTiles = x.Q[r*x.Ld:], x.Sums[r*x.LdSums:], 0
	return x
}

// FromTile returns the rows from row r on, a multiple of 32, with their tiles if there are any.
func (x Rows8) FromTile(r int, work []byte) Rows8 {
	rows := x.From(r)
	if x.RowTiles > 0 {
		rows.Tiles, rows.RowTiles, rows.work = x.Tiles[r/Lanes*rowTileBytes:], x.RowTiles, work
	}
	return rows
}

// SpanSums has what products need of a span of a quantised row beside its values: the scale D, the shares of its
// groups of 32, and the sums of its groups of 16 and of 32 values, both negated and times the share. Groups that the
// row lacks are 0.
type SpanSums struct {
	Shares  [8]int32
	minus16 [16]int32
	minus32 [8]int32
	sums16  [16]int16 // times T
	sums32  [8]int16
	D       float32
	_       [3]int32
}

// of returns the sum of group g of 16 or 32 values, times T.
func (s *SpanSums) of(group, g int) int32 {
	if group == 32 {
		return int32(s.sums32[g])
	}
	return int32(s.sums16[g])
}

// sumUp sets the sums of the values q, at most 256, of a multiple of 32, whose shares are set.
func (s *SpanSums) sumUp(q []int8) {
	for g := range len(q) / 32 {
		sum := int32(0)
		for h := 2 * g; h < 2*g+2; h++ {
			half := int32(0)
			for _, v := range q[h*16:][:16] {
				half += int32(v)
			}
			s.minus16[h], s.sums16[h] = -half, int16(half*s.Shares[g])
			sum += half
		}
		s.minus32[g], s.sums32[g] = -sum, int16(sum*s.Shares[g])
	}
}
