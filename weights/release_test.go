package weights

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

// TestReleasedTensorsReadTheSame releases every tensor of a file, whole and in parts, and reads it again.
func TestReleasedTensorsReadTheSame(t *testing.T) {
	var want []Source
	for i := range 3 {
		want = append(want, source(t, fmt.Sprint("t", i), quant.F32, 64, 1000))
	}
	dir := folder(t, map[string]string{"x.gguf": string(ggufFile(t, nil, want...)), "x.safetensors": string(safetensorsFile(t, nil, want...))})
	for _, name := range []string{"x.gguf", "x.safetensors"} {
		c, err := Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 2 {
			for _, info := range c.Tensors() {
				x, _ := c.Tensor(info.Name)
				c.Release(x.Data)
				c.Release(x.Data[len(x.Data)/3 : len(x.Data)/2])
				c.Release(nil)
				c.Release(bytes.Clone(x.Data))
			}
			sameTensors(t, c, want)
		}
	}
}

// TestKeptTensorsOutliveClose keeps tensors of a file, closes it, and reads and releases them one by one.
func TestKeptTensorsOutliveClose(t *testing.T) {
	want := []Source{source(t, "a", quant.F32, 64, 1000), source(t, "b", quant.F32, 64, 1000)}
	dir := folder(t, map[string]string{"x.gguf": string(ggufFile(t, nil, want...))})
	c, err := Open(filepath.Join(dir, "x.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Keep(make([]byte, 8)) != nil {
		t.Error("data of no file can be kept")
	}
	m := &c.parts[0].mapping
	var data, before [][]byte
	var release []func()
	for _, name := range []string{"a", "b"} {
		x, _ := c.Tensor(name)
		data, before = append(data, x.Data), append(before, bytes.Clone(x.Data))
		release = append(release, c.Keep(x.Data))
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range data {
		if !bytes.Equal(data[i], before[i]) {
			t.Errorf("tensor %d differs after Close", i)
		}
		release[i]()
		if mapped := m.data != nil; mapped != (i == 0) {
			t.Errorf("after %d releases of 2 the file is mapped: %v", i+1, mapped)
		}
	}
}
