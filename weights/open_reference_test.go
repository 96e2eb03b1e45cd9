package weights

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/reference"
)

// TestOpenReference opens every checkpoint of the reference data, by file and by folder.
func TestOpenReference(t *testing.T) {
	opened := 0
	for _, root := range []string{"goldens", "weights", "tokenizers"} {
		err := filepath.WalkDir(reference.Path(t, root), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			isGGUF := strings.HasSuffix(path, ggufSuffix)
			if !isGGUF && !strings.HasSuffix(path, stSuffix) {
				return nil
			}
			c, err := Open(path)
			if err != nil {
				t.Error(err)
				return nil
			}
			defer c.Close()
			opened++
			if isGGUF != (c.Format() == GGUF) {
				t.Errorf("%s: format %v", path, c.Format())
			}
			for _, info := range c.Tensors() {
				tensor, ok := c.Tensor(info.Name)
				if !ok || int64(len(tensor.Data)) != info.Size {
					t.Errorf("%s: tensor %q: found %v, %d bytes, want %d", path, info.Name, ok, len(tensor.Data), info.Size)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if opened < 60 {
		t.Errorf("opened only %d files", opened)
	}
}
