package weights

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

// TestAheadNamesEachPieceOnce reads shards in the order of their tensors and out of it: what is named begins with what
// is read, goes on in the next file, and is named once.
func TestAheadNamesEachPieceOnce(t *testing.T) {
	var parts []part
	sizes := []int{3*pieceBytes + 5, pieceBytes, 20 * pieceBytes, 100}
	for i, n := range sizes {
		m := mapping{path: fmt.Sprint("shard ", i), data: make([]byte, n), unmap: func([]byte) error { return nil }}
		parts = append(parts, part{mapping: m})
	}
	parts = append(parts, part{mapping: mapping{data: make([]byte, 10)}}) // in memory
	a, seen := &readAhead{}, map[*byte]bool{}
	for _, c := range []struct{ part, at, n, want int }{
		{0, pieceBytes, 10, 1},                 // not the first
		{0, pieceBytes + 10, pieceBytes, 1},    // of two
		{2, 5 * pieceBytes, 2 * pieceBytes, 2}, // in another shard
		{0, 3 * pieceBytes, 3 * pieceBytes, 4}, // 5 bytes, the second shard, and two pieces of the third
		{2, 0, 16 * pieceBytes, 12},
		{2, 19 * pieceBytes, 16 * pieceBytes, 2}, // with the last shard
		{3, 0, 100, 0},
		{4, 0, 10, 0},
	} {
		next := a.claim(parts, c.part, c.at, c.n)
		if len(next) != c.want {
			t.Errorf("%d bytes from byte %d of shard %d on name %d pieces; want %d", c.n, c.at, c.part, len(next), c.want)
		}
		for _, piece := range next {
			if seen[&piece[0]] || len(piece) == 0 || len(piece) > pieceBytes {
				t.Errorf("a piece of %d bytes is named again", len(piece))
			}
			seen[&piece[0]] = true
		}
	}
}

// TestAheadReadsTheSame reads tensors that were named, and closes while some are.
func TestAheadReadsTheSame(t *testing.T) {
	want := []Source{source(t, "a", quant.F32, 64, 1000), source(t, "b", quant.F32, 64, 1000)}
	dir := folder(t, map[string]string{"x.gguf": string(ggufFile(t, nil, want...))})
	c, err := Open(filepath.Join(dir, "x.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range c.Tensors() {
		x, _ := c.Tensor(info.Name)
		c.Ahead(x.Data)
		c.Ahead(nil)
	}
	sameTensors(t, c, want)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestRead copies tensors by way of their file, parts of them, and what is in no file.
func TestRead(t *testing.T) {
	want := []Source{source(t, "a", quant.F32, 64, 1000), source(t, "b", quant.F32, 64, 1000)}
	dir := folder(t, map[string]string{"x.gguf": string(ggufFile(t, nil, want...))})
	c, err := Open(filepath.Join(dir, "x.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, info := range c.Tensors() {
		x, _ := c.Tensor(info.Name)
		for _, part := range [][]byte{x.Data, x.Data[3:1000], x.Data[len(x.Data)-1:], nil, {1, 2, 3}} {
			got := make([]byte, len(part)+1)
			if c.Read(got, part); !bytes.Equal(got[:len(part)], part) || got[len(part)] != 0 {
				t.Errorf("%d bytes of %s are read as others", len(part), info.Name)
			}
		}
	}
	c.parts[0].file.Close() // it cannot be read any more: the mapping can
	x, _ := c.Tensor("a")
	got := make([]byte, len(x.Data))
	if c.Read(got, x.Data); !bytes.Equal(got, x.Data) {
		t.Error("without a file other bytes are read")
	}
	c.parts[0].file = nil
}
