// Command _asm writes the kernels of the affine weight types: the assembly that unpacks and multiplies their panels,
// its Go declarations, and the tables that choose it by type. types.go describes the types. Run it by go generate in
// the folder above.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("dir", ".", "folder to write to")
	flag.Parse()
	for _, w := range weights {
		check(w)
	}
	for name, text := range map[string]interface{ Bytes() []byte }{
		"affine_layouts.go":           layouts(),
		"affine_tables_vnni_amd64.go": vnniTables(),
		"affine_tile_vnni_amd64.s":    vnniTiles(),
		"affine_unpack_amx_amd64.s":   amxUnpack(),
		"affine_tables_avx2_amd64.go": avx2Tables(),
		"affine_tile_avx2_amd64.s":    avx2Tiles(),
		"affine_unpack_avx2_amd64.s":  avx2Unpack(),
		"affine_tile_neon_arm64.s":    neonTiles(false),
		"affine_tile_neondot_arm64.s": neonTiles(true),
		"affine_span_avx2_amd64.s":    avx2Spans(),
		"affine_tile_amx_amd64.s":     amxProducts(),
		"affine_tables_amx_amd64.go":  amxTables(),
		"affine_panel_vnni_amd64.s":   vnniPanels(),
	} {
		if err := os.WriteFile(filepath.Join(*dir, name), text.Bytes(), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
