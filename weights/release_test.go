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
