package tier

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/quant"
)

// layouts describe the blocks of two groups of layers, of four tokens, on a device that keeps a row of numbers for each
// token, or on one that keeps the numbers of all tokens beside each other. Packed blocks end with three unused bytes.
func layouts(tokensFirst bool) (all []compute.Layout) {
	const tokens = 4
	for group, heads := range []int{2, 1} {
		l := compute.Layout{Tokens: tokens}
		for part := range 4 { // two layers
			dims := 3 + group + part%2
			row := 2 * dims
			plane := compute.Plane{
				Bytes: 2, Count: 1, Offset: l.Bytes, Head: tokens * row, Token: compute.Axis{Near: row}, Block: compute.Axis{Near: 2},
			}
			if !tokensFirst {
				plane.Token.Near, plane.Block.Near = 2, 2*tokens
			}
			l.Parts = append(l.Parts, compute.Part{
				Layer: 2*(part/2) + group, Values: part%2 > 0, Heads: heads, Dims: dims, Type: quant.F16, Planes: []compute.Plane{plane},
			})
			l.Bytes += heads * tokens * row
		}
		all = append(all, l)
	}
	most := all[0].Bytes // all blocks of a cache have one size
	for i := range all {
		all[i].Bytes = most + 3
	}
	return all
}

// TestBlocksTravel stores the blocks of one device in a file, and reads them on another, which packs them otherwise.
func TestBlocksTravel(t *testing.T) {
	dir := t.TempDir()
	open := func(l []compute.Layout) *disk {
		d, err := openDisk(dir, headerSize+4*align, newForm(l[0].Bytes, l), "a model", quiet)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	rows, columns := layouts(true), layouts(false)
	here := open(rows)
	var names []kv.Name
	var want [][]byte // canonical
	for i := range 2 {
		name, data := block(i)
		data = data[:rows[i].Bytes]
		canonical := make([]byte, rows[i].CanonicalBytes())
		if err := rows[i].Canonical(canonical, data); err != nil {
			t.Fatal(err)
		}
		if !here.Put(int32(i), name, data) {
			t.Fatal("a block is not taken")
		}
		names, want = append(names, name), append(want, canonical)
	}
	if err := here.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	there := open(columns)
	for i, name := range names {
		if stored := file[headerSize+i*align+slotHeader:]; !bytes.Equal(stored[:len(want[i])], want[i]) {
			t.Errorf("block %d is not stored in canonical form", i)
		}
		got, canonical := bytes.Repeat([]byte{7}, columns[i].Bytes), make([]byte, len(want[i]))
		if err := fetch(there, int32(i), name, got); err != nil {
			t.Fatal(err)
		}
		if err := columns[i].Canonical(canonical, got); err != nil || !bytes.Equal(canonical, want[i]) {
			t.Errorf("block %d came as another, %v", i, err)
		}
		if got[len(got)-1] != 0 {
			t.Error("what a packed block does not use is not zero")
		}
	}
	if err := there.Close(); err != nil {
		t.Fatal(err)
	}
	file[headerSize+align+slotHeader+len(want[1])-1] ^= 1 // of the last layer
	if err := os.WriteFile(filepath.Join(dir, fileName), file, 0o600); err != nil {
		t.Fatal(err)
	}
	there = open(columns)
	defer there.Close()
	if err := fetch(there, 1, names[1], make([]byte, columns[1].Bytes)); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a damaged layer: %v", err)
	}
}
