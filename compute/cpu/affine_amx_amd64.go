//go:build amd64 && !noasm

package cpu

// amx is avx512vnni with the tile products of AMX for many rows.
var amx = func() kernels {
	k := avx512vnni
	k.name = "amx"
	return k
}()

// tileConfig is the operand of LDTILECFG.
type tileConfig struct {
	palette, _ uint8 // and the row to start from
	_          [14]uint8
	bytes      [16]uint16 // of a row of each tile
	rows       [16]uint8
}

var tiles64 = tileConfig{palette: 1, bytes: [16]uint16{64, 64, 64, 64, 64, 64, 64, 64}, rows: [16]uint8{16, 16, 16, 16, 16, 16, 16, 16}}

//go:noescape
func roofTileAMX(n int, config *tileConfig)
