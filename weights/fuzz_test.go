package weights

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

// checkInvariants checks what holds for every checkpoint that opens, whatever its file says.
func checkInvariants(t *testing.T, c *Checkpoint) {
	t.Helper()
	var end int64
	for _, info := range c.Tensors() {
		x, ok := c.Tensor(info.Name)
		if !ok || int64(len(x.Data)) != info.Size {
			t.Fatalf("tensor %q: found %v, %d bytes of %d", info.Name, ok, len(x.Data), info.Size)
		}
		want, err := quant.Type.RowBytes(x.Type, x.Values())
		if err != nil || int64(want) != info.Size {
			t.Fatalf("tensor %q: %v %v has %d bytes, RowBytes says %d, %v", info.Name, x.Type, x.Shape, info.Size, want, err)
		}
		if info.Size > 0 {
			if info.Offset < end {
				t.Fatalf("tensor %q at byte %d overlaps one that ends at %d", info.Name, info.Offset, end)
			}
			end = info.Offset + info.Size
		}
	}
	for _, k := range c.MetadataKeys() {
		if _, ok := c.Metadata()[k]; !ok {
			t.Fatalf("metadata key %q has no value", k)
		}
	}
}

// rewrite copies a checkpoint's tensors, to be written again.
func rewrite(c *Checkpoint) []Source {
	var tensors []Source
	for _, info := range c.Tensors() {
		x, _ := c.Tensor(info.Name)
		tensors = append(tensors, Source{Name: x.Name, Type: x.Type, Shape: x.Shape, Write: Bytes(x.Data)})
	}
	return tensors
}

func FuzzSafetensors(f *testing.F) {
	f.Add(safetensorsFile(f, map[string]string{"format": "pt"}, source(f, "x", quant.F32, 2, 3), source(f, "é\n", quant.F8_E4M3, 5)))
	f.Add(withHeader(`{"__metadata__":null, "x":{"dtype":"F4","shape":[2,1],"data_offsets":[0,1]}}  `, 1))
	f.Add(withHeader(`{"\u00e9\ud83d\ude00":{"data_offsets":[0,0],"shape":[0,9223372036854775807],"dtype":"U64"}}`, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := OpenBytes("x.safetensors", data)
		if err != nil {
			return
		}
		checkInvariants(t, c)
		if header := data[8 : 8+binary.LittleEndian.Uint64(data)]; !json.Valid(header) {
			t.Fatalf("accepted %q, which is not JSON", header)
		}
		var again bytes.Buffer
		meta := map[string]string{}
		for k, v := range c.Metadata() {
			meta[k] = v.(string)
		}
		tensors := rewrite(c)
		if err := WriteSafetensors(&again, tensors, meta); err != nil {
			if _, empty := c.Tensor(""); empty {
				return
			}
			t.Fatal(err)
		}
		c, err = OpenBytes("x.safetensors", again.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		checkInvariants(t, c)
		sameTensors(t, c, tensors)
	})
}

func FuzzGGUF(f *testing.F) {
	f.Add(ggufFile(f, allKinds, source(f, "x", quant.Q4_K, 2, 256), source(f, "y", quant.F32)))
	f.Add(ggufFile(f, []KV{{alignmentKey, uint32(8)}}, source(f, "x", quant.I8, 3), source(f, "y", quant.MXFP4, 1, 32)))
	f.Add(newGGUF(2, 2, 0).tensor("y", 0, 96, 1).tensor("x", 0, 0, 0, 5).data(100).b)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := OpenBytes("x.gguf", data)
		if err != nil {
			return
		}
		checkInvariants(t, c)
		var meta []KV
		for _, k := range c.MetadataKeys() {
			meta = append(meta, KV{k, c.Metadata()[k]})
		}
		var again bytes.Buffer
		tensors := rewrite(c)
		if err := WriteGGUF(&again, meta, tensors); err != nil {
			t.Fatal(err)
		}
		c, err = OpenBytes("x.gguf", again.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		checkInvariants(t, c)
		sameTensors(t, c, tensors)
	})
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":8},"weight_map":{"x":"a.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"x":"a/../b.safetensors","\u0079":"./a.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"x":"../a.safetensors"}}`))
	dir := folder(f, map[string]string{"a.safetensors": string(safetensorsFile(f, nil, source(f, "x", quant.F32, 2)))})
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseIndex(data, stSuffix)
		if err != nil {
			return
		}
		for _, e := range entries {
			if rel, err := filepath.Rel(dir, filepath.Join(dir, e.shard)); err != nil || !filepath.IsLocal(rel) {
				t.Fatalf("shard %q is outside the folder", e.shard)
			}
		}
		path := filepath.Join(dir, "x.safetensors.index.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := Open(path); err == nil {
			checkInvariants(t, c)
			c.Close()
		}
	})
}
